//! Events live for a while after they were last written. When that was is noted with each write, so that nobody looks
//! at those that live on.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::Value;

use crate::shared::Shared;
use crate::store::{Change, Key, Store, TableName, Unkept};

const EVENTS: &str = "events";
/// Between two sweeps, unless events live for less than that.
const SWEEP: Duration = Duration::from_mins(1);

/// When each event was last written.
#[derive(Debug, Default)]
pub(crate) struct LastWrites {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// By version, and thereby by time.
    order: BTreeMap<u64, Written>,
    versions: HashMap<Key, u64>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Written {
    key: Key,
    /// Seconds of the Unix epoch.
    at: i64,
}

impl Inner {
    fn note(&mut self, key: &Key, version: u64, at: i64) {
        self.forget(key);
        let key = key.clone();
        self.versions.insert(key.clone(), version);
        self.order.insert(version, Written { key, at });
    }

    fn forget(&mut self, key: &Key) {
        if let Some(version) = self.versions.remove(key) {
            self.order.remove(&version);
        }
    }
}

impl LastWrites {
    /// Takes in what a store held before it told of changes.
    pub(crate) fn load(&self, store: &Store) {
        let mut inner = self.inner.lock();
        for event in store.list(EVENTS, None).items {
            let at = last_write(&event.value()).unwrap_or_else(Timestamp::now);
            inner.note(&event.key, event.version, at.as_second());
        }
    }

    /// Notes a change. Called with the store locked.
    pub(crate) fn observe(&self, table: &str, change: &Change) {
        if table != EVENTS {
            return;
        }
        let event = change.current();
        let mut inner = self.inner.lock();
        match change {
            Change::Deleted { .. } => inner.forget(&event.key),
            _ => inner.note(&event.key, event.version, Timestamp::now().as_second()),
        }
    }

    /// Takes those out that were last written before a time, with their versions.
    fn before(&self, time: i64) -> Vec<(Key, u64)> {
        let mut inner = self.inner.lock();
        let mut old = Vec::new();
        while let Some(first) = inner.order.first_entry() {
            if first.get().at >= time {
                break;
            }
            let (version, written) = first.remove_entry();
            inner.versions.remove(&written.key);
            old.push((written.key, version));
        }
        old
    }
}

pub(super) async fn expire(shared: Arc<Shared>, lifetime: Duration) {
    let table: TableName = EVENTS.into();
    loop {
        tokio::select! {
            () = shared.stopping.cancelled() => return,
            () = tokio::time::sleep(SWEEP.min(lifetime)) => {}
        }
        if shared.store.refuses() {
            continue;
        }
        let before = shared.store.mark();
        sweep(&shared, &table, lifetime);
        match shared.store.kept_since(before).await {
            Ok(()) => {}
            // Those that are there again expire another time.
            Err(Unkept::Lost(_)) => shared.last_writes.load(&shared.store),
            Err(Unkept::Closed(_)) => return,
        }
    }
}

fn sweep(shared: &Shared, table: &TableName, lifetime: Duration) {
    let lifetime = i64::try_from(lifetime.as_secs()).unwrap_or(i64::MAX);
    let begin = Timestamp::now().as_second().saturating_sub(lifetime);
    for (key, version) in shared.last_writes.before(begin) {
        let Some(event) = shared.store.get(table, &key) else {
            continue;
        };
        // A write in between gives the event another life.
        drop(
            shared
                .store
                .remove(table, &key, version, &mut event.value()),
        );
    }
}

/// When the event was written, as far as the server itself has noted. What the event says of when it happened does not
/// count: whoever sends it can make that up.
fn last_write(event: &Value) -> Option<Timestamp> {
    let meta = &event["metadata"];
    let managers = meta["managedFields"].as_array().into_iter().flatten();
    managers
        .map(|manager| &manager["time"])
        .chain([&meta["creationTimestamp"]])
        .filter_map(|time| time.as_str()?.parse().ok())
        .max()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::store::Stored;

    #[test]
    fn the_latest_write_counts_and_not_what_the_event_says() {
        let mut event = json!({
            "metadata": {"creationTimestamp": "2024-01-01T01:00:00Z",
                "managedFields": [{"time": "2024-01-01T02:00:00Z"}]},
            "lastTimestamp": "2099-01-01T00:00:00Z",
        });
        let at = |event: &Value| last_write(event).unwrap().to_string();
        assert_eq!(at(&event), "2024-01-01T02:00:00Z");
        event["metadata"]["managedFields"] = json!([]);
        assert_eq!(at(&event), "2024-01-01T01:00:00Z");
    }

    #[test]
    fn only_those_that_were_not_written_since_are_taken() {
        let (writes, key) = (LastWrites::default(), |name: &str| Key::new("n", name));
        for (name, version, at) in [("a", 1, 10), ("b", 2, 20), ("c", 3, 20), ("d", 4, 40)] {
            writes.inner.lock().note(&key(name), version, at);
        }
        // Another write of the first, and the end of the third.
        writes.inner.lock().note(&key("a"), 5, 50);
        let gone = Arc::new(Stored::new(key("c"), 6, &json!({})).unwrap());
        let (old, last) = (gone.clone(), gone);
        writes.observe(EVENTS, &Change::Deleted { old, last });
        assert_eq!(writes.before(40), [(key("b"), 2)]);
        assert_eq!(writes.before(40), []);
        assert_eq!(writes.before(100), [(key("d"), 4), (key("a"), 5)]);
        assert!(writes.inner.lock().versions.is_empty());
    }
}
