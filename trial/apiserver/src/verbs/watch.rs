//! The watch verb. Each resource has a table in the store, and the store keeps the history of the table. A write
//! notifies the watches of the table, and each watch reads the new changes from the history.

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

/// Maximum number of changes in one batch of events.
const BATCH: usize = 256;
/// Approximate size of the objects in one batch of the initial state, in bytes.
const STATE_BATCH_BYTES: usize = 64 << 10;
/// Interval between the bookmarks of a watch.
const BOOKMARK_INTERVAL: Duration = Duration::from_mins(1);
/// Minimum time between two batches after a burst. Each batch costs the server and the client a TLS record, a system
/// call and a wake-up.
const MIN_BATCH_INTERVAL: Duration = Duration::from_millis(5);
/// Number of batches that a watch may send without a delay.
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
        /// True if this bookmark ends the initial state.
        end_of_initial: bool,
    },
    Error(ApiError),
}

/// A token bucket that limits the rate of batches. It holds at most [`BURST`] tokens, and gets one token each
/// [`MIN_BATCH_INTERVAL`].
struct RateLimiter {
    /// The time at which the bucket is full again.
    full_at: Instant,
}

impl RateLimiter {
    /// Returns the earliest time for the next batch, or `None` if the watch may send the batch now.
    fn wait_until(&self, now: Instant) -> Option<Instant> {
        let open = self.full_at.checked_sub(MIN_BATCH_INTERVAL * (BURST - 1))?;
        (open > now).then_some(open)
    }

    fn sent(&mut self, now: Instant) {
        self.full_at = self.full_at.max(now) + MIN_BATCH_INTERVAL;
    }
}

/// The part of the initial state that the watch has not sent yet. The initial state contains the objects that existed
/// when the watch loaded it.
struct InitialState {
    objects: std::vec::IntoIter<Arc<Stored>>,
    /// True if a bookmark follows the last object.
    mark_end: bool,
}

/// The point from which a watch continues after the store has undone changes.
#[derive(Clone, Copy)]
enum ResumePoint {
    /// The last value of [`Watcher::seen`] that is known to be durable.
    Version(u64),
    /// The initial state, which is not durable yet.
    InitialState {
        /// See [`InitialState::mark_end`].
        mark_end: bool,
    },
}

/// A running watch.
pub(crate) struct Watcher {
    shared: Arc<Shared>,
    resource: Arc<Resource>,
    namespace: Option<String>,
    selector: Selector,
    bookmarks: bool,
    /// The version up to which the watch has read the history.
    seen: u64,
    resume_point: ResumePoint,
    /// The [`Mark::losses`] of the store when the watch last checked it. If the store's value differs, the store has
    /// undone changes since then, and the watch rewinds.
    losses: u64,
    /// True if the history may contain changes after `seen`.
    behind: bool,
    limiter: RateLimiter,
    /// The version of the last change of the table.
    table_version: Receiver<u64>,
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
    let table_version = store.subscribe(&call.resource.table);
    let mut watcher = Watcher {
        shared: call.shared.clone(),
        resource: call.resource.clone(),
        namespace: call.namespace.clone(),
        selector,
        bookmarks,
        seen: from.unwrap_or(0),
        resume_point: ResumePoint::Version(from.unwrap_or(0)),
        losses: store.mark().losses,
        behind: true,
        limiter: RateLimiter { full_at: now },
        table_version,
        state: None,
        deadline: now + timeout,
        next_bookmark: next_bookmark(now, now + timeout),
        stopping: call.shared.stopping.clone(),
        // The timeout is zero if the client requests a negative timeout. Such a watch ends before its first event.
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
        let durable = watcher.seen.min(store.durable_version());
        watcher.resume_point = ResumePoint::Version(durable);
    }
    Ok(watcher)
}

