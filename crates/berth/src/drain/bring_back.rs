//! The end of a drain for a binding: one patch with which the scheduler decides afresh about it.

use berth_api::binding::{clusters_evicted_from, reschedule_trigger};
use berth_api::well_known::EVICTED_FROM;
use jiff::Timestamp;
use kube::ResourceExt as _;
use kube::api::DynamicObject;
use serde_json::{Value, json};

use super::evict::PRODUCER;

/// Returns the patch that ends the drain of a cluster for a binding, or `None` if the binding was not drained from it.
/// Unknown fields are kept.
///
/// The patch requests a new decision, as a WorkloadRebalancer does. If the old copy has not left yet, its cluster becomes
/// a target again, so that the copy stays until the scheduler has decided.
pub(super) fn bring_back_patch(
    binding: &DynamicObject,
    cluster: &str,
    now: Timestamp,
) -> Option<Value> {
    let annotation = binding.annotations().get(EVICTED_FROM)?;
    let drained: Vec<&str> = clusters_evicted_from(annotation).collect();
    if !drained.contains(&cluster) || binding.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let rest: Vec<&str> = drained
        .into_iter()
        .filter(|name| *name != cluster)
        .collect();
    let value = (!rest.is_empty()).then(|| rest.join(","));
    let mut patch = json!({
        "metadata": { "annotations": { EVICTED_FROM: value } },
        "spec": { "rescheduleTriggeredAt": reschedule_trigger(decided(binding), now).to_string() },
    });
    let spec = &binding.data["spec"];
    let items = |field: &str| spec[field].as_array().cloned().unwrap_or_default();
    let (ended, tasks): (Vec<Value>, Vec<Value>) = items("gracefulEvictionTasks")
        .into_iter()
        .partition(|task| task["fromCluster"] == cluster && task["producer"] == PRODUCER);
    if let Some(task) = ended.first() {
        patch["spec"]["gracefulEvictionTasks"] = json!(tasks);
        let mut clusters = items("clusters");
        if !clusters.iter().any(|target| target["name"] == cluster) {
            let mut target = json!({ "name": cluster });
            if let Some(replicas) = task.get("replicas") {
                target["replicas"] = replicas.clone();
            }
            clusters.push(target);
            patch["spec"]["clusters"] = json!(clusters);
        }
    }
    Some(patch)
}

/// Returns the time of the scheduler's last decision.
fn decided(binding: &DynamicObject) -> Option<Timestamp> {
    let decided = binding.data["status"]["lastScheduledTime"].as_str();
    decided.and_then(|time| time.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patch_of(binding: Value) -> Option<Value> {
        let now = "2026-05-01T10:00:00.7Z".parse().unwrap();
        bring_back_patch(&serde_json::from_value(binding).unwrap(), "m1", now)
    }

    fn drained_from(clusters: &str) -> Value {
        json!({ "name": "web", "annotations": { EVICTED_FROM: clusters } })
    }

    #[test]
    fn the_scheduler_decides_afresh_about_a_binding_that_has_left() {
        let spec = json!({ "clusters": [{ "name": "m2", "replicas": 2 }] });
        for (annotation, left) in [("m1", Value::Null), ("m0,m1,m2", json!("m0,m2"))] {
            let patch = patch_of(json!({ "metadata": drained_from(annotation), "spec": spec }));
            assert_eq!(
                patch.unwrap(),
                json!({
                    "metadata": { "annotations": { EVICTED_FROM: left } },
                    "spec": { "rescheduleTriggeredAt": "2026-05-01T10:00:00Z" },
                })
            );
        }
    }

    #[test]
    fn a_copy_that_has_not_left_stays() {
        let others = json!({ "fromCluster": "m1", "producer": "TaintManager" });
        let own = json!({ "fromCluster": "m1", "producer": PRODUCER, "replicas": 2 });
        let binding = json!({ "metadata": drained_from("m1"), "spec": {
            "clusters": [{ "name": "m2", "replicas": 1, "new": 1 }],
            "gracefulEvictionTasks": [others, own] } });
        let spec = patch_of(binding).unwrap()["spec"].clone();
        assert_eq!(
            spec["clusters"],
            json!([{ "name": "m2", "replicas": 1, "new": 1 }, { "name": "m1", "replicas": 2 }])
        );
        assert_eq!(spec["gracefulEvictionTasks"], json!([others]));
    }

    #[test]
    fn other_bindings_are_left_alone() {
        for metadata in [json!({ "name": "web" }), drained_from("m10,m2")] {
            assert_eq!(patch_of(json!({ "metadata": metadata, "spec": {} })), None);
        }
    }
}
