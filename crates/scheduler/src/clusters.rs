//! The scheduler's store of clusters and their scores, filled from watch events. Decisions read a [`Snapshot`] of the
//! store. Rules about cluster changes read a [`ClusterState`] of each cluster.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use berth_api::{Cluster, ClusterScore};
use berth_engine::{Fleet, Snapshot};
use jiff::Timestamp;

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
    /// The ClusterScores that have not expired yet, by the time of their expiry.
    expiries: BTreeSet<(Timestamp, String)>,
    /// Scores that several objects contain and that were logged: the cluster and the name of the score.
    logged_conflicts: HashSet<(Arc<str>, String)>,
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
            expiries: BTreeSet::new(),
            logged_conflicts: HashSet::new(),
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

    /// Adds or replaces a ClusterScore. Returns the clusters whose scores changed.
    pub(crate) fn apply_score(&mut self, object: &ClusterScore) -> Vec<Arc<str>> {
        let name = object.metadata.name.as_deref().unwrap_or_default();
        self.forget_expiry(name);
        if let Some(until) = &object.spec.valid_until {
            self.expiries.insert((until.0, name.to_owned()));
        }
        let changed = self.fleet.apply_score(object);
        if !changed.is_empty() {
            self.snapshot = None;
            self.log_conflicts(&object.spec.cluster_name);
        }
        changed
    }

    /// Removes a deleted ClusterScore. Returns its cluster.
    pub(crate) fn remove_score(&mut self, name: &str) -> Option<Arc<str>> {
        self.forget_expiry(name);
        let changed = self.fleet.remove_score(name)?;
        self.snapshot = None;
        Some(changed)
    }

    /// Returns the names of all ClusterScores.
    pub(crate) fn score_names(&self) -> impl Iterator<Item = &String> {
        self.fleet.score_names()
    }

    /// Returns the next time at which scores expire.
    pub(crate) fn next_score_expiry(&self) -> Option<Timestamp> {
        self.expiries.first().map(|(until, _)| *until)
    }

    /// Returns the clusters whose scores have expired since the last call. The fleet keeps expired scores, because
    /// decisions compare the expiry with their own time.
    pub(crate) fn take_expired_scores(&mut self, now: Timestamp) -> BTreeSet<String> {
        let mut clusters = BTreeSet::new();
        while let Some((until, _)) = self.expiries.first()
            && *until <= now
        {
            let name = self.expiries.pop_first().map(|(_, name)| name);
            let spec = name.and_then(|name| self.fleet.score(&name));
            clusters.extend(spec.map(|spec| spec.cluster_name.clone()));
        }
        clusters
    }

    fn forget_expiry(&mut self, name: &str) {
        let known = self.fleet.score(name);
        if let Some(until) = known.and_then(|spec| spec.valid_until.as_ref()) {
            self.expiries.remove(&(until.0, name.to_owned()));
        }
    }

    /// Logs each score of a cluster that several objects contain, once.
    fn log_conflicts(&mut self, cluster: &str) {
        let snapshot = self.fleet.snapshot();
        let Some(scores) = snapshot.scores(cluster) else {
            return;
        };
        for (score, objects) in scores.conflicts() {
            let key = (Arc::from(cluster), score.to_owned());
            if self.logged_conflicts.insert(key) {
                let objects = objects.join(", ");
                tracing::warn!(
                    cluster,
                    score,
                    objects,
                    "several ClusterScores contain this score; the first valid one counts"
                );
            }
        }
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn score(name: &str, cluster: &str, until: i64) -> ClusterScore {
        let object = json!({
            "apiVersion": "scheduling.berth/v1alpha1", "kind": "ClusterScore", "metadata": { "name": name },
            "spec": { "clusterName": cluster, "scores": { "carbon": 1 }, "validUntil": at(until).to_string() },
        });
        serde_json::from_value(object).unwrap()
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn the_expiry_of_the_last_state_of_an_object_counts_once() {
        let mut clusters = Clusters::new(true);
        let expired = |clusters: &mut Clusters, second| {
            let names = clusters.take_expired_scores(at(second));
            names.into_iter().collect::<Vec<_>>().join(" ")
        };
        clusters.apply_score(&score("a", "m1", 100));
        clusters.apply_score(&score("b", "m2", 100));
        clusters.apply_score(&score("c", "m3", 300));
        clusters.apply_score(&score("b", "m2", 200));
        assert_eq!(clusters.next_score_expiry(), Some(at(100)));
        assert_eq!(expired(&mut clusters, 99), "");
        assert_eq!(expired(&mut clusters, 100), "m1");
        assert_eq!(expired(&mut clusters, 100), "");
        clusters.remove_score("c");
        assert_eq!(clusters.next_score_expiry(), Some(at(200)));
        assert_eq!(expired(&mut clusters, 400), "m2");
        assert_eq!(clusters.next_score_expiry(), None);
    }

    #[test]
    fn a_conflict_is_logged_once() {
        let mut clusters = Clusters::new(true);
        for (name, conflicts) in [("a", 0), ("b", 1), ("c", 1)] {
            clusters.apply_score(&score(name, "m1", 100));
            assert_eq!(clusters.logged_conflicts.len(), conflicts);
        }
    }
}
