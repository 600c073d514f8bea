//! watch: each reader pulls from the table's history at its own pace, woken by writes.

mod event;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use bytes::{BufMut, Bytes, BytesMut};
use futures::stream;
use http::Response;
use serde_json::json;
use tokio::sync::watch::Receiver;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{Call, read};
use crate::error::ApiError;
use crate::http::accept::Rendering;
use crate::http::query::Query;
use crate::http::respond;
use crate::registry::Resource;
use crate::selector::Selector;
use crate::shared::Shared;
use crate::store::{Change, Mark, Stored, Unkept};
use crate::table::{self, Include};
use event::{EventType, at_version, encode};

/// Changes taken from the history at once.
const BATCH: usize = 256;
/// About so much of what exists at the beginning is told at once.
const STATE_CHUNK: usize = 64 << 10;
/// Time between bookmarks of a quiet watch.
const BOOKMARK_EVERY: Duration = Duration::from_mins(1);
/// Under load, changes share chunks: no more than one chunk of a watch in this time, once [`AT_ONCE`] have gone
/// out without a pause. Each chunk costs both sides a record, a system call and a wake-up.
const SPACING: Duration = Duration::from_millis(5);
/// A watch that is about to end tells a little before where its client can go on.
const BOOKMARK_BEFORE_END: Duration = Duration::from_secs(2);
/// So many chunks go out as soon as there is something to say.
const AT_ONCE: u32 = 20;
/// How long a watch lasts if the client does not say.
const DEFAULT_TIMEOUT: Duration = Duration::from_mins(45);

/// When chunks may go out: a bucket of [`AT_ONCE`] that fills by one each [`SPACING`].
struct Pace {
    /// When the bucket is full again.
    due: Instant,
}

impl Pace {
    /// Until when the next chunk has to wait, if it has to.
    fn pause(&self, now: Instant) -> Option<Instant> {
        let open = self.due.checked_sub(SPACING * AT_ONCE)?;
        (open > now).then_some(open)
    }

    fn sent(&mut self, now: Instant) {
        self.due = self.due.max(now) + SPACING;
    }
}

/// What existed when a watch began, as far as it is not told yet.
struct State {
    left: std::vec::IntoIter<Arc<Stored>>,
    /// Whether a bookmark says where it ends.
    mark_end: bool,
}

#[expect(
    clippy::struct_excessive_bools,
    reason = "what has happened and what was asked for are independent"
)]
struct Watcher {
    shared: Arc<Shared>,
    resource: Arc<Resource>,
    namespace: Option<String>,
    selector: Selector,
    rendering: Rendering,
    include: Include,
    headers_sent: bool,
    bookmarks: bool,
    seen: u64,
    /// Up to here everything that was seen is kept for sure.
    sure: u64,
    /// How often changes had been undone when it looked last.
    losses: u64,
    /// Whether a bookmark says where the state at the beginning ends; none without such a state, or when it is kept.
    begin: Option<bool>,
    /// Whether there may be changes after `seen` that `wake` says nothing of.
    behind: bool,
    pace: Pace,
    wake: Receiver<u64>,
    state: Option<State>,
    deadline: Instant,
    next_bookmark: Instant,
    stopping: CancellationToken,
    done: bool,
}

pub(crate) fn watch(call: &Call, query: &Query) -> Result<Response<Body>, ApiError> {
    let selector = read::selector(call, query)?;
    let bookmarks = query.flag("allowWatchBookmarks");
    let streaming = query.flag("sendInitialEvents");
    read::options::check_watch(query)?;
    let from = query.resource_version().map_err(ApiError::unknown)?;
    let lasts = query.lasts()?.unwrap_or(DEFAULT_TIMEOUT);
    let include = read::include(call, query)?;
    let now = Instant::now();
    let wake = call.shared.store.subscribe(&call.resource.table);
    let mut watcher = Watcher {
        shared: call.shared.clone(),
        resource: call.resource.clone(),
        namespace: call.namespace.clone(),
        selector,
        rendering: call.rendering,
        include,
        headers_sent: false,
        bookmarks,
        seen: from.unwrap_or(0),
        sure: from.unwrap_or(0),
        losses: call.shared.store.mark().losses,
        begin: None,
        behind: true,
        pace: Pace { due: now },
        wake,
        state: None,
        deadline: now + lasts,
        next_bookmark: next_bookmark(now, now + lasts),
        stopping: call.shared.stopping.clone(),
        // Less than nothing is over before anything is told.
        done: lasts.is_zero(),
    };
    let unset = from.is_none_or(|v| v == 0);
    if watcher.done {
        // Nothing is told.
    } else if streaming || (unset && !query.has("sendInitialEvents")) {
        watcher.take_state(streaming && bookmarks);
    } else if unset {
        watcher.seen = call.shared.store.version();
        watcher.sure = watcher.seen.min(call.shared.store.kept_version());
    }
    let body = stream::unfold(watcher, |mut w| async move {
        loop {
            let chunk = w.next().await?;
            // A client that has seen a version may come back for what follows it.
            match w.shared.store.kept(w.mark()).await {
                Ok(()) => {
                    (w.sure, w.begin) = (w.seen, None);
                    return Some((Ok::<_, Infallible>(chunk), w));
                }
                Err(Unkept::Lost(_)) => w.rewind(),
                Err(Unkept::Closed(_)) => return None,
            }
        }
    });
    Ok(read::warn_deprecated(
        call,
        respond::endless(Body::from_stream(body)),
    ))
}

