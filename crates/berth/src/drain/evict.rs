//! The eviction of a binding from a drained cluster: one patch that removes the target, adds a graceful eviction task,
//! and records the cluster in an annotation.

use berth_api::BindingKey;
use berth_api::binding::{GracefulEvictionTask, clusters_evicted_from};
use berth_api::policy::PurgeMode;
use berth_api::well_known::EVICTED_FROM;
use kube::api::DynamicObject;
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};

use super::binding_patch::{Written, patch_binding};
use super::error::DrainError;

/// The reason of the eviction tasks.
const REASON: &str = "Drain";
/// The producer of the eviction tasks.
pub(super) const PRODUCER: &str = "berth-drain";

/// Evicts a binding from a cluster.
pub(super) async fn evict(
    client: &Client,
    key: &BindingKey,
    cluster: &str,
) -> Result<Written, DrainError> {
    let doing = format!("evict {key} from {cluster}");
    patch_binding(client, key, &doing, |binding| {
        eviction_patch(binding, cluster)
    })
    .await
}

/// Returns the patch that evicts a binding from a cluster, or `None` if the cluster is no target. Unknown fields are
/// kept. A cluster that already has a task gets no second one.
///
/// As in the tasks of the failover controllers, the creation timestamp is missing: the controller that ends the task
/// sets it, by its own clock.
fn eviction_patch(binding: &DynamicObject, cluster: &str) -> Option<Value> {
    if binding.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let spec = &binding.data["spec"];
    let items = |field: &str| spec[field].as_array().cloned().unwrap_or_default();
    let (evicted, clusters): (Vec<Value>, Vec<Value>) = items("clusters")
        .into_iter()
        .partition(|target| target["name"] == cluster);
    let target = evicted.first()?;
    let mut tasks = items("gracefulEvictionTasks");
    if !tasks.iter().any(|task| task["fromCluster"] == cluster) {
        let replicas = target["replicas"].as_i64().unwrap_or(0);
        let task = GracefulEvictionTask {
            from_cluster: cluster.to_owned(),
            replicas: i32::try_from(replicas).ok().filter(|count| *count > 0),
            purge_mode: Some(PurgeMode::Gracefully),
            reason: REASON.to_owned(),
            producer: PRODUCER.to_owned(),
            ..GracefulEvictionTask::default()
        };
        tasks.push(json!(task));
    }
    let annotation = binding.annotations().get(EVICTED_FROM);
    let drained = clusters_evicted_from(annotation.map_or("", String::as_str));
    let mut drained: Vec<&str> = drained.collect();
    if !drained.contains(&cluster) {
        drained.push(cluster);
    }
    Some(json!({
        "metadata": { "annotations": { EVICTED_FROM: drained.join(",") } },
        "spec": { "clusters": clusters, "gracefulEvictionTasks": tasks },
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patch_of(annotation: Option<&str>, spec: &Value) -> Option<Value> {
        let annotations = annotation.map(|value| json!({ EVICTED_FROM: value }));
        let binding = serde_json::from_value(json!({
            "metadata": { "name": "web", "annotations": annotations }, "spec": spec }));
        eviction_patch(&binding.unwrap(), "m1")
    }

    #[test]
    fn an_eviction_replaces_the_target_by_a_task_and_records_the_cluster() {
        let task = json!({ "fromCluster": "m1", "replicas": 2, "purgeMode": "Gracefully",
            "reason": "Drain", "producer": "berth-drain" });
        let patch = patch_of(
            Some("m9"),
            &json!({ "clusters": [{ "name": "m2", "replicas": 1, "new": 1 }, { "name": "m1", "replicas": 2 }],
                "gracefulEvictionTasks": [{ "fromCluster": "m3", "new": 2 }] }),
        );
        assert_eq!(
            patch.unwrap(),
            json!({
                "metadata": { "annotations": { EVICTED_FROM: "m9,m1" } },
                "spec": {
                    "clusters": [{ "name": "m2", "replicas": 1, "new": 1 }],
                    "gracefulEvictionTasks": [{ "fromCluster": "m3", "new": 2 }, task],
                },
            })
        );
    }

    #[test]
    fn a_cluster_has_one_task_and_one_entry_in_the_annotation() {
        let task = json!({ "fromCluster": "m1", "producer": "TaintManager" });
        let spec = json!({ "clusters": [{ "name": "m1" }], "gracefulEvictionTasks": [task] });
        let patch = patch_of(Some("m1"), &spec).unwrap();
        assert_eq!(patch["spec"]["gracefulEvictionTasks"], json!([task]));
        assert_eq!(patch["metadata"]["annotations"][EVICTED_FROM], "m1");
        // A resource without replicas has a task without replicas.
        let patch = patch_of(None, &json!({ "clusters": [{ "name": "m1" }] })).unwrap();
        assert_eq!(
            patch["spec"]["gracefulEvictionTasks"][0].get("replicas"),
            None
        );
    }

    #[test]
    fn a_binding_without_this_target_is_left_alone() {
        for spec in [json!({}), json!({ "clusters": [{ "name": "m2" }] })] {
            assert_eq!(patch_of(None, &spec), None, "{spec}");
        }
    }
}
