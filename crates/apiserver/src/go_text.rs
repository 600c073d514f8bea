//! JSON values in the words of Go, for messages that a kube-apiserver would write in them.

use serde_json::Value;

/// What Go calls a JSON value of this type.
pub(crate) fn type_name(value: &Value) -> &'static str {
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
pub(crate) fn printed(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(printed).collect();
            format!("[{}]", items.join(" "))
        }
        Value::Object(map) => {
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_by_key(|(name, _)| *name);
            let entries: Vec<String> = entries
                .into_iter()
                .map(|(name, value)| format!("{name}:{}", printed(value)))
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
        assert_eq!(
            printed(&patch),
            "map[kind:A spec:map[a:[1 x true] b:<nil>]]"
        );
    }
}
