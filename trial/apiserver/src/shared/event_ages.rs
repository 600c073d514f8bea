//! The time of the last write of each Kubernetes Event. Every change updates this index, so that the expiry of events
//! does not scan all events.

use std::collections::{BTreeMap, HashMap};

use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::Value;

use crate::store::{Change, Key, Store};
use crate::table_names::EVENTS;

/// The index of the last writes of events.
#[derive(Debug, Default)]
pub(crate) struct EventAges {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// The last writes by version. This order is also the order of time.
    by_version: BTreeMap<u64, LastWrite>,
    versions: HashMap<Key, u64>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct LastWrite {
    key: Key,
    /// Time of the write in seconds of the Unix epoch.
    at: i64,
}

impl Inner {
    fn record(&mut self, key: &Key, version: u64, at: i64) {
        self.remove(key);
        let key = key.clone();
        self.versions.insert(key.clone(), version);
        self.by_version.insert(version, LastWrite { key, at });
    }

    fn remove(&mut self, key: &Key) {
        if let Some(version) = self.versions.remove(key) {
            self.by_version.remove(&version);
        }
    }
}

impl EventAges {
    /// Loads the events of a store into the index.
    pub(crate) fn load(&self, store: &Store) {
        let mut inner = self.inner.lock();
        for event in store.list(EVENTS, None).items {
            let at = last_write(&event.value()).unwrap_or_else(Timestamp::now);
            inner.record(&event.key, event.version, at.as_second());
        }
    }

    /// Updates the index after a change. The caller has locked the store.
    pub(crate) fn observe(&self, table: &str, change: &Change) {
        if table != EVENTS {
            return;
        }
        let event = change.current();
        let mut inner = self.inner.lock();
        match change {
            Change::Deleted { .. } => inner.remove(&event.key),
            _ => inner.record(&event.key, event.version, Timestamp::now().as_second()),
        }
    }

    /// Removes and returns the events whose last write is before a time, with their versions.
    pub(crate) fn take_older_than(&self, time: i64) -> Vec<(Key, u64)> {
        let mut inner = self.inner.lock();
        let mut expired = Vec::new();
        while let Some(first) = inner.by_version.first_entry() {
            if first.get().at >= time {
                break;
            }
            let (version, event) = first.remove_entry();
            inner.versions.remove(&event.key);
            expired.push((event.key, version));
        }
        expired
    }
}

/// Returns the time of the last write that the server recorded in the metadata. The timestamps of the event itself come
/// from clients and are ignored.
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
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::store::Stored;

    #[test]
    fn the_last_write_ignores_the_timestamps_of_the_event() {
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
    fn only_events_without_a_later_write_are_expired() {
        let (ages, key) = (EventAges::default(), |name: &str| Key::new("n", name));
        for (name, version, at) in [("a", 1, 10), ("b", 2, 20), ("c", 3, 20), ("d", 4, 40)] {
            ages.inner.lock().record(&key(name), version, at);
        }
        // The first event is written again, and the third is deleted.
        ages.inner.lock().record(&key("a"), 5, 50);
        let gone = Arc::new(Stored::new(key("c"), 6, &json!({})).unwrap());
        let (old, last) = (gone.clone(), gone);
        ages.observe(EVENTS, &Change::Deleted { old, last });
        assert_eq!(ages.take_older_than(40), [(key("b"), 2)]);
        assert_eq!(ages.take_older_than(40), []);
        assert_eq!(ages.take_older_than(100), [(key("d"), 4), (key("a"), 5)]);
        assert!(ages.inner.lock().versions.is_empty());
    }
}
