//! Merges of JSON objects: the merge of a manifest into a live object, as by `kubectl apply`, and JSON merge patches.

use serde_json::{Map, Value};

/// Annotation in which `kubectl apply` stores the last applied manifest.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// Metadata fields that an API server does not accept from clients. They are not part of the desired state.
const READ_ONLY_FIELDS: [&str; 7] = [
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "managedFields",
    "selfLink",
];

/// Applies a manifest to a live object, and returns the merged object.
///
/// Sets the fields of the manifest. Removes fields that the last applied manifest contains and the new manifest lacks.
/// Keeps all other fields. A status in the manifest replaces the live status.
pub(crate) fn apply_manifest(live: &Value, manifest: &Value) -> Value {
    let mut desired = manifest.clone();
    if let Some(metadata) = desired["metadata"].as_object_mut() {
        metadata.retain(|field, _| !READ_ONLY_FIELDS.contains(&field.as_str()));
        // Without this empty map, `remove_dropped` would remove all annotations, also those of other clients. kubectl
        // keeps the map, because it adds its own annotation to each applied manifest.
        let annotations = metadata.entry("annotations");
        if let annotations @ Value::Null = annotations.or_insert(Value::Null) {
            *annotations = Value::Object(Map::new());
        }
    }
    let status = desired
        .as_object_mut()
        .and_then(|fields| fields.remove("status"));
    let mut merged = live.clone();
    let last = live["metadata"]["annotations"][LAST_APPLIED].as_str();
    if let Some(last) = last.and_then(|text| serde_json::from_str::<Value>(text).ok()) {
        remove_dropped(&mut merged, &last, &desired);
    }
    merge_values(&mut merged, &desired);
    if let Some(status) = status.filter(Value::is_object) {
        merged["status"] = status;
    }
    merged
}

/// Removes the fields that the last applied manifest contains and the new manifest lacks.
fn remove_dropped(merged: &mut Value, last: &Value, desired: &Value) {
    let (Some(merged), Some(last)) = (merged.as_object_mut(), last.as_object()) else {
        return;
    };
    let none = Map::new();
    let desired = desired.as_object().unwrap_or(&none);
    for (field, was) in last {
        match (desired.get(field), merged.get_mut(field)) {
            (None, _) => {
                merged.remove(field);
            }
            (Some(is), Some(inner)) => remove_dropped(inner, was, is),
            (Some(_), None) => {}
        }
    }
}

fn merge_values(merged: &mut Value, desired: &Value) {
    match (merged, desired) {
        (Value::Object(merged), Value::Object(desired)) => {
            for (field, value) in desired {
                match merged.get_mut(field) {
                    _ if value.is_null() => {
                        merged.remove(field);
                    }
                    Some(inner) => merge_values(inner, value),
                    None => {
                        merged.insert(field.clone(), value.clone());
                    }
                }
            }
        }
        (Value::Array(merged), Value::Array(desired)) if same_names(merged, desired) => {
            for (inner, value) in merged.iter_mut().zip(desired) {
                merge_values(inner, value);
            }
        }
        (merged, desired) => merged.clone_from(desired),
    }
}

/// Reports whether the items of two lists (containers, ports, volumes) have the same names in the same order.
fn same_names(a: &[Value], b: &[Value]) -> bool {
    let name = |value: &Value| value.get("name").and_then(Value::as_str).map(str::to_owned);
    a.len() == b.len()
        && a.iter()
            .zip(b)
            .all(|(a, b)| name(a).is_some() && name(a) == name(b))
}

/// Reports whether two objects are equal, without regard to their status, [`READ_ONLY_FIELDS`] and kubectl's
/// annotation.
pub(crate) fn is_same(a: &Value, b: &Value) -> bool {
    let stripped = |value: &Value| {
        let mut value = value.clone();
        if let Some(fields) = value.as_object_mut() {
            fields.remove("status");
        }
        if let Some(metadata) = value["metadata"].as_object_mut() {
            metadata.retain(|field, _| !READ_ONLY_FIELDS.contains(&field.as_str()));
            if let Some(annotations) = metadata
                .get_mut("annotations")
                .and_then(Value::as_object_mut)
            {
                annotations.remove(LAST_APPLIED);
            }
            metadata.retain(|_, value| !value.as_object().is_some_and(Map::is_empty));
        }
        value
    };
    stripped(a) == stripped(b)
}

/// Reports whether two objects are equal, without regard to their status and metadata. If they differ, an API server
/// increments the generation.
pub(crate) fn has_same_spec(a: &Value, b: &Value) -> bool {
    let spec = |value: &Value| {
        let mut fields = value.as_object().cloned().unwrap_or_default();
        fields.remove("metadata");
        fields.remove("status");
        fields
    };
    spec(a) == spec(b)
}

/// Increments the generation.
pub(crate) fn bump_generation(object: &mut Value) {
    let generation = object["metadata"]["generation"].as_i64().unwrap_or(0);
    object["metadata"]["generation"] = Value::from(generation.saturating_add(1));
}

/// Applies a JSON merge patch (RFC 7396).
pub(crate) fn apply_merge_patch(target: &mut Value, patch: &Value) {
    let Some(patch) = patch.as_object() else {
        target.clone_from(patch);
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Some(target) = target.as_object_mut() else {
        return;
    };
    for (field, value) in patch {
        if value.is_null() {
            target.remove(field);
        } else {
            apply_merge_patch(target.entry(field.clone()).or_insert(Value::Null), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn foreign_annotations_stay_if_the_manifest_has_none() {
        // kubectl stores this last applied manifest for a manifest without annotations.
        let last = json!({ "metadata": { "name": "w", "annotations": {} }, "spec": {} });
        let live = json!({ "metadata": { "name": "w",
            "annotations": { LAST_APPLIED: last.to_string(), "claim": "p" } }, "spec": {} });
        for manifest in [
            json!({ "metadata": { "name": "w" }, "spec": {} }),
            json!({ "metadata": { "name": "w", "annotations": null }, "spec": {} }),
        ] {
            let merged = apply_manifest(&live, &manifest);
            assert_eq!(merged["metadata"]["annotations"]["claim"], "p");
            assert!(is_same(&live, &merged));
        }
    }

    #[test]
    fn fields_of_the_manifest_are_set_and_foreign_fields_stay() {
        let last = json!({ "metadata": { "labels": { "gone": "1" } }, "spec": { "paused": true } });
        let live = json!({
            "metadata": { "uid": "u", "labels": { "gone": "1", "claim": "2" },
                "annotations": { LAST_APPLIED: last.to_string() } },
            "spec": { "replicas": 5, "paused": true, "list": [1, 2],
                "containers": [{ "name": "a", "policy": "Always", "image": "old" }] },
            "status": { "ready": 5 },
        });
        let manifest = json!({
            "metadata": { "uid": "other", "labels": { "new": "3" } },
            "spec": { "list": [3], "containers": [{ "name": "a", "image": "new" }] },
        });
        let merged = apply_manifest(&live, &manifest);
        assert_eq!(merged["metadata"]["uid"], "u");
        assert_eq!(
            merged["metadata"]["labels"],
            json!({ "claim": "2", "new": "3" })
        );
        assert_eq!(
            merged["spec"],
            json!({ "replicas": 5, "list": [3],
                "containers": [{ "name": "a", "policy": "Always", "image": "new" }] })
        );
        assert_eq!(merged["status"], json!({ "ready": 5 }));
        assert!(is_same(&apply_manifest(&merged, &manifest), &merged));
        assert!(!is_same(&live, &merged) && !has_same_spec(&live, &merged));
    }
}
