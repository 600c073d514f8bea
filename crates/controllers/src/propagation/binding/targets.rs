//! The clusters of a binding: the target clusters, the clusters that may still have a Work, and the clusters whose Work
//! must be deleted before other clusters get a Work.

use std::collections::BTreeSet;

use berth_api::binding::{BindingSpec, TargetCluster};
use berth_api::policy::PurgeMode;

/// Returns the target clusters: the clusters that the scheduler selected, then the clusters of the bindings in
/// `requiredBy`.
pub(crate) fn targets(spec: &BindingSpec) -> Vec<TargetCluster> {
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

/// Reports whether dispatching to a cluster is suspended.
pub(crate) fn is_suspended(spec: &BindingSpec, cluster: &str) -> bool {
    spec.suspension.as_ref().is_some_and(|suspension| {
        let clusters = suspension.dispatching_on_clusters.as_ref();
        let named = clusters.is_some_and(|s| s.cluster_names.iter().any(|name| name == cluster));
        suspension.dispatching == Some(true) || named
    })
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

    #[test]
    fn dispatching_is_suspended_everywhere_or_on_named_clusters() {
        for (suspension, cluster, expected) in [
            (json!({}), "a", false),
            (json!({"dispatching": true}), "a", true),
            (json!({"dispatching": false}), "a", false),
            (
                json!({"dispatchingOnClusters": {"clusterNames": ["a"]}}),
                "a",
                true,
            ),
            (
                json!({"dispatchingOnClusters": {"clusterNames": ["a"]}}),
                "b",
                false,
            ),
            (json!({"scheduling": true}), "a", false),
        ] {
            let spec: BindingSpec = serde_json::from_value(json!({"suspension": suspension,
                "resource": {"apiVersion": "v1", "kind": "ConfigMap", "name": "c"}}))
            .unwrap();
            assert_eq!(
                is_suspended(&spec, cluster),
                expected,
                "{suspension} {cluster}"
            );
        }
    }
}
