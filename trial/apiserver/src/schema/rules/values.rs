//! Conversion of JSON values to CEL values with the types of their schema.

use std::collections::HashMap;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use berth_cel::{Key, Map, duration, escape, timestamp};
use serde_json::Value;

use crate::schema::{ListType, Schema};

/// The order of the items in sets and keyed lists. If the items are sorted, comparisons ignore their original order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ItemOrder {
    Kept,
    Sorted,
}

/// Converts a JSON value to a CEL value.
pub(super) fn convert(
    value: &Value,
    schema: Option<&Schema>,
    order: ItemOrder,
) -> berth_cel::Value {
    match value {
        Value::Null => berth_cel::Value::Null,
        Value::Bool(b) => berth_cel::Value::Bool(*b),
        Value::Number(number) => {
            let is_float = schema.is_some_and(|s| s.kind == crate::schema::Type::Number);
            match number.as_i64() {
                Some(i) if !is_float => berth_cel::Value::Int(i),
                _ => berth_cel::Value::Float(number.as_f64().unwrap_or(f64::NAN)),
            }
        }
        Value::String(text) => string(text, schema),
        Value::Array(items) => {
            let of = schema.and_then(|s| s.items.as_deref());
            let mut sorted: Vec<&Value> = items.iter().collect();
            if order == ItemOrder::Sorted
                && let Some(list_type) = schema.map(|s| &s.list_type)
            {
                sort(&mut sorted, list_type);
            }
            berth_cel::Value::List(Arc::new(
                sorted.into_iter().map(|i| convert(i, of, order)).collect(),
            ))
        }
        Value::Object(object) => {
            let mut map = HashMap::with_capacity(object.len());
            for (name, value) in object {
                let property = schema.and_then(|s| s.properties.get(name));
                let of = property
                    .map(AsRef::as_ref)
                    .or_else(|| schema.and_then(|s| s.field(name).map(AsRef::as_ref)));
                // For rules, a null field is absent.
                if value.is_null() && property.is_some() {
                    continue;
                }
                // The keys of a map are not escaped.
                let key = if property.is_some() {
                    escape(name)
                } else {
                    name.clone()
                };
                let value = convert(value, of, order);
                // If the name is a reserved word or contains `__`, a rule may also select the property by its original
                // name.
                if property.is_some() && key != *name && !name.contains(['.', '-', '/']) {
                    map.insert(Key::String(Arc::new(name.clone())), value.clone());
                }
                map.insert(Key::String(Arc::new(key)), value);
            }
            berth_cel::Value::Map(Map { map: Arc::new(map) })
        }
    }
}

fn sort(items: &mut [&Value], list_type: &ListType) {
    match list_type {
        ListType::Atomic => {}
        ListType::Set => items.sort_by_key(ToString::to_string),
        ListType::Map(keys) => items.sort_by_key(|item| {
            keys.iter()
                .map(|k| item[k.as_str()].to_string())
                .collect::<Vec<_>>()
        }),
    }
}

fn string(text: &str, schema: Option<&Schema>) -> berth_cel::Value {
    let plain = || berth_cel::Value::String(Arc::new(text.to_owned()));
    let format = schema
        .and_then(|s| s.limits.as_ref())
        .and_then(|l| l.format.as_deref());
    match format {
        Some("byte") => STANDARD.decode(text).map_or_else(
            |_| plain(),
            |bytes| berth_cel::Value::Bytes(Arc::new(bytes)),
        ),
        Some("date-time") => timestamp(plain()).unwrap_or_else(|_| plain()),
        Some("date") => {
            let midnight = Arc::new(format!("{text}T00:00:00Z"));
            timestamp(berth_cel::Value::String(midnight)).unwrap_or_else(|_| plain())
        }
        Some("duration") => duration(Arc::new(text.to_owned())).unwrap_or_else(|_| plain()),
        _ => plain(),
    }
}
