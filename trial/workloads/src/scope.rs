//! The set of objects that one planning covers: the objects that have changed or are due, and the objects that depend
//! on them. A change of one pod must not cause the planning of thousands of objects.

use std::collections::HashSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::owned_pods::controller_of;

/// The objects to plan, by UID.
#[derive(Debug, Default)]
pub(crate) struct Scope {
    /// True if all objects must be planned: at the start, and after a change of a node.
    all: bool,
    uids: HashSet<String>,
    /// The namespaces in which an object was created, changed or deleted.
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

    /// Reports whether an object in a namespace may have changed.
    pub(crate) fn has_changes_in(&self, namespace: &str) -> bool {
        self.all || self.namespaces.contains(namespace)
    }

    /// Removes the objects for which `keep` returns false.
    pub(crate) fn retain(&mut self, keep: impl Fn(&str) -> bool) {
        self.uids.retain(|uid| keep(uid));
    }

    pub(crate) fn add_all(&mut self) {
        self.all = true;
    }

    /// Adds the dependents whose controllers are in the scope.
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
