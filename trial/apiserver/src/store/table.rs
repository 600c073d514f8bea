//! A table of the store: the current objects of one resource, and their recent history.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use tokio::sync::watch;

use super::history::{Change, History, TooOld};
use super::{Key, Stored};

/// The objects and history of one table.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) objects: BTreeMap<Key, Arc<Stored>>,
    pub(super) history: History,
    /// A channel with the version of the latest change. Each change notifies the watches that wait on the channel.
    pub(super) latest_version: watch::Sender<u64>,
}

impl Table {
    /// Creates an empty table whose history starts at a version.
    pub(super) fn new(version: u64) -> Self {
        Self {
            objects: BTreeMap::new(),
            history: History::starting_at(version),
            latest_version: watch::Sender::new(version),
        }
    }

    /// Creates a table without writes. Its history covers all versions, so a watch can start at any version.
    pub(super) fn never_written() -> Self {
        Self::new(0)
    }

    /// Returns the objects of a namespace, or of all namespaces, in the order of their keys.
    pub(super) fn list(&self, namespace: Option<&str>) -> Vec<Arc<Stored>> {
        let Some(namespace) = namespace else {
            return self.objects.values().cloned().collect();
        };
        let from = Key::new(namespace, "");
        self.objects
            .range((Bound::Included(from), Bound::Unbounded))
            .take_while(|(key, _)| *key.namespace == *namespace)
            .map(|(_, object)| object.clone())
            .collect()
    }

    /// Returns the objects that the table had at an earlier version.
    pub(super) fn list_at(
        &self,
        namespace: Option<&str>,
        version: u64,
    ) -> Result<Vec<Arc<Stored>>, TooOld> {
        let mut undone: BTreeMap<Key, Option<Arc<Stored>>> = BTreeMap::new();
        for change in self.history.undo_to(version)? {
            undone.insert(change.current().key.clone(), change.before().cloned());
        }
        let items = self.list(namespace);
        if undone.is_empty() {
            return Ok(items);
        }
        let keyed = items.into_iter().map(|object| (object.key.clone(), object));
        let mut then: BTreeMap<Key, Arc<Stored>> = keyed.collect();
        for (key, before) in undone {
            match before {
                Some(object) if namespace.is_none_or(|n| *key.namespace == *n) => {
                    drop(then.insert(key, object));
                }
                _ => drop(then.remove(&key)),
            }
        }
        Ok(then.into_values().collect())
    }

    /// Applies a change to the objects.
    pub(super) fn apply(&mut self, change: &Change) {
        match change {
            Change::Deleted { .. } => drop(self.objects.remove(&change.current().key)),
            other => {
                let object = other.current();
                self.objects.insert(object.key.clone(), object.clone());
            }
        }
    }

    /// Adds a change to the history and notifies the watches.
    pub(super) fn notify(&mut self, change: Change) {
        let version = change.version();
        self.history.push(change);
        self.latest_version.send_replace(version);
    }
}
