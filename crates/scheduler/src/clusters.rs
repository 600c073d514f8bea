//! The scheduler's store of clusters, filled from watch events. Decisions read a [`Snapshot`] of the store. Rules about
//! cluster changes read a [`ClusterState`] of each cluster.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use berth_api::Cluster;
use berth_engine::{Fleet, Snapshot};

use crate::framework::State;
use crate::rules::cluster_change::{ClusterDelta, ClusterState};

/// The last received state of each cluster.
#[derive(Debug)]
pub(crate) struct Clusters {
    fleet: Fleet,
    /// Snapshot of the current fleet, or `None` after a change of a cluster.
    snapshot: Option<Arc<Snapshot>>,
    states: HashMap<String, ClusterState>,
    /// Names of the clusters that are being deleted or were deleted.
    leaving: HashSet<String>,
}

/// The result of adding or changing a cluster.
#[derive(Debug)]
pub(crate) struct AppliedCluster {
    /// The state before the change, or `None` if the cluster is new.
    pub(crate) old: Option<ClusterState>,
    pub(crate) new: ClusterState,
    pub(crate) delta: ClusterDelta,
    /// True if the cluster reports a different capacity than before.
    pub(crate) capacity_changed: bool,
}

impl Clusters {
    /// Creates an empty store. With `keep_objects`, snapshots contain the Cluster objects for plugins.
    pub(crate) fn new(keep_objects: bool) -> Self {
        let fleet = Fleet::new();
        Self {
            fleet: if keep_objects {
                fleet.keeping_objects()
            } else {
                fleet
            },
            snapshot: None,
            states: HashMap::new(),
            leaving: HashSet::new(),
        }
    }

    /// Adds or replaces a cluster.
    pub(crate) fn apply(&mut self, name: String, cluster: &Cluster) -> AppliedCluster {
        self.fleet.apply(cluster);
        self.snapshot = None;
        let state = ClusterState::new(cluster);
        if state.deleting() {
            self.leaving.insert(name.clone());
        } else {
            self.leaving.remove(&name);
        }
        let old = self.states.get(&name);
        let (delta, capacity_changed) = (
            ClusterDelta::between(old, &state),
            state.capacity_changed(old),
        );
        let new = state.clone();
        let old = self.states.insert(name, state);
        AppliedCluster {
            old,
            new,
            delta,
            capacity_changed,
        }
    }

    /// Removes a deleted cluster. Its name counts as leaving until the cluster is added again. A cluster without
    /// finalizers is deleted at once, so no earlier event has marked it as leaving.
    pub(crate) fn remove(&mut self, name: &str) {
        self.fleet.remove(name);
        self.snapshot = None;
        self.states.remove(name);
        self.leaving.insert(name.to_owned());
    }

    /// Returns a snapshot of the current fleet. If a new snapshot is created, it is also stored in `plugin_state`,
    /// where plugins read it.
    pub(crate) fn snapshot(&mut self, plugin_state: &State) -> &Arc<Snapshot> {
        self.snapshot.get_or_insert_with(|| {
            let snapshot = self.fleet.snapshot();
            plugin_state.set_fleet(&snapshot);
            snapshot
        })
    }

    /// Returns a cluster without its status.
    pub(crate) fn get(&self, name: &str) -> Option<Arc<Cluster>> {
        let state = self.states.get(name)?;
        Some(Arc::clone(&state.cluster))
    }

    /// Reports whether the cluster is being deleted or was deleted.
    pub(crate) fn is_leaving(&self, name: &str) -> bool {
        self.leaving.contains(name)
    }

    /// Returns the names of all clusters.
    pub(crate) fn names(&self) -> impl Iterator<Item = &String> {
        self.states.keys()
    }

    /// Returns the number of clusters.
    pub(crate) fn len(&self) -> usize {
        self.states.len()
    }
}
