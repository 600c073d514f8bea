//! The objects of one kind, as they are and as they were lately.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use tokio::sync::watch;

use super::history::{Change, History, TooOld};
use super::{Key, Stored};

#[derive(Debug)]
pub(super) struct Table {
    pub(super) objects: BTreeMap<Key, Arc<Stored>>,
    pub(super) history: History,
    /// The version of the last change.
    pub(super) wake: watch::Sender<u64>,
}

impl Table {
    /// One whose history begins with this version.
    pub(super) fn new(version: u64) -> Self {
        Self {
            objects: BTreeMap::new(),
            history: History::starting_at(version),
            wake: watch::Sender::new(version),
        }
    }

    /// One that nothing was ever written to: whatever version a client names, it has missed nothing.
    pub(super) fn untouched() -> Self {
        Self::new(0)
    }

    /// The objects of a namespace, or all of them, in the order of their keys.
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

    /// The same as of `version`.
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

    /// Puts what a change has made in its place.
    pub(super) fn replace(&mut self, change: &Change) {
        match change {
            Change::Deleted { .. } => drop(self.objects.remove(&change.current().key)),
            other => {
                let object = other.current();
                self.objects.insert(object.key.clone(), object.clone());
            }
        }
    }

    /// Remembers a change, and wakes those who wait for one.
    pub(super) fn tell(&mut self, change: Change) {
        let version = change.version();
        self.history.push(change);
        self.wake.send_replace(version);
    }
}
