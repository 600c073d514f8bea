//! Revision: sets the replicas or the completions of a manifest.

use berth_apimachinery::json_fields::kind_of;
use serde_json::{Map, Value, json};

use super::workloads::{ReplicaField, Workload};

/// Sets the replicas of a workload. A field that is absent remains absent.
pub(crate) fn revise_replicas(manifest: &mut Value, replicas: i32) {
    let (api_version, kind) = kind_of(manifest);
    let workload = Workload::of(api_version, kind);
    match workload.and_then(|workload| workload.replicas) {
        Some(ReplicaField::Replicas) => set_in_spec(manifest, "replicas", replicas),
        Some(ReplicaField::Parallelism) => set_in_spec(manifest, "parallelism", replicas),
        Some(ReplicaField::Single) | None => {}
    }
}

/// Sets the completions of a Job. A field that is absent remains absent.
pub fn revise_completions(manifest: &mut Value, completions: i32) {
    set_in_spec(manifest, "completions", completions);
}

fn set_in_spec(manifest: &mut Value, field: &str, number: i32) {
    let spec = manifest.get_mut("spec").and_then(Value::as_object_mut);
    if let Some(slot) = spec.and_then(|spec: &mut Map<String, Value>| spec.get_mut(field)) {
        *slot = json!(number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_existing_fields_are_set() {
        for (mut manifest, field, expected) in [
            (
                json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"replicas": 5}}),
                "replicas",
                json!(2),
            ),
            (
                json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {}}),
                "replicas",
                Value::Null,
            ),
            (
                json!({"apiVersion": "batch/v1", "kind": "Job", "spec": {"parallelism": 5}}),
                "parallelism",
                json!(2),
            ),
            (
                json!({"apiVersion": "x/v1", "kind": "Deployment", "spec": {"replicas": 5}}),
                "replicas",
                json!(5),
            ),
        ] {
            revise_replicas(&mut manifest, 2);
            assert_eq!(manifest["spec"][field], expected, "{manifest}");
        }
    }
}
