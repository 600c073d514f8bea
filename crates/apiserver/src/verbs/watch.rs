//! The watch verb: each watch reads the history of its table at its own pace, woken by writes.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::sync::watch::Receiver;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{Call, read};
use crate::error::ApiError;
use crate::query::Query;
use crate::resource::Resource;
use crate::selector::Selector;
use crate::shared::Shared;
use crate::store::{Change, Mark, NotDurable, Stored};

/// Maximum changes of one batch.
const BATCH: usize = 256;
/// Approximate object bytes in one batch of the initial state.
const STATE_BATCH_BYTES: usize = 64 << 10;
/// Interval of the bookmarks of an idle watch.
const BOOKMARK_INTERVAL: Duration = Duration::from_mins(1);
/// Minimum time between two batches after a burst. Each batch costs both sides a TLS record, a system call and a wake-up.
const SPACING: Duration = Duration::from_millis(5);
/// Batches that may be sent without spacing.
const BURST: u32 = 20;
/// Time between the last bookmark and the end of a watch.
const BOOKMARK_BEFORE_END: Duration = Duration::from_secs(2);
/// Default duration of a watch.
const DEFAULT_TIMEOUT: Duration = Duration::from_mins(45);

/// An event of a watch.
#[derive(Debug)]
pub(crate) enum WatchEvent {
    Added(Arc<Stored>),
    Modified(Arc<Stored>),
    Deleted(Arc<Stored>),
    Bookmark {
        version: u64,
        /// True if the initial state is complete.
        end_of_initial: bool,
    },
    Error(ApiError),
}

/// A token bucket of [`BURST`] batches that refills by one each [`SPACING`].
struct RateLimiter {
    /// The time at which the bucket is full again.
    full_at: Instant,
}

impl RateLimiter {
    /// Returns the time until which the next batch has to wait.
    fn wait_until(&self, now: Instant) -> Option<Instant> {
        let open = self.full_at.checked_sub(SPACING * BURST)?;
        (open > now).then_some(open)
    }

    fn sent(&mut self, now: Instant) {
        self.full_at = self.full_at.max(now) + SPACING;
    }
}

/// The objects that existed when the watch began and are not sent yet.
struct InitialState {
    objects: std::vec::IntoIter<Arc<Stored>>,
    /// True if a bookmark marks the end.
    mark_end: bool,
}

/// A running watch.
pub(crate) struct Watcher {
    shared: Arc<Shared>,
    resource: Arc<Resource>,
    namespace: Option<String>,
    selector: Selector,
    bookmarks: bool,
    seen: u64,
    /// The last version whose changes are known to be durable.
    durable: u64,
    /// The number of undone writes at the last read.
    losses: u64,
    /// True if a bookmark marks the end of an initial state that is not durable yet.
    undurable_state: Option<bool>,
    /// True if there may be changes after `seen`.
    behind: bool,
    limiter: RateLimiter,
    wake: Receiver<u64>,
    state: Option<InitialState>,
    deadline: Instant,
    next_bookmark: Instant,
    stopping: CancellationToken,
    done: bool,
}

/// Starts a watch.
pub(crate) fn watch(call: &Call, query: &Query) -> Result<Watcher, ApiError> {
    let selector = read::selector(call, query)?;
    let bookmarks = query.flag("allowWatchBookmarks");
    let send_initial = query.flag("sendInitialEvents");
    read::options::check_watch(query)?;
    let from = query.resource_version().map_err(ApiError::unknown)?;
    let timeout = query.watch_timeout()?.unwrap_or(DEFAULT_TIMEOUT);
    let now = Instant::now();
    let store = &call.shared.store;
    let wake = store.subscribe(&call.resource.table);
    let mut watcher = Watcher {
        shared: call.shared.clone(),
        resource: call.resource.clone(),
        namespace: call.namespace.clone(),
        selector,
        bookmarks,
        seen: from.unwrap_or(0),
        durable: from.unwrap_or(0),
        losses: store.mark().losses,
        undurable_state: None,
        behind: true,
        limiter: RateLimiter { full_at: now },
        wake,
        state: None,
        deadline: now + timeout,
        next_bookmark: next_bookmark(now, now + timeout),
        stopping: call.shared.stopping.clone(),
        // A negative timeout ends the watch before its first event.
        done: timeout.is_zero(),
    };
    let unset = from.is_none_or(|version| version == 0);
    if watcher.done {
        return Ok(watcher);
    }
    if send_initial || (unset && !query.has("sendInitialEvents")) {
        watcher.load_state(send_initial && bookmarks);
    } else if unset {
        watcher.seen = store.version();
        watcher.durable = watcher.seen.min(store.durable_version());
    }
    Ok(watcher)
}

