//! The number of replicas of a copy.

use serde_json::{Map, Value, json};

/// Sets the replicas of a workload where its kind has them; only a field that is there is changed.
pub fn revise_replicas(manifest: &mut Value, replicas: i32) {
    let field = match kind_of(manifest) {
        ("apps/v1", "Deployment" | "ReplicaSet" | "StatefulSet") => "replicas",
        ("batch/v1", "Job") => "parallelism",
        _ => return,
    };
    set_in_spec(manifest, field, replicas);
}

/// Sets how often a Job has to succeed in a cluster, where the Job says so at all.
pub fn revise_completions(manifest: &mut Value, completions: i32) {
    set_in_spec(manifest, "completions", completions);
}

fn set_in_spec(manifest: &mut Value, field: &str, number: i32) {
    let spec = manifest.get_mut("spec").and_then(Value::as_object_mut);
    if let Some(slot) = spec.and_then(|spec: &mut Map<String, Value>| spec.get_mut(field)) {
        *slot = json!(number);
    }
}

/// The `apiVersion` and `kind` of a manifest, empty where they are missing.
pub(crate) fn kind_of(manifest: &Value) -> (&str, &str) {
    let text = |field: &str| manifest.get(field).and_then(Value::as_str);
    (
        text("apiVersion").unwrap_or_default(),
        text("kind").unwrap_or_default(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_fields_that_are_there_are_set() {
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