impl Watcher {
    fn wants(&self, object: &Stored) -> bool {
        self.namespace
            .as_deref()
            .is_none_or(|n| *object.key.namespace == *n)
            && self.selector.matches(object, &self.resource)
    }

    fn mark(&self) -> Mark {
        Mark {
            version: self.seen,
            losses: self.losses,
        }
    }

    /// Goes back to what is kept for sure, after changes were undone.
    fn rewind(&mut self) {
        self.losses = self.shared.store.mark().losses;
        self.behind = true;
        match self.begin {
            Some(mark_end) => self.take_state(mark_end),
            None => self.seen = self.sure,
        }
    }

    /// Notes what exists now, to be told as ADDED events.
    fn take_state(&mut self, mark_end: bool) {
        self.begin = Some(mark_end);
        let namespace = self.namespace.as_deref();
        let page = self.shared.store.list(&self.resource.table, namespace);
        self.seen = page.version;
        self.state = Some(State {
            left: page.items.into_iter(),
            mark_end,
        });
    }

    /// The next part of what existed at the beginning. Encoded when it can be sent and not before: a client may take
    /// its time, and there may be many such clients.
    fn next_of_state(&mut self) -> Option<Bytes> {
        let mut state = self.state.take()?;
        let mut out = BytesMut::new();
        while out.len() < STATE_CHUNK
            && let Some(object) = state.left.next()
        {
            if self.selector.matches(&object, &self.resource) {
                self.tell(&mut out, EventType::Added, object);
            }
        }
        if !state.left.as_slice().is_empty() {
            self.state = Some(state);
        } else if state.mark_end {
            out.put_slice(self.bookmark(true).as_bytes());
        }
        (!out.is_empty()).then(|| out.freeze())
    }

    fn tell(&mut self, out: &mut BytesMut, kind: EventType, object: Arc<Stored>) {
        let sent = &mut self.headers_sent;
        let event = (kind, object);
        encode(
            out,
            &self.resource,
            self.rendering,
            self.include,
            sent,
            &event,
        );
    }