impl Watcher {
    /// Returns the next events after their changes are durable. Returns `None` at the end of the watch.
    pub(crate) async fn next(&mut self) -> Option<Vec<WatchEvent>> {
        loop {
            let batch = self.next_batch().await?;
            let mark = Mark {
                version: self.seen,
                losses: self.losses,
            };
            // A client may resume a watch at any version that it receives. Therefore the watch sends only durable
            // versions.
            match self.shared.store.wait_durable(mark).await {
                Ok(()) => {
                    self.resume_point = ResumePoint::Version(self.seen);
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

    /// Resets the watch after the store has undone changes. The watch continues at its last durable version, or loads
    /// the initial state again if this state was not durable.
    fn rewind(&mut self) {
        self.losses = self.shared.store.mark().losses;
        self.behind = true;
        match self.resume_point {
            ResumePoint::Version(version) => self.seen = version,
            ResumePoint::InitialState { mark_end } => self.load_state(mark_end),
        }
    }

    /// Loads the current objects as the initial state. The watch sends these objects as ADDED events.
    fn load_state(&mut self, mark_end: bool) {
        self.resume_point = ResumePoint::InitialState { mark_end };
        let namespace = self.namespace.as_deref();
        let page = self.shared.store.list(&self.resource.table, namespace);
        self.seen = page.version;
        self.state = Some(InitialState {
            objects: page.items.into_iter(),
            mark_end,
        });
    }

    /// Returns the next batch of the initial state. Batches are small, because the server keeps a batch in memory for
    /// each slow client.
    fn next_initial_batch(&mut self) -> Vec<WatchEvent> {
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
            let batch = self.next_initial_batch();
            if !batch.is_empty() {
                return Some(batch);
            }
        }
        while !self.done {
            if self.behind || self.table_version.has_changed().unwrap_or(true) {
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
                changed = self.table_version.changed() => {
                    // `changed` marks the new value as seen, so `has_changed` does not report this write later.
                    self.behind = true;
                    self.done = changed.is_err();
                }
                () = tokio::time::sleep_until(self.deadline) => self.done = true,
                () = self.stopping.cancelled() => self.done = true,
                () = tokio::time::sleep_until(self.next_bookmark), if self.bookmarks => {
                    self.next_bookmark = next_bookmark(Instant::now(), self.deadline);
                    self.seen = self.seen.max(self.version_for_bookmark());
                    return Some(vec![self.bookmark(false)]);
                }
            }
        }
        None
    }

    /// Reads the next changes after `seen`, and returns the events of the selected objects. Rewinds the watch and
    /// returns no events if the store has undone changes.
    fn advance(&mut self) -> Vec<WatchEvent> {
        self.table_version.borrow_and_update();
        if self.losses != self.shared.store.mark().losses {
            self.rewind();
            return Vec::new();
        }
        let store = &self.shared.store;
        if self.seen <= store.durable_version() {
            self.resume_point = ResumePoint::Version(self.seen);
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

    /// Returns the version of the store if the table has no changes after `seen`. Returns `seen` otherwise.
    fn version_for_bookmark(&self) -> u64 {
        let table = &self.resource.table;
        match self.shared.store.changes_after(table, self.seen, 1) {
            Ok((changes, upto)) if changes.is_empty() => upto,
            _ => self.seen,
        }
    }

    /// Returns the event for a change if the watch selects the object before or after the change.
    fn event(&self, change: &Change) -> Option<WatchEvent> {
        match change {
            Change::Added(new) => self.selects(new).then(|| WatchEvent::Added(new.clone())),
            Change::Deleted { old, last } => {
                self.selects(old).then(|| WatchEvent::Deleted(last.clone()))
            }
            Change::Modified { old, new } => match (self.selects(old), self.selects(new)) {
                (true, true) => Some(WatchEvent::Modified(new.clone())),
                (false, true) => Some(WatchEvent::Added(new.clone())),
                // The event contains the last state that the watch selects, with the resourceVersion of the change.
                (true, false) => Some(WatchEvent::Deleted(at_version(old, new.version))),
                (false, false) => None,
            },
        }
    }
}

/// Returns a copy of the object with another resourceVersion.
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
        // The end of the watch is too close for another bookmark.
        assert_eq!(after(2), BOOKMARK_INTERVAL);
    }

    #[test]
    fn batches_wait_only_above_the_rate_limit() {
        let start = Instant::now();
        let mut limiter = RateLimiter { full_at: start };
        for _ in 0..BURST {
            assert_eq!(limiter.wait_until(start), None);
            limiter.sent(start);
        }
        assert_eq!(limiter.wait_until(start), Some(start + MIN_BATCH_INTERVAL));
        assert_eq!(limiter.wait_until(start + MIN_BATCH_INTERVAL), None);

        let mut limiter = RateLimiter { full_at: start };
        for step in 0..1000 {
            let now = start + MIN_BATCH_INTERVAL * step;
            assert_eq!(
                limiter.wait_until(now),
                None,
                "one batch each MIN_BATCH_INTERVAL never waits"
            );
            limiter.sent(now);
        }
    }
}
