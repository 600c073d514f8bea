//! The objects to plan: changed ones and those that depend on them. A change of one pod must not cause a pass
//! over thousands.

use std::collections::HashSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::ownership::controller_of;

/// The objects to plan, by UID.
#[derive(Debug, Default)]
pub(crate) struct Scope {
    /// Plans all objects: at the start, or because nodes have changed.
    all: bool,
    uids: HashSet<String>,
    /// The namespaces with changes, deletions included.
    namespaces: HashSet<String>,
}

impl Scope {
    /// Returns the scope of all objects.
    pub(crate) fn all() -> Self {
        Self {
            all: true,
            uids: HashSet::new(),
            namespaces: HashSet::new(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        !self.all && self.uids.is_empty()
    }

    pub(crate) fn add(&mut self, uid: String) {
        self.uids.insert(uid);
    }

    pub(crate) fn add_namespaces(&mut self, names: impl Iterator<Item = String>) {
        self.namespaces.extend(names);
    }

    /// Reports whether something in a namespace has changed.
    pub(crate) fn has_changes_in(&self, namespace: &str) -> bool {
        self.all || self.namespaces.contains(namespace)
    }

    pub(crate) fn add_all(&mut self) {
        self.all = true;
    }

    /// Adds those of `dependents` whose controllers it contains.
    pub(crate) fn add_dependents<'a>(&mut self, dependents: impl Iterator<Item = &'a ObjectMeta>) {
        if self.all {
            return;
        }
        for metadata in dependents {
            if self.covers(metadata)
                && let Some(uid) = &metadata.uid
                && !self.uids.contains(uid)
            {
                self.uids.insert(uid.clone());
            }
        }
    }

    /// Reports whether the scope contains this UID.
    pub(crate) fn has(&self, uid: &str) -> bool {
        self.all || self.uids.contains(uid)
    }

    /// Reports whether the scope contains the object or its controller.
    pub(crate) fn covers(&self, metadata: &ObjectMeta) -> bool {
        self.all
            || metadata.uid.as_ref().is_some_and(|uid| self.has(uid))
            || controller_of(metadata).is_some_and(|owner| self.has(&owner.uid))
    }
}
