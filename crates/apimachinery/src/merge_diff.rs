//! The smallest JSON merge patch between two documents.

use serde_json::{Map, Value};

/// Returns the merge patch (RFC 7396) that turns `old` into `new`, or `None` if they are equal. A field that is missing
/// in `new` is `null` in the patch.
pub fn merge_diff(old: &Value, new: &Value) -> Option<Value> {
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => object_diff(old, new),
        _ if old == new => None,
        _ => Some(new.clone()),
    }
}

fn object_diff(old: &Map<String, Value>, new: &Map<String, Value>) -> Option<Value> {
    let mut patch = Map::new();
    for (key, value) in new {
        let change = match old.get(key) {
            Some(old) => merge_diff(old, value),
            None => Some(value.clone()),
        };
        if let Some(change) = change {
            patch.insert(key.clone(), change);
        }
    }
    for key in old.keys().filter(|key| !new.contains_key(*key)) {
        patch.insert(key.clone(), Value::Null);
    }
    (!patch.is_empty()).then_some(Value::Object(patch))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_patch_contains_only_differences() {
        for (old, new, patch) in [
            (json!({"a": 1}), json!({"a": 1}), None),
            (
                json!({"a": 1, "b": 2}),
                json!({"a": 1}),
                Some(json!({"b": null})),
            ),
            (
                json!({"a": {"x": 1, "y": 2}}),
                json!({"a": {"x": 1, "z": 3}}),
                Some(json!({"a": {"y": null, "z": 3}})),
            ),
            (
                json!({"l": [1, 2]}),
                json!({"l": [1]}),
                Some(json!({"l": [1]})),
            ),
            (
                json!({"a": 1}),
                json!({"a": {"b": 1}}),
                Some(json!({"a": {"b": 1}})),
            ),
            (json!({}), json!({"a": {}}), Some(json!({"a": {}}))),
        ] {
            assert_eq!(merge_diff(&old, &new), patch, "{old} -> {new}");
        }
    }
}
