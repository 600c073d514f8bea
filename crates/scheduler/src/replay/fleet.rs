//! The clusters, their scores and the assumed workloads at one entry of a decision log. An assumed workload counts
//! against the capacity of a cluster that has not reported it yet.

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_api::{Cluster, ClusterScore};
use berth_engine::Snapshot;
use serde::Deserialize as _;
use serde_json::Value;

use super::EntryError;
use crate::clusters::Clusters;
use crate::decision_log::format::{Decision, Entry, Workload};
use crate::framework::State;

/// The clusters, their scores and the assumed workloads after the last applied entry.
#[derive(Debug)]
pub(super) struct LoggedFleet {
    objects: BTreeMap<String, Value>,
    scores: BTreeMap<String, Value>,
    clusters: Clusters,
    /// Assumed workloads at the last decision, by cluster.
    pub(super) assumed: BTreeMap<String, Vec<Workload>>,
}

impl Default for LoggedFleet {
    fn default() -> Self {
        Self {
            objects: BTreeMap::new(),
            scores: BTreeMap::new(),
            // A plugin of a later configuration may read the Cluster objects.
            clusters: Clusters::new(true),
            assumed: BTreeMap::new(),
        }
    }
}

impl LoggedFleet {
    /// Applies an entry that adds, changes or deletes a cluster or a ClusterScore. Other entries have no effect.
    pub(super) fn apply(&mut self, entry: Entry) -> Result<(), EntryError> {
        match entry {
            Entry::Cluster(object) => self.add(object),
            Entry::ClusterPatch(change) => {
                let Some(mut object) = self.objects.remove(&change.name) else {
                    return Err(EntryError::UnknownCluster(change.name));
                };
                json_patch::merge(&mut object, &change.patch);
                self.add(object)
            }
            Entry::ClusterDeleted(name) => {
                self.objects.remove(&name);
                self.clusters.remove(&name);
                Ok(())
            }
            Entry::ClusterScore(object) => self.add_score(object),
            Entry::ClusterScoreDeleted(name) => {
                self.scores.remove(&name);
                self.clusters.remove_score(&name);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Adds or replaces a ClusterScore.
    pub(super) fn add_score(&mut self, object: Value) -> Result<(), EntryError> {
        let name = object
            .pointer("/metadata/name")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned();
        let score =
            ClusterScore::deserialize(&object).map_err(|source| EntryError::ClusterScore {
                name: name.clone(),
                source,
            })?;
        self.clusters.apply_score(&score);
        self.scores.insert(name, object);
        Ok(())
    }

    /// Adds or replaces a cluster.
    pub(super) fn add(&mut self, object: Value) -> Result<(), EntryError> {
        let name = object
            .pointer("/metadata/name")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned();
        let cluster = Cluster::deserialize(&object).map_err(|source| EntryError::Cluster {
            name: name.clone(),
            source,
        })?;
        self.clusters.apply(name.clone(), &cluster);
        self.objects.insert(name, object);
        Ok(())
    }

    /// Applies the changes of assumed workloads that the entry of a decision contains.
    pub(super) fn assume(&mut self, decision: &Decision) {
        for (name, workloads) in &decision.assumed {
            if workloads.is_empty() {
                self.assumed.remove(name);
            } else {
                self.assumed.insert(name.clone(), workloads.clone());
            }
        }
    }

    /// Returns a snapshot of the clusters.
    pub(super) fn snapshot(&mut self, plugin_state: &State) -> Arc<Snapshot> {
        Arc::clone(self.clusters.snapshot(plugin_state))
    }

    /// Returns the ClusterScores in the order of their names.
    pub(super) fn scores(&self) -> impl Iterator<Item = &Value> {
        self.scores.values()
    }

    /// Returns the Cluster objects in the order of their names.
    pub(super) fn objects(&self) -> impl Iterator<Item = &Value> {
        self.objects.values()
    }
}
