//! Which clusters a binding's resource goes to, which it is still in, and which it has to leave first.

use std::collections::BTreeSet;

use berth_api::binding::{BindingSpec, TargetCluster};
use berth_api::policy::PurgeMode;

/// The clusters that get the resource: those that the scheduler chose, then those of the bindings that this
/// one follows.
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

/// The clusters that may have a Work: the targets, and those that the resource is leaving in an orderly way.
pub fn expected_clusters(spec: &BindingSpec) -> BTreeSet<String> {
    let leaving = spec
        .graceful_eviction_tasks
        .iter()
        .filter(|task| task.purge_mode != Some(PurgeMode::Directly))
        .map(|task| task.from_cluster.clone());
    let targets = targets(spec).into_iter().map(|target| target.name);
    targets.chain(leaving).collect()
}

/// The clusters that the resource has to be gone from before it comes elsewhere.
pub fn directly_purged(spec: &BindingSpec) -> BTreeSet<&str> {
    spec.graceful_eviction_tasks
        .iter()
        .filter(|task| task.purge_mode == Some(PurgeMode::Directly))
        .map(|task| task.from_cluster.as_str())
        .collect()
}

/// Whether nothing is sent to a cluster for now.
pub fn is_suspended(spec: &BindingSpec, cluster: &str) -> bool {
    spec.suspension.as_ref().is_some_and(|suspension| {
        let some = suspension.dispatching_on_clusters.as_ref();
        let named = some.is_some_and(|s| s.cluster_names.iter().any(|name| name == cluster));
        suspension.dispatching == Some(true) || named
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn clusters_of_parents_count_and_orderly_leaving_ones_stay() {
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
    fn dispatching_is_suspended_everywhere_or_somewhere() {
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
