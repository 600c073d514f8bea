//! [`Cell`]: the generic kinds of table cells, such as the text of a field or the result of a function, with their
//! evaluation.

use berth_apimachinery::label_selector;
use serde_json::{Value, json};

/// The source of the content of a cell. A path is a dotted path in the object.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Cell {
    /// The value at a path.
    Field(&'static str),
    /// The text at a path, or the second text if the text at the path is absent or empty.
    Or(&'static str, &'static str),
    /// The number at a path, or zero if there is none.
    Integer(&'static str),
    /// A boolean that is true if the value at a path is true.
    True(&'static str),
    /// The result of a function of the object.
    By(fn(&Value) -> Value),
}

impl Cell {
    /// Returns the content of the cell for an object.
    pub(crate) fn of(&self, object: &Value) -> Value {
        let at = |path: &str| path.split('.').fold(object, |value, step| &value[step]);
        match self {
            Self::Field(path) => at(path).clone(),
            Self::Or(path, otherwise) => match at(path).as_str() {
                Some(text) if !text.is_empty() => json!(text),
                _ => json!(otherwise),
            },
            Self::Integer(path) => json!(int(at(path))),
            Self::True(path) => json!(*at(path) == true),
            Self::By(cell) => cell(object),
        }
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
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

pub(super) fn labels(map: &Value) -> String {
    let pairs = map.as_object().into_iter().flatten();
    let pairs: Vec<String> = pairs.map(|(k, v)| format!("{k}={}", string(v))).collect();
    pairs.join(",")
}

pub(super) fn labels_or_none(map: &Value) -> Value {
    match labels(map) {
        none if none.is_empty() => json!("<none>"),
        labels => json!(labels),
    }
}

/// Returns a label selector as a text in one line.
pub(super) fn selector(selector: &Value) -> Value {
    match label_selector::format(selector) {
        all if all.is_empty() => json!("<none>"),
        some => json!(some),
    }
}
