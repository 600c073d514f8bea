//! The observed state on which a sync of a binding's Works is based.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use berth_api::names::cluster_of_execution_namespace;
use berth_api::{Binding, Cluster, Work};

use super::targets::awaits_deletions;
use crate::overrides::OverrideSet;

/// The observed state on which a sync is based.
#[derive(Clone, Debug)]
pub(crate) struct SyncInput {
    pub(crate) binding: Arc<Binding>,
    /// Works of the binding, by cluster.
    pub(crate) works: BTreeMap<String, Vec<Arc<Work>>>,
    /// The clusters that exist: target clusters, and clusters of Works.
    pub(crate) clusters: BTreeMap<String, Arc<Cluster>>,
    pub(crate) overrides: OverrideSet,
    /// The clusters from which a workload that needs the resource has not gone yet.
    pub(crate) needed_in: BTreeSet<String>,
    /// The clusters that the binding left because its placement, which is the same, no longer selects them.
    pub(crate) deselected: BTreeSet<String>,
    /// The clusters whose report is older than the replicas in their Work, each with the least number of replicas since
    /// the report.
    pub(crate) unreported: BTreeMap<String, i64>,
}

impl SyncInput {
    /// Reports whether the deletion of the binding waits for the deletion of a Work.
    pub(crate) fn awaits_deletion(&self, work: &Work) -> bool {
        let namespace = work.metadata.namespace.as_deref().unwrap_or_default();
        let cluster = cluster_of_execution_namespace(namespace);
        let cluster = cluster.and_then(|name| self.clusters.get(name));
        cluster.is_some_and(|cluster| awaits_deletions(cluster))
    }
}
