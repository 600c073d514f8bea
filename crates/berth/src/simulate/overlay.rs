//! A manifest on top of a live object, as `kubectl apply` would put it there.

use serde_json::{Map, Value};

/// Where `kubectl apply` keeps what it applied last.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// What only the server writes.
const SERVERS: [&str; 7] = [
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "managedFields",
    "selfLink",
];

/// The live object with what the manifest says in place of what it said when it was applied last. Fields
/// that others set stay, unless the manifest names them. A status in the manifest counts as reported.
pub(crate) fn overlay(live: &Value, manifest: &Value) -> Value {
    let mut wanted = manifest.clone();
    if let Some(metadata) = wanted["metadata"].as_object_mut() {
        metadata.retain(|field, _| !SERVERS.contains(&field.as_str()));
        // kubectl adds one to what it applies, so it never drops the annotations as a whole.
        let annotations = metadata.entry("annotations");
        if let annotations @ Value::Null = annotations.or_insert(Value::Null) {
            *annotations = Value::Object(Map::new());
        }
    }
    let status = wanted
        .as_object_mut()
        .and_then(|fields| fields.remove("status"));
    let mut merged = live.clone();
    let last = live["metadata"]["annotations"][LAST_APPLIED].as_str();
    if let Some(last) = last.and_then(|text| serde_json::from_str::<Value>(text).ok()) {
        forget(&mut merged, &last, &wanted);
    }
    put(&mut merged, &wanted);
    if let Some(status) = status.filter(Value::is_object) {
        merged["status"] = status;
    }
    merged
}

/// What is no longer applied goes.
fn forget(merged: &mut Value, last: &Value, wanted: &Value) {
    let (Some(merged), Some(last)) = (merged.as_object_mut(), last.as_object()) else {
        return;
    };
    let none = Map::new();
    let wanted = wanted.as_object().unwrap_or(&none);
    for (field, was) in last {
        match (wanted.get(field), merged.get_mut(field)) {
            (None, _) => {
                merged.remove(field);
            }
            (Some(is), Some(inner)) => forget(inner, was, is),
            (Some(_), None) => {}
        }
    }
}

fn put(merged: &mut Value, wanted: &Value) {
    match (merged, wanted) {
        (Value::Object(merged), Value::Object(wanted)) => {
            for (field, value) in wanted {
                match merged.get_mut(field) {
                    _ if value.is_null() => {
                        merged.remove(field);
                    }
                    Some(inner) => put(inner, value),
                    None => {
                        merged.insert(field.clone(), value.clone());
                    }
                }
            }
        }
        (Value::Array(merged), Value::Array(wanted)) if same_names(merged, wanted) => {
            for (inner, value) in merged.iter_mut().zip(wanted) {
                put(inner, value);
            }
        }
        (merged, wanted) => merged.clone_from(wanted),
    }
}

/// Whether two lists hold the same things in the same order, by their names: containers, ports, volumes.
fn same_names(a: &[Value], b: &[Value]) -> bool {
    let name = |value: &Value| value.get("name").and_then(Value::as_str).map(str::to_owned);
    a.len() == b.len()
        && a.iter()
            .zip(b)
            .all(|(a, b)| name(a).is_some() && name(a) == name(b))
}

/// Whether two objects say the same, apart from what a server fills in and from the status.
pub(crate) fn same(a: &Value, b: &Value) -> bool {
    let stripped = |value: &Value| {
        let mut value = value.clone();
        if let Some(fields) = value.as_object_mut() {
            fields.remove("status");
        }
        if let Some(metadata) = value["metadata"].as_object_mut() {
            metadata.retain(|field, _| !SERVERS.contains(&field.as_str()));
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

/// Whether two objects want the same: their generation counts changes of this.
pub(crate) fn same_spec(a: &Value, b: &Value) -> bool {
    let wants = |value: &Value| {
        let mut fields = value.as_object().cloned().unwrap_or_default();
        fields.remove("metadata");
        fields.remove("status");
        fields
    };
    wants(a) == wants(b)
}

/// One more.
pub(crate) fn bump_generation(object: &mut Value) {
    let generation = object["metadata"]["generation"].as_i64().unwrap_or(0);
    object["metadata"]["generation"] = Value::from(generation.saturating_add(1));
}

/// Carries out a merge patch (RFC 7396).
pub(crate) fn merge(target: &mut Value, patch: &Value) {
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
            merge(target.entry(field.clone()).or_insert(Value::Null), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn annotations_of_others_stay_where_a_manifest_has_none() {
        // As kubectl writes it for a manifest without annotations.
        let last = json!({ "metadata": { "name": "w", "annotations": {} }, "spec": {} });
        let live = json!({ "metadata": { "name": "w",
            "annotations": { LAST_APPLIED: last.to_string(), "claim": "p" } }, "spec": {} });
        for manifest in [
            json!({ "metadata": { "name": "w" }, "spec": {} }),
            json!({ "metadata": { "name": "w", "annotations": null }, "spec": {} }),
        ] {
            let merged = overlay(&live, &manifest);
            assert_eq!(merged["metadata"]["annotations"]["claim"], "p");
            assert!(same(&live, &merged));
        }
    }

    #[test]
    fn a_manifest_says_what_it_says_and_others_keep_their_fields() {
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
        let merged = overlay(&live, &manifest);
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
        assert!(same(&overlay(&merged, &manifest), &merged));
        assert!(!same(&live, &merged) && !same_spec(&live, &merged));
    }
}
