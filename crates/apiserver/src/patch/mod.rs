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
