//! Takes out what a Go program that decodes and encodes an object would not write again.
//!
//! Karmada's webhooks store a policy as Go encodes it: optional fields that are `false`, zero, empty or
//! null are gone. Readers that compare objects see the difference, so it is made here too.

use serde_json::Value;

/// Removes from `raw` the empty values that its typed form, encoded again, does not have. Values that are
/// not empty stay, known or not.
pub(super) fn remove(raw: &mut Value, typed: &Value) {
    match (raw, typed) {
        (Value::Object(raw), Value::Object(typed)) => {
            raw.retain(|key, value| typed.contains_key(key) || !is_empty(value));
            for (key, value) in raw.iter_mut() {
                if let Some(typed) = typed.get(key) {
                    remove(value, typed);
                }
            }
        }
        (Value::Array(raw), Value::Array(typed)) if raw.len() == typed.len() => {
            for (value, typed) in raw.iter_mut().zip(typed) {
                remove(value, typed);
            }
        }
        _ => {}
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(flag) => !flag,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn empty_values_go_where_the_typed_form_has_none_and_unknown_ones_stay() {
        let mut raw =
            json!({"a": {"values": [], "b": 0, "new": 1}, "kept": {}, "n": null, "l": [{"x": ""}]});
        remove(&mut raw, &json!({"a": {}, "kept": {}, "l": [{}]}));
        assert_eq!(raw, json!({"a": {"new": 1}, "kept": {}, "l": [{}]}));
    }
}
