//! Labels, annotations and finalizers of a JSON object.

use serde_json::{Map, Value, json};

/// A string in a map of `metadata`: `("labels", key)` or `("annotations", key)`.
pub(super) fn entry<'a>(object: &'a Value, map: &str, key: &str) -> Option<&'a str> {
    object.get("metadata")?.get(map)?.get(key)?.as_str()
}

/// Sets a label; the maps on the way are made where they are missing.
pub(super) fn set_label(object: &mut Value, key: &str, value: String) {
    if let Some(labels) = child_map(object, "metadata").and_then(|m| map_in(m, "labels")) {
        labels.insert(key.to_owned(), Value::String(value));
    }
}

/// Adds a finalizer where it is missing. Returns whether it was.
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

/// The object at a key, made where it is missing or null; nothing where something else is there.
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
