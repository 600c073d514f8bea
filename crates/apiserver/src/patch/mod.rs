//! The four ways to patch: JSON patch, merge patch, strategic merge patch, server-side apply. Pure functions of
//! the live object and the patch; no storage, no HTTP.

pub(crate) mod apply;
pub(crate) mod fields;
mod given_up;
pub(crate) mod json;
pub(crate) mod managed;
pub(crate) mod nulls;
pub(crate) mod strategic;
pub(crate) mod typed;

use serde_json::Value;

/// RFC 7386, but for nulls of objects in lists: they go, as in Kubernetes.
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
    fn nulls_of_objects_in_lists_are_taken_for_nothing() {
        let mut target = json!({"a": [{"x": 1, "y": 2}], "b": 1});
        merge(
            &mut target,
            json!({"a": [{"x": null, "y": {"z": null}}, null], "b": null}),
        );
        assert_eq!(target, json!({"a": [{"y": {}}, null]}));
    }
}
