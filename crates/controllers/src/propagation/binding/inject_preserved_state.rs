//! The injection of the state that failover has preserved for an evicted application. The state becomes labels of the
//! application in its next cluster.

use std::collections::BTreeMap;

use berth_api::binding::{BindingSpec, TargetCluster};
use berth_api::policy::PurgeMode;

/// Returns the state preserved by the last eviction task, as labels for the application in `cluster`. The state is
/// returned only if `cluster` is the only target cluster, if the application was purged directly from its former
/// cluster, and if it did not run in `cluster` before.
pub(super) fn labels_to_inject<'a>(
    spec: &'a BindingSpec,
    targets: &[TargetCluster],
    cluster: &str,
) -> Option<&'a BTreeMap<String, String>> {
    if targets.len() > 1 {
        return None;
    }
    let task = spec.graceful_eviction_tasks.last()?;
    let ran_here_before = task
        .clusters_before_failover
        .iter()
        .any(|name| name == cluster);
    let moved = task.purge_mode == Some(PurgeMode::Directly) && !ran_here_before;
    moved.then_some(&task.preserved_label_state)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn labels(clusters: &[&str], tasks: Value) -> Option<Value> {
        let clusters: Vec<Value> = clusters
            .iter()
            .map(|name| json!({ "name": name }))
            .collect();
        let spec: BindingSpec = serde_json::from_value(json!({
            "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "clusters": clusters, "gracefulEvictionTasks": tasks }))
        .unwrap();
        let found = labels_to_inject(&spec, &spec.targets(), "m2");
        found
            .filter(|labels| !labels.is_empty())
            .map(|labels| json!(labels))
    }

    fn task(mode: &str, before: &[&str], state: Value) -> Value {
        json!({ "fromCluster": "m1", "reason": "R", "producer": "p", "purgeMode": mode,
            "clustersBeforeFailover": before, "preservedLabelState": state })
    }

    #[test]
    fn only_a_direct_move_to_a_single_other_cluster_injects_state() {
        let state = || json!({ "count": "2" });
        let direct = || task("Directly", &["m1"], state());
        for (about, clusters, tasks, expected) in [
            ("a move", vec!["m2"], json!([direct()]), Some(state())),
            (
                "the former clusters are unknown",
                vec!["m2"],
                json!([task("Directly", &[], state())]),
                Some(state()),
            ),
            (
                "the last task counts",
                vec!["m2"],
                json!([direct(), task("Directly", &[], json!({}))]),
                None,
            ),
            ("no task", vec!["m2"], json!([]), None),
            ("two clusters", vec!["m2", "m3"], json!([direct()]), None),
            (
                "a graceful eviction",
                vec!["m2"],
                json!([task("Gracefully", &["m1"], state())]),
                None,
            ),
            (
                "a return to a former cluster",
                vec!["m2"],
                json!([task("Directly", &["m1", "m2"], state())]),
                None,
            ),
        ] {
            assert_eq!(labels(&clusters, tasks), expected, "{about}");
        }
    }
}