    fn bookmark(&self, end_of_initial: bool) -> String {
        let mut meta = json!({"resourceVersion": self.seen.to_string()});
        if end_of_initial {
            meta["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let object = match self.rendering {
            Rendering::Full => {
                json!({"kind": self.resource.kind, "apiVersion": self.resource.api_version(), "metadata": meta})
            }
            Rendering::Partial => {
                json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": meta})
            }
            Rendering::Table => {
                // The cells of an object that has nothing but a version.
                let nothing = json!({"metadata": meta});
                let mut row = table::row(&self.resource, &nothing, Include::Metadata);
                if row["cells"][0].is_null() {
                    row["cells"][0] = json!("");
                }
                json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1", "columnDefinitions": null,
                    "metadata": {"resourceVersion": self.seen.to_string()}, "rows": [row]})
            }
        };
        format!("{}\n", json!({"type": "BOOKMARK", "object": object}))
    }

    async fn next(&mut self) -> Option<Bytes> {
        while self.state.is_some() {
            if let Some(chunk) = self.next_of_state() {
                return Some(chunk);
            }
        }
        while !self.done {
            if self.behind || self.wake.has_changed().unwrap_or(true) {
                if let Some(until) = self.pace.pause(Instant::now()) {
                    tokio::select! {
                        () = tokio::time::sleep_until(until) => {}
                        () = self.stopping.cancelled() => self.done = true,
                    }
                }
                if let Some(chunk) = self.advance() {
                    self.pace.sent(Instant::now());
                    return Some(chunk);
                }
                if self.behind {
                    continue;
                }
            }
            tokio::select! {
                changed = self.wake.changed() => {
                    // To have waited for it is to have seen it.
                    self.behind = true;
                    self.done = changed.is_err();
                }
                () = tokio::time::sleep_until(self.deadline) => self.done = true,
                () = self.stopping.cancelled() => self.done = true,
                () = tokio::time::sleep_until(self.next_bookmark), if self.bookmarks => {
                    self.next_bookmark = next_bookmark(Instant::now(), self.deadline);
                    self.seen = self.seen.max(self.caught_up());
                    return Some(Bytes::from(self.bookmark(false)));
                }
            }
        }
        None
    }

    /// What has happened since `seen`, as far as the client wants to know it.
    fn advance(&mut self) -> Option<Bytes> {
        self.wake.borrow_and_update();
        if self.losses != self.shared.store.mark().losses {
            self.rewind();
            return None;
        }
        let store = &self.shared.store;
        if self.seen <= store.kept_version() {
            (self.sure, self.begin) = (self.seen, None);
        }
        match store.changes_after(&self.resource.table, self.seen, BATCH) {
            Err(_) => {
                (self.done, self.behind) = (true, false);
                let line = json!({"type": "ERROR", "object": ApiError::expired().status()});
                Some(Bytes::from(format!("{line}\n")))
            }
            Ok((changes, upto)) => {
                self.seen = self.seen.max(upto);
                self.behind = changes.len() == BATCH;
                let chunk = self.encode_changes(&changes);
                (!chunk.is_empty()).then_some(chunk)
            }
        }
    }

    /// The store's version if nothing happened to this table since `seen`.
    fn caught_up(&self) -> u64 {
        match self
            .shared
            .store
            .changes_after(&self.resource.table, self.seen, 1)
        {
            Ok((changes, upto)) if changes.is_empty() => upto,
            _ => self.seen,
        }
    }

    fn encode_changes(&mut self, changes: &[Change]) -> Bytes {
        let mut out = BytesMut::new();
        for change in changes {
            let event = match change {
                Change::Added(new) => self.wants(new).then(|| (EventType::Added, new.clone())),
                Change::Deleted { old, last } => {
                    self.wants(old).then(|| (EventType::Deleted, last.clone()))
                }
                Change::Modified { old, new } => match (self.wants(old), self.wants(new)) {
                    (true, true) => Some((EventType::Modified, new.clone())),
                    (false, true) => Some((EventType::Added, new.clone())),
                    // As it was when it was last seen, at the version of the change.
                    (true, false) => Some((EventType::Deleted, at_version(old, new.version))),
                    (false, false) => None,
                },
            };
            if let Some((kind, object)) = event {
                self.tell(&mut out, kind, object);
            }
        }
        out.freeze()
    }
}

/// When a watch that ends at `deadline` sends its next bookmark.
fn next_bookmark(now: Instant, deadline: Instant) -> Instant {
    let regular = now + BOOKMARK_EVERY;
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
    fn bookmarks_come_each_minute_and_before_the_end() {
        let start = Instant::now();
        let after = |lasts| next_bookmark(start, start + Duration::from_secs(lasts)) - start;
        assert_eq!(after(600), BOOKMARK_EVERY);
        assert_eq!(after(10), Duration::from_secs(8));
        // Too late for another.
        assert_eq!(after(2), BOOKMARK_EVERY);
    }

    #[test]
    fn chunks_wait_only_where_they_come_faster_than_the_pace() {
        let start = Instant::now();
        let mut pace = Pace { due: start };
        for _ in 0..AT_ONCE {
            assert_eq!(pace.pause(start), None);
            pace.sent(start);
        }
        pace.sent(start);
        assert_eq!(pace.pause(start), Some(start + SPACING));
        assert_eq!(pace.pause(start + SPACING), None);

        let mut pace = Pace { due: start };
        for step in 0..1000 {
            let now = start + SPACING * step;
            assert_eq!(pace.pause(now), None, "steadily at the pace");
            pace.sent(now);
        }
    }
}