impl Watcher {
    /// Returns the next events once they are durable, or `None` at the end of the watch.
    pub(crate) async fn next(&mut self) -> Option<Vec<WatchEvent>> {
        loop {
            let batch = self.next_batch().await?;
            let mark = Mark {
                version: self.seen,
                losses: self.losses,
            };
            // A client may resume from any version that it has seen.
            match self.shared.store.wait_durable(mark).await {
                Ok(()) => {
                    (self.durable, self.undurable_state) = (self.seen, None);
                    return Some(batch);
                }
                Err(NotDurable::Lost(_)) => self.rewind(),
                Err(NotDurable::Closed(_)) => return None,
            }
        }
    }

    fn selects(&self, object: &Stored) -> bool {
        self.namespace
            .as_deref()
            .is_none_or(|n| *object.key.namespace == *n)
            && self.selector.matches(object, &self.resource)
    }

    /// Returns to the durable version after changes were undone.
    fn rewind(&mut self) {
        self.losses = self.shared.store.mark().losses;
        self.behind = true;
        match self.undurable_state {
            Some(mark_end) => self.load_state(mark_end),
            None => self.seen = self.durable,
        }
    }

    /// Loads the current objects, to be sent as ADDED events.
    fn load_state(&mut self, mark_end: bool) {
        self.undurable_state = Some(mark_end);
        let namespace = self.namespace.as_deref();
        let page = self.shared.store.list(&self.resource.table, namespace);
        self.seen = page.version;
        self.state = Some(InitialState {
            objects: page.items.into_iter(),
            mark_end,
        });
    }

    /// Returns the next part of the initial state. Small parts bound the memory of many slow clients.
    fn next_of_state(&mut self) -> Vec<WatchEvent> {
        let Some(mut state) = self.state.take() else {
            return Vec::new();
        };
        let (mut batch, mut bytes) = (Vec::new(), 0);
        while bytes < STATE_BATCH_BYTES
            && let Some(object) = state.objects.next()
        {
            if self.selector.matches(&object, &self.resource) {
                bytes += object.bytes.len();
                batch.push(WatchEvent::Added(object));
            }
        }
        if !state.objects.as_slice().is_empty() {
            self.state = Some(state);
        } else if state.mark_end {
            batch.push(self.bookmark(true));
        }
        batch
    }

    fn bookmark(&self, end_of_initial: bool) -> WatchEvent {
        WatchEvent::Bookmark {
            version: self.seen,
            end_of_initial,
        }
    }

    async fn next_batch(&mut self) -> Option<Vec<WatchEvent>> {
        while self.state.is_some() {
            let batch = self.next_of_state();
            if !batch.is_empty() {
                return Some(batch);
            }
        }
        while !self.done {
            if self.behind || self.wake.has_changed().unwrap_or(true) {
                if let Some(until) = self.limiter.wait_until(Instant::now()) {
                    tokio::select! {
                        () = tokio::time::sleep_until(until) => {}
                        () = self.stopping.cancelled() => self.done = true,
                    }
                }
                let batch = self.advance();
                if !batch.is_empty() {
                    self.limiter.sent(Instant::now());
                    return Some(batch);
                }
                if self.behind {
                    continue;
                }
            }
            tokio::select! {
                changed = self.wake.changed() => {
                    // `changed` marks the value as seen.
                    self.behind = true;
                    self.done = changed.is_err();
                }
                () = tokio::time::sleep_until(self.deadline) => self.done = true,
                () = self.stopping.cancelled() => self.done = true,
                () = tokio::time::sleep_until(self.next_bookmark), if self.bookmarks => {
                    self.next_bookmark = next_bookmark(Instant::now(), self.deadline);
                    self.seen = self.seen.max(self.caught_up());
                    return Some(vec![self.bookmark(false)]);
                }
            }
        }
        None
    }

