//! What an application took along from the cluster that it left, as labels of its copy in the next one.

use std::collections::BTreeMap;

use berth_api::binding::{BindingSpec, TargetCluster};
use berth_api::policy::PurgeMode;

/// The labels that the copy in a cluster gets. Only an application that is in one cluster, and has left the other one
/// before it came, takes anything along: what the last task holds.
pub(super) fn brought_along<'a>(
    spec: &'a BindingSpec,
    targets: &[TargetCluster],
    cluster: &str,
) -> Option<&'a BTreeMap<String, String>> {
    if targets.len() > 1 {
        return None;
    }
    let task = spec.graceful_eviction_tasks.last()?;
    let was_there = task
        .clusters_before_failover
        .iter()
        .any(|name| name == cluster);
    let moved = task.purge_mode == Some(PurgeMode::Directly) && !was_there;
    moved.then_some(&task.preserved_label_state)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::binding::targets::targets;

    fn labels(clusters: &[&str], tasks: Value) -> Option<Value> {
        let clusters: Vec<Value> = clusters
            .iter()
            .map(|name| json!({ "name": name }))
            .collect();
        let spec: BindingSpec = serde_json::from_value(json!({
            "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "clusters": clusters, "gracefulEvictionTasks": tasks }))
        .unwrap();
        let found = brought_along(&spec, &targets(&spec), "m2");
        found
            .filter(|labels| !labels.is_empty())
            .map(|labels| json!(labels))
    }

    fn task(mode: &str, before: &[&str], state: Value) -> Value {
        json!({ "fromCluster": "m1", "reason": "R", "producer": "p", "purgeMode": mode,
            "clustersBeforeFailover": before, "preservedLabelState": state })
    }

    #[test]
    fn only_a_direct_move_from_one_cluster_to_one_other_brings_anything() {
        let state = || json!({ "count": "2" });
        let direct = || task("Directly", &["m1"], state());
        for (about, clusters, tasks, expected) in [
            ("a move", vec!["m2"], json!([direct()]), Some(state())),
            (
                "nobody says where it was",
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
                "the old copy waits",
                vec!["m2"],
                json!([task("Gracefully", &["m1"], state())]),
                None,
            ),
            (
                "it was there before",
                vec!["m2"],
                json!([task("Directly", &["m1", "m2"], state())]),
                None,
            ),
        ] {
            assert_eq!(labels(&clusters, tasks), expected, "{about}");
        }
    }
}
