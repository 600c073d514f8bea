//! Removal of empty fields from the statuses that rules reflect and aggregate. Karmada's scripts cannot distinguish
//! empty lists from empty objects, so Karmada writes neither into a status.

use serde_json::{Map, Value};

/// Removes nulls at any depth, and then empty lists and objects. A list or object that becomes empty only because empty
/// lists and objects were removed from it remains.
pub(super) fn drop_empty(fields: &mut Map<String, Value>) {
    drop_nulls(fields);
    fields.retain(|_, value| keep(value));
}

fn drop_nulls(fields: &mut Map<String, Value>) {
    fields.retain(|_, value| !value.is_null());
}

fn keep(value: &mut Value) -> bool {
    match value {
        Value::Null => false,
        Value::Array(items) => {
            items.retain(|item| !item.is_null());
            if items.is_empty() {
                return false;
            }
            items.retain_mut(keep);
            true
        }
        Value::Object(fields) => {
            drop_nulls(fields);
            if fields.is_empty() {
                return false;
            }
            fields.retain(|_, field| keep(field));
            true
        }
        _ => true,
    }
}

/// Reports whether [`drop_zero`] removes a value.
fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty() || text == "0s",
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(_) => false,
    }
}

/// Removes zero numbers, empty strings, zero durations, and empty lists and objects, at any depth. Also removes a list
/// or object that becomes empty through this removal.
pub(super) fn drop_zero(fields: &mut Map<String, Value>) {
    fields.retain(|_, value| {
        drop_zero_within(value);
        !is_zero(value)
    });
}

fn drop_zero_within(value: &mut Value) {
    match value {
        Value::Object(fields) => drop_zero(fields),
        Value::Array(items) => items.retain_mut(|item| {
            drop_zero_within(item);
            !is_zero(item)
        }),
        _ => {}
    }
}
