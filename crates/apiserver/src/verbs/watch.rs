//! watch: each reader pulls from the table's history at its own pace, woken by writes.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use bytes::{BufMut, Bytes, BytesMut};
use futures::stream;
use http::Response;
use serde_json::{Value, json};
use tokio::sync::watch::Receiver;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{Call, read, view_bytes};
use crate::error::ApiError;
use crate::http::accept::Rendering;
use crate::http::query::Query;
use crate::http::respond;
use crate::registry::Resource;
use crate::selector::Selector;
use crate::shared::Shared;
use crate::store::{Change, Stored};
use crate::table::{self, Include};

/// Changes taken from the history at once.
const BATCH: usize = 256;
/// Time between bookmarks of a quiet watch.
const BOOKMARK_EVERY: Duration = Duration::from_mins(1);
/// How long a watch lasts if the client does not say.
const DEFAULT_TIMEOUT: Duration = Duration::from_mins(45);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EventType {
    Added,
    Modified,
    Deleted,
}

impl EventType {
    fn name(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
        }
    }
}

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
    wake: Receiver<u64>,
    initial: VecDeque<Bytes>,
    deadline: Instant,
    next_bookmark: Instant,
    stopping: CancellationToken,
    done: bool,
}

pub(crate) fn watch(call: &Call, query: &Query) -> Result<Response<Body>, ApiError> {
    let selector = read::selector(call, query)?;
    let bookmarks = query.flag("allowWatchBookmarks");
    let streaming = query.flag("sendInitialEvents");
    if streaming && query.get("resourceVersionMatch") != Some("NotOlderThan") {
        return Err(ApiError::bad_request(
            "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
        ));
    }
    let from = query.resource_version()?;
    let timeout = query
        .number("timeoutSeconds")?
        .filter(|t| *t > 0)
        .map_or(DEFAULT_TIMEOUT, Duration::from_secs);
    let include = match query.get("includeObject") {
        Some("None") => Include::None,
        Some("Object") => Include::Object,
        _ => Include::Metadata,
    };
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
        wake,
        initial: VecDeque::new(),
        deadline: now + timeout,
        next_bookmark: now + BOOKMARK_EVERY,
        stopping: call.shared.stopping.clone(),
        done: false,
    };
    let unset = from.is_none_or(|v| v == 0);
    if streaming || (unset && query.get("sendInitialEvents").is_none()) {
        watcher.send_state(streaming && bookmarks);
    } else if unset {
        watcher.seen = call.shared.store.version();
    }
    let body = stream::unfold(watcher, |mut w| async move {
        w.next().await.map(|chunk| (Ok::<_, Infallible>(chunk), w))
    });
    Ok(read::warn_deprecated(
        call,
        respond::stream(Body::from_stream(body)),
    ))
}

impl Watcher {
    fn wants(&self, object: &Stored) -> bool {
        self.namespace
            .as_deref()
            .is_none_or(|n| *object.key.namespace == *n)
            && self.selector.matches(object, &self.resource)
    }

    /// Queues what exists now as ADDED events.
    fn send_state(&mut self, mark_end: bool) {
        let page = self
            .shared
            .store
            .list(&self.resource.table, self.namespace.as_deref());
        self.seen = page.version;
        let mut out = BytesMut::new();
        for object in page
            .items
            .iter()
            .filter(|o| self.selector.matches(o, &self.resource))
        {
            let event = (EventType::Added, object.clone());
            encode(
                &mut out,
                &self.resource,
                self.rendering,
                self.include,
                &mut self.headers_sent,
                &event,
            );
            if out.len() > 64 << 10 {
                self.initial.push_back(out.split().freeze());
            }
        }
        if mark_end {
            out.put_slice(self.bookmark(true).as_bytes());
        }
        if !out.is_empty() {
            self.initial.push_back(out.freeze());
        }
    }

    fn bookmark(&self, end_of_initial: bool) -> String {
        let mut meta = json!({"resourceVersion": self.seen.to_string(), "creationTimestamp": null});
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
                let row = json!({"cells": [], "object":
                    {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": meta}});
                json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1", "columnDefinitions": null,
                    "metadata": {"resourceVersion": self.seen.to_string()}, "rows": [row]})
            }
        };
        format!("{}\n", json!({"type": "BOOKMARK", "object": object}))
    }

    async fn next(&mut self) -> Option<Bytes> {
        if let Some(chunk) = self.initial.pop_front() {
            return Some(chunk);
        }
        while !self.done {
            self.wake.borrow_and_update();
            match self
                .shared
                .store
                .changes_after(&self.resource.table, self.seen, BATCH)
            {
                Err(_) => {
                    self.done = true;
                    let line = json!({"type": "ERROR", "object": ApiError::expired().status()});
                    return Some(Bytes::from(format!("{line}\n")));
                }
                Ok((changes, upto)) => {
                    self.seen = self.seen.max(upto);
                    let chunk = self.encode_changes(&changes);
                    if !chunk.is_empty() {
                        return Some(chunk);
                    }
                    if changes.len() == BATCH {
                        continue;
                    }
                }
            }
            tokio::select! {
                changed = self.wake.changed() => self.done = changed.is_err(),
                () = tokio::time::sleep_until(self.deadline) => self.done = true,
                () = self.stopping.cancelled() => self.done = true,
                () = tokio::time::sleep_until(self.next_bookmark), if self.bookmarks => {
                    self.next_bookmark = Instant::now() + BOOKMARK_EVERY;
                    self.seen = self.seen.max(self.caught_up());
                    return Some(Bytes::from(self.bookmark(false)));
                }
            }
        }
        None
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
                    (true, false) => Some((EventType::Deleted, new.clone())),
                    (false, false) => None,
                },
            };
            if let Some(event) = event {
                encode(
                    &mut out,
                    &self.resource,
                    self.rendering,
                    self.include,
                    &mut self.headers_sent,
                    &event,
                );
            }
        }
        out.freeze()
    }
}

fn encode(
    out: &mut BytesMut,
    resource: &Resource,
    rendering: Rendering,
    include: Include,
    headers_sent: &mut bool,
    (kind, object): &(EventType, Arc<Stored>),
) {
    out.put_slice(b"{\"type\":\"");
    out.put_slice(kind.name().as_bytes());
    out.put_slice(b"\",\"object\":");
    match rendering {
        Rendering::Full => out.put_slice(&view_bytes(object, resource)),
        Rendering::Partial => out.put_slice(table::partial(&object.value()).to_string().as_bytes()),
        Rendering::Table => {
            let columns = if *headers_sent {
                Value::Null
            } else {
                table::definitions(resource)
            };
            *headers_sent = true;
            let value = object.value();
            let table = json!({
                "kind": "Table", "apiVersion": "meta.k8s.io/v1", "columnDefinitions": columns,
                "metadata": {"resourceVersion": object.version.to_string()},
                "rows": [table::row(resource, &value, include)],
            });
            out.put_slice(table.to_string().as_bytes());
        }
    }
    out.put_slice(b"}\n");
}
