//! The index of objects by their uid and by the uids of their owners. Every write updates the index, so that garbage
//! collection does not scan the objects.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::TableName;
use super::object::{Key, Stored};

/// The location of an object in the store: its table and its key.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct ObjectLocation {
    pub(crate) table: TableName,
    pub(crate) key: Key,
}

/// The locations of objects by their uid, and by the uids of their owners.
#[derive(Debug, Default)]
pub(crate) struct OwnerIndex {
    by_uid: HashMap<Box<str>, ObjectLocation>,
    by_owner: HashMap<Box<str>, HashSet<ObjectLocation>>,
}

impl OwnerIndex {
    pub(crate) fn replace(
        &mut self,
        table: &TableName,
        old: Option<&Arc<Stored>>,
        new: Option<&Arc<Stored>>,
    ) {
        if let (Some(old), Some(new)) = (old, new)
            && old.uid == new.uid
            && old.owners == new.owners
        {
            return;
        }
        if let Some(old) = old {
            let location = ObjectLocation {
                table: table.clone(),
                key: old.key.clone(),
            };
            self.by_uid.remove(&old.uid);
            for owner in &old.owners {
                if let Some(set) = self.by_owner.get_mut(&owner.uid) {
                    set.remove(&location);
                    if set.is_empty() {
                        self.by_owner.remove(&owner.uid);
                    }
                }
            }
        }
        if let Some(new) = new {
            let location = ObjectLocation {
                table: table.clone(),
                key: new.key.clone(),
            };
            for owner in &new.owners {
                self.by_owner
                    .entry(owner.uid.clone())
                    .or_default()
                    .insert(location.clone());
            }
            self.by_uid.insert(new.uid.clone(), location);
        }
    }

    pub(crate) fn dependents(&self, uid: &str) -> Vec<ObjectLocation> {
        self.by_owner
            .get(uid)
            .map(|set| set.iter().cloned().collect())
            .unwrap_or_default()
    }

    pub(crate) fn exists(&self, uid: &str) -> bool {
        self.by_uid.contains_key(uid)
    }

    pub(crate) fn locate(&self, uid: &str) -> Option<ObjectLocation> {
        self.by_uid.get(uid).cloned()
    }
}
