//! Kinds of columns, and texts of cells.

use serde_json::{Value, json};

use crate::table::{BuiltinColumn, age};

pub(super) const fn text(name: &'static str, cell: fn(&Value) -> Value) -> BuiltinColumn {
    BuiltinColumn {
        name,
        kind: "string",
        priority: 0,
        cell,
    }
}

pub(super) const fn number(name: &'static str, cell: fn(&Value) -> Value) -> BuiltinColumn {
    BuiltinColumn {
        name,
        kind: "integer",
        priority: 0,
        cell,
    }
}

/// Returns a column of a certain type.
pub(super) const fn typed(
    name: &'static str,
    kind: &'static str,
    cell: fn(&Value) -> Value,
) -> BuiltinColumn {
    BuiltinColumn {
        name,
        kind,
        priority: 0,
        cell,
    }
}

pub(super) const fn wide(name: &'static str, cell: fn(&Value) -> Value) -> BuiltinColumn {
    BuiltinColumn {
        name,
        kind: "string",
        priority: 1,
        cell,
    }
}

pub(super) const AGE: BuiltinColumn = text("Age", age);

pub(super) fn or(value: &Value, otherwise: &str) -> Value {
    match value.as_str() {
        Some(s) if !s.is_empty() => json!(s),
        _ => json!(otherwise),
    }
}

pub(super) fn int(value: &Value) -> i64 {
    value.as_i64().unwrap_or(0)
}

pub(super) fn count(value: &Value) -> Value {
    json!(value.as_object().map_or_else(
        || value.as_array().map_or(0, Vec::len),
        serde_json::Map::len
    ))
}

pub(super) fn joined(list: &Value, each: impl Fn(&Value) -> String, otherwise: &str) -> Value {
    let items: Vec<String> = list
        .as_array()
        .map(|l| l.iter().map(each).collect())
        .unwrap_or_default();
    if items.is_empty() {
        json!(otherwise)
    } else {
        json!(items.join(","))
    }
}

pub(super) fn string(value: &Value) -> String {
    value.as_str().map_or_else(
        || {
            if value.is_null() {
                String::new()
            } else {
                value.to_string()
            }
        },
        str::to_owned,
    )
}

pub(super) fn labels(map: &Value) -> String {
    map.as_object()
        .map(|m| {
            m.iter()
                .map(|(k, v)| format!("{k}={}", string(v)))
                .collect::<Vec<_>>()
                .join(",")
        })
        .unwrap_or_default()
}

/// Returns a label selector as one line.
pub(super) fn selector(selector: &Value) -> String {
    let mut parts: Vec<String> = Vec::new();
    let simple = labels(&selector["matchLabels"]);
    if !simple.is_empty() {
        parts.push(simple);
    }
    for e in selector["matchExpressions"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default()
    {
        let key = string(&e["key"]);
        let values = string(&joined(&e["values"], string, ""));
        parts.push(match e["operator"].as_str() {
            Some("In") => format!("{key} in ({values})"),
            Some("NotIn") => format!("{key} notin ({values})"),
            Some("DoesNotExist") => format!("!{key}"),
            _ => key,
        });
    }
    if parts.is_empty() {
        "<none>".to_owned()
    } else {
        parts.join(",")
    }
}
