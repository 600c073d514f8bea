//! Which objects have to be looked at: those that have changed, and those that depend on them. A cluster with thousands of
//! pods is not looked through because of one of them.

use std::collections::HashSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::controlled::controller_of;
use crate::world::World;

/// The objects that have to be looked at, by UID.
#[derive(Debug, Default)]
pub(crate) struct Scope {
    /// All of them: nodes have changed, or nothing was looked at yet.
    all: bool,
    uids: HashSet<String>,
    /// Where something has changed, also what is no longer there.
    namespaces: HashSet<String>,
}

impl Scope {
    /// All objects.
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

    /// Whether something in a namespace has changed.
    pub(crate) fn has_changes_in(&self, namespace: &str) -> bool {
        self.all || self.namespaces.contains(namespace)
    }

    pub(crate) fn add_all(&mut self) {
        self.all = true;
    }

    /// Adds the ReplicaSets of the Deployments in it, and the Jobs of the CronJobs: what is said of these counts for their
    /// pods.
    pub(crate) fn spread(&mut self, world: &World) {
        if self.all {
            return;
        }
        let sets = world.replica_sets.iter().map(|set| &set.metadata);
        let jobs = world.jobs.iter().map(|job| &job.metadata);
        for metadata in sets.chain(jobs) {
            if self.covers(metadata)
                && let Some(uid) = &metadata.uid
                && !self.uids.contains(uid)
            {
                self.uids.insert(uid.clone());
            }
        }
    }

    /// Whether it has the object with this UID.
    pub(crate) fn has(&self, uid: &str) -> bool {
        self.all || self.uids.contains(uid)
    }

    /// Whether it has the object, or what controls it.
    pub(crate) fn covers(&self, metadata: &ObjectMeta) -> bool {
        self.all
            || metadata.uid.as_ref().is_some_and(|uid| self.has(uid))
            || controller_of(metadata).is_some_and(|owner| self.has(&owner.uid))
    }
}
