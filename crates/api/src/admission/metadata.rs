//! Access to labels, annotations and finalizers of JSON objects.

use serde_json::{Map, Value, json};

/// Returns the string at a key of a map in `metadata`. The map is `labels` or `annotations`.
pub(super) fn entry<'a>(object: &'a Value, map: &str, key: &str) -> Option<&'a str> {
    object.get("metadata")?.get(map)?.get(key)?.as_str()
}

/// Sets a label. Creates `metadata` and `labels` if they are missing.
pub(super) fn set_label(object: &mut Value, key: &str, value: String) {
    if let Some(labels) = child_map(object, "metadata").and_then(|m| map_in(m, "labels")) {
        labels.insert(key.to_owned(), Value::String(value));
    }
}

/// Adds a finalizer if it is missing. Reports whether the finalizer was added.
pub(super) fn add_finalizer(object: &mut Value, finalizer: &str) -> bool {
    let Some(metadata) = child_map(object, "metadata") else {
        return false;
    };
    let slot = metadata.entry("finalizers").or_insert(Value::Null);
    if slot.is_null() {
        *slot = json!([]);
    }
    let Some(list) = slot.as_array_mut() else {
        return false;
    };
    if list.iter().any(|known| known == finalizer) {
        return false;
    }
    list.push(json!(finalizer));
    true
}

/// Returns the JSON object at a key. Creates the object if the value is missing or null. Returns `None` if the value
/// has another type.
pub(super) fn child_map<'a>(
    object: &'a mut Value,
    key: &str,
) -> Option<&'a mut Map<String, Value>> {
    map_in(object.as_object_mut()?, key)
}

fn map_in<'a>(parent: &'a mut Map<String, Value>, key: &str) -> Option<&'a mut Map<String, Value>> {
    let slot = parent.entry(key).or_insert(Value::Null);
    if slot.is_null() {
        *slot = json!({});
    }
    slot.as_object_mut()
}
