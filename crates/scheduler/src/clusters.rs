//! Clusters as last seen, in the forms that decisions and rules need.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use berth_api::Cluster;
use berth_core::{Fleet, Snapshot};

use crate::framework::State;
use crate::rules::cluster_change::{ClusterDelta, ClusterState};

/// Clusters as last seen.
#[derive(Debug)]
pub(crate) struct Clusters {
    fleet: Fleet,
    /// Snapshot of the fleet, until a cluster changes.
    snapshot: Option<Arc<Snapshot>>,
    states: HashMap<String, ClusterState>,
    /// Names of the clusters that are being deleted, or were.
    leaving: HashSet<String>,
}

/// An applied change of a cluster.
#[derive(Debug)]
pub(crate) struct AppliedCluster {
    /// `None` if the cluster is new.
    pub(crate) old: Option<Arc<Cluster>>,
    pub(crate) new: Arc<Cluster>,
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
        let new = Arc::clone(&state.cluster);
        let old = self.states.insert(name, state);
        AppliedCluster {
            old: old.map(|old| old.cluster),
            new,
            delta,
            capacity_changed,
        }
    }

    /// Removes a deleted cluster. Its name counts as leaving until the cluster is added again: without a
    /// finalizer, it was never seen as being deleted.
    pub(crate) fn remove(&mut self, name: &str) {
        self.fleet.remove(name);
        self.snapshot = None;
        self.states.remove(name);
        self.leaving.insert(name.to_owned());
    }

    /// Returns the current snapshot. A new one is also shown to the plugins.
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
