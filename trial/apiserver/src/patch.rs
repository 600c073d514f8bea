//! Patches: JSON patch, merge patch, strategic merge patch and server-side apply. The functions of this module perform
//! no I/O: their results depend only on their arguments and the current time.

pub(crate) mod apply;
pub(crate) mod fields;
pub(crate) mod json;
pub(crate) mod managed;
pub(crate) mod nulls;
mod removed_fields;
pub(crate) mod strategic;
pub(crate) mod type_check;

use serde_json::Value;

/// Applies a merge patch (RFC 7386). As in Kubernetes, nulls in objects within lists are also removed.
pub(crate) fn merge(target: &mut Value, mut patch: Value) {
    let Value::Object(patch) = patch else {
        if let Value::Array(items) = &mut patch {
            items.iter_mut().for_each(drop_nulls);
        }
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

fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(object) => {
            object.retain(|_, inner| !inner.is_null());
            object.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn nulls_in_list_items_are_dropped() {
        let mut target = json!({"a": [{"x": 1, "y": 2}], "b": 1});
        merge(
            &mut target,
            json!({"a": [{"x": null, "y": {"z": null}}, null], "b": null}),
        );
        assert_eq!(target, json!({"a": [{"y": {}}, null]}));
    }
}