    /// Returns the selected changes since `seen`.
    fn advance(&mut self) -> Vec<WatchEvent> {
        self.wake.borrow_and_update();
        if self.losses != self.shared.store.mark().losses {
            self.rewind();
            return Vec::new();
        }
        let store = &self.shared.store;
        if self.seen <= store.durable_version() {
            (self.durable, self.undurable_state) = (self.seen, None);
        }
        match store.changes_after(&self.resource.table, self.seen, BATCH) {
            Err(_) => {
                (self.done, self.behind) = (true, false);
                vec![WatchEvent::Error(ApiError::expired())]
            }
            Ok((changes, upto)) => {
                self.seen = self.seen.max(upto);
                self.behind = changes.len() == BATCH;
                changes.iter().filter_map(|c| self.event(c)).collect()
            }
        }
    }

    /// Returns the version of the store if the table has no changes after `seen`.
    fn caught_up(&self) -> u64 {
        let table = &self.resource.table;
        match self.shared.store.changes_after(table, self.seen, 1) {
            Ok((changes, upto)) if changes.is_empty() => upto,
            _ => self.seen,
        }
    }

    /// Returns the event of a change if the watch selects the object before or after it.
    fn event(&self, change: &Change) -> Option<WatchEvent> {
        match change {
            Change::Added(new) => self.selects(new).then(|| WatchEvent::Added(new.clone())),
            Change::Deleted { old, last } => {
                self.selects(old).then(|| WatchEvent::Deleted(last.clone()))
            }
            Change::Modified { old, new } => match (self.selects(old), self.selects(new)) {
                (true, true) => Some(WatchEvent::Modified(new.clone())),
                (false, true) => Some(WatchEvent::Added(new.clone())),
                // The last selected state, with the version of the change.
                (true, false) => Some(WatchEvent::Deleted(at_version(old, new.version))),
                (false, false) => None,
            },
        }
    }
}

/// Returns the object with another version.
fn at_version(object: &Arc<Stored>, version: u64) -> Arc<Stored> {
    let mut value = object.value();
    value["metadata"]["resourceVersion"] = json!(version.to_string());
    let stored = Stored::new(object.key.clone(), version, &value);
    stored.map_or_else(|_| object.clone(), Arc::new)
}

/// Returns the time of the next bookmark of a watch that ends at `deadline`.
fn next_bookmark(now: Instant, deadline: Instant) -> Instant {
    let regular = now + BOOKMARK_INTERVAL;
    let last = deadline.checked_sub(BOOKMARK_BEFORE_END);
    match last.filter(|last| *last > now) {
        Some(last) => last.min(regular),
        None => regular,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bookmarks_are_sent_each_minute_and_before_the_end() {
        let start = Instant::now();
        let after = |lasts| next_bookmark(start, start + Duration::from_secs(lasts)) - start;
        assert_eq!(after(600), BOOKMARK_INTERVAL);
        assert_eq!(after(10), Duration::from_secs(8));
        // The end is too close for another.
        assert_eq!(after(2), BOOKMARK_INTERVAL);
    }

    #[test]
    fn batches_wait_only_above_the_rate() {
        let start = Instant::now();
        let mut limiter = RateLimiter { full_at: start };
        for _ in 0..BURST {
            assert_eq!(limiter.wait_until(start), None);
            limiter.sent(start);
        }
        limiter.sent(start);
        assert_eq!(limiter.wait_until(start), Some(start + SPACING));
        assert_eq!(limiter.wait_until(start + SPACING), None);

        let mut limiter = RateLimiter { full_at: start };
        for step in 0..1000 {
            let now = start + SPACING * step;
            assert_eq!(limiter.wait_until(now), None, "steadily at the rate");
            limiter.sent(now);
        }
    }
}
