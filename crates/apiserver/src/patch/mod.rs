//! The four ways to patch: JSON patch, merge patch, strategic merge patch, server-side apply. Pure functions of
//! the live object and the patch; no storage, no HTTP.

pub(crate) mod apply;
pub(crate) mod fields;
pub(crate) mod json;
pub(crate) mod managed;
pub(crate) mod strategic;

use serde_json::Value;

/// RFC 7386.
pub(crate) fn merge(target: &mut Value, patch: Value) {
    let Value::Object(patch) = patch else {
        *target = patch;
        return;
    };
    if !target.is_object() {
        *target = Value::Object(serde_json::Map::new());
    }
    if let Some(object) = target.as_object_mut() {
        for (key, value) in patch {
            if value.is_null() {
                object.remove(&key);
            } else {
                merge(object.entry(key).or_insert(Value::Null), value);
            }
        }
    }
}

/// What Go calls a JSON value of this type.
pub(crate) fn go_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// A value as Go prints maps, lists and what is in them.
pub(crate) fn in_go(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(in_go).collect();
            format!("[{}]", items.join(" "))
        }
        Value::Object(map) => {
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_by_key(|(name, _)| *name);
            let entries: Vec<String> = entries
                .into_iter()
                .map(|(name, value)| format!("{name}:{}", in_go(value)))
                .collect();
            format!("map[{}]", entries.join(" "))
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_patch_is_shown_as_go_prints_it() {
        let patch = json!({"spec": {"b": null, "a": [1, "x", true]}, "kind": "A"});
        assert_eq!(in_go(&patch), "map[kind:A spec:map[a:[1 x true] b:<nil>]]");
    }
}
