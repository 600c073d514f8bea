//! The clusters of a binding: the target clusters, the clusters that may still have a Work, and the clusters whose Work
//! must be deleted before other clusters get a Work.

use std::collections::BTreeSet;

use berth_api::binding::{BindingSpec, TargetCluster};
use berth_api::policy::PurgeMode;
use berth_api::well_known::CONDITION_READY;
use berth_api::{Cluster, condition};

/// Returns the target clusters: the clusters that the scheduler selected, then the clusters of the bindings in
/// `requiredBy`.
pub fn targets(spec: &BindingSpec) -> Vec<TargetCluster> {
    let mut targets: Vec<TargetCluster> = spec.clusters.clone();
    let mut known: BTreeSet<String> = targets.iter().map(|t| t.name.clone()).collect();
    for target in spec.required_by.iter().flat_map(|parent| &parent.clusters) {
        if known.insert(target.name.clone()) {
            targets.push(target.clone());
        }
    }
    targets
}

/// Returns the clusters that may have a Work: the targets, and the clusters of eviction tasks that do not purge
/// directly.
pub(crate) fn expected_clusters(spec: &BindingSpec) -> BTreeSet<String> {
    let leaving = spec
        .graceful_eviction_tasks
        .iter()
        .filter(|task| task.purge_mode != Some(PurgeMode::Directly))
        .map(|task| task.from_cluster.clone());
    let targets = targets(spec).into_iter().map(|target| target.name);
    targets.chain(leaving).collect()
}

/// Returns the clusters whose Work must be deleted before another cluster gets a Work.
pub(crate) fn directly_purged(spec: &BindingSpec) -> BTreeSet<&str> {
    spec.graceful_eviction_tasks
        .iter()
        .filter(|task| task.purge_mode == Some(PurgeMode::Directly))
        .map(|task| task.from_cluster.as_str())
        .collect()
}

/// Reports whether the deletion of a binding waits until its copy in a cluster is deleted. A member that is not ready
/// may never respond, and the deletion of a Cluster must not depend on the objects in its member.
pub(crate) fn awaits_deletions(cluster: &Cluster) -> bool {
    let conditions = cluster.status.as_ref().map(|status| &status.conditions[..]);
    let is_ready = condition::is_true(conditions.unwrap_or_default(), CONDITION_READY);
    is_ready && cluster.metadata.deletion_timestamp.is_none()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn clusters_of_required_by_are_targets_and_graceful_evictions_stay_expected() {
        let spec: BindingSpec = serde_json::from_value(json!({
            "resource": {"apiVersion": "v1", "kind": "ConfigMap", "name": "c"},
            "clusters": [{"name": "a", "replicas": 2}],
            "requiredBy": [{"name": "p", "clusters": [{"name": "a", "replicas": 7}, {"name": "b"}]}],
            "gracefulEvictionTasks": [
                {"fromCluster": "c", "reason": "R", "producer": "p", "purgeMode": "Gracefully"},
                {"fromCluster": "d", "reason": "R", "producer": "p", "purgeMode": "Directly"},
                {"fromCluster": "e", "reason": "R", "producer": "p"}],
        }))
        .unwrap();
        let named: Vec<(String, i32)> = targets(&spec)
            .into_iter()
            .map(|t| (t.name, t.replicas))
            .collect();
        assert_eq!(named, [("a".to_owned(), 2), ("b".to_owned(), 0)]);
        let expected: Vec<String> = expected_clusters(&spec).into_iter().collect();
        assert_eq!(expected, ["a", "b", "c", "e"]);
        assert_eq!(directly_purged(&spec), BTreeSet::from(["d"]));
    }
}
