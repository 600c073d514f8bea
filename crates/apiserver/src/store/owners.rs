//! Who owns whom, by uid: kept in step with every write so that garbage collection never has to scan.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::TableName;
use super::object::{Key, Stored};

/// An object, by place.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Dependent {
    pub(crate) table: TableName,
    pub(crate) key: Key,
}

#[derive(Debug, Default)]
pub(crate) struct OwnerIndex {
    places: HashMap<Box<str>, Dependent>,
    by_owner: HashMap<Box<str>, HashSet<Dependent>>,
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
            let place = Dependent {
                table: table.clone(),
                key: old.key.clone(),
            };
            self.places.remove(&old.uid);
            for owner in &old.owners {
                if let Some(set) = self.by_owner.get_mut(&owner.uid) {
                    set.remove(&place);
                    if set.is_empty() {
                        self.by_owner.remove(&owner.uid);
                    }
                }
            }
        }
        if let Some(new) = new {
            let place = Dependent {
                table: table.clone(),
                key: new.key.clone(),
            };
            for owner in &new.owners {
                self.by_owner
                    .entry(owner.uid.clone())
                    .or_default()
                    .insert(place.clone());
            }
            self.places.insert(new.uid.clone(), place);
        }
    }

    pub(crate) fn dependents(&self, uid: &str) -> Vec<Dependent> {
        self.by_owner
            .get(uid)
            .map(|set| set.iter().cloned().collect())
            .unwrap_or_default()
    }

    pub(crate) fn exists(&self, uid: &str) -> bool {
        self.places.contains_key(uid)
    }

    pub(crate) fn locate(&self, uid: &str) -> Option<Dependent> {
        self.places.get(uid).cloned()
    }
}
