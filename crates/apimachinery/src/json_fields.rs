//! Access to fields of JSON objects. If a field is missing or has another type, the functions return an empty string,
//! zero or `false`.

use serde_json::{Value, json};

/// Returns the `apiVersion` and `kind` of an object.
pub fn kind_of(object: &Value) -> (&str, &str) {
    (text_at(object, "/apiVersion"), text_at(object, "/kind"))
}

/// Returns the text at a JSON pointer.
pub fn text_at<'a>(object: &'a Value, pointer: &str) -> &'a str {
    let value = object.pointer(pointer).and_then(Value::as_str);
    value.unwrap_or_default()
}

/// Returns the number in a field.
pub fn number(object: &Value, field: &str) -> i64 {
    object.get(field).and_then(Value::as_i64).unwrap_or(0)
}

/// Returns `metadata.generation`.
pub fn generation(object: &Value) -> i64 {
    let generation = object.pointer("/metadata/generation");
    generation.and_then(Value::as_i64).unwrap_or(0)
}

/// Reports whether an object is being deleted.
pub fn is_deleting(object: &Value) -> bool {
    object.pointer("/metadata/deletionTimestamp").is_some()
}

/// Reports whether a status contains a condition of this type with the status `True`.
pub fn has_condition(status: &Value, kind: &str) -> bool {
    let conditions = status.get("conditions").and_then(Value::as_array);
    conditions.into_iter().flatten().any(|condition| {
        condition.get("type") == Some(&json!(kind))
            && condition.get("status") == Some(&json!("True"))
    })
}
