//! The output format `meta.k8s.io/v1 Table`, with a row for each object, as `kubectl get` prints them.

mod builtin;

use berth_apimachinery::jsonpath::Path;
use serde_json::{Value, json};

pub(crate) use builtin::builtin_columns;

use crate::clock;

/// A column of a built-in kind.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BuiltinColumn {
    pub(crate) name: &'static str,
    pub(crate) kind: &'static str,
    /// Priority of the column: 0 if the column is always printed, 1 if it is printed only with `-o wide`.
    pub(crate) priority: i64,
    pub(crate) cell: builtin::Cell,
}

/// A printer column of a CustomResourceDefinition.
#[derive(Debug, Clone)]
pub(crate) struct CustomColumn {
    pub(crate) name: String,
    pub(crate) kind: String,
    pub(crate) format: String,
    pub(crate) description: String,
    pub(crate) priority: i64,
    /// The path of the value, or `None` if the path in the definition is malformed.
    pub(crate) path: Option<Path>,
}

/// The columns of a resource. A column with the name precedes them, unless they contain the name.
#[derive(Debug, Clone)]
pub(crate) enum Columns {
    Builtin(Vec<BuiltinColumn>),
    Custom(Vec<CustomColumn>),
}

impl Columns {
    /// Reports whether these columns contain the name, so that the name is not the first column.
    fn include_name(&self) -> bool {
        matches!(self, Self::Builtin(columns) if columns.iter().any(|c| c.name == "Name"))
    }
}

/// The part of each object that a row contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Include {
    None,
    Metadata,
    Object,
}

/// Returns the age of an object.
pub(crate) fn age(object: &Value) -> Value {
    since(&object["metadata"]["creationTimestamp"])
}

/// Returns the time since a timestamp, as kubectl prints it.
pub(crate) fn since(at: &Value) -> Value {
    let seconds = at.as_str().and_then(clock::seconds_since);
    seconds.map_or_else(|| json!("<unknown>"), |s| json!(clock::human_duration(s)))
}

/// Returns the column definitions of a table.
pub(crate) fn definitions(columns: &Columns) -> Value {
    let column = |name: &str, kind: &str, format: &str, description: &str, priority: i64| json!({"name": name, "type": kind, "format": format, "description": description, "priority": priority});
    let name = "Name must be unique within a namespace.";
    let created = "CreationTimestamp is the server time when this object was created.";
    let mut all = Vec::new();
    if !columns.include_name() {
        all.push(column("Name", "string", "name", name, 0));
    }
    match columns {
        Columns::Builtin(columns) => all.extend(columns.iter().map(|c| {
            let format = if c.name == "Name" { "name" } else { "" };
            column(c.name, c.kind, format, "", c.priority)
        })),
        Columns::Custom(columns) if columns.is_empty() => {
            all.push(column("Age", "date", "", created, 0));
        }
        Columns::Custom(columns) => {
            all.extend(
                columns
                    .iter()
                    .map(|c| column(&c.name, &c.kind, &c.format, &c.description, c.priority)),
            );
        }
    }
    Value::Array(all)
}

/// Returns the row of an object.
pub(crate) fn row(columns: &Columns, object: &Value, include: Include) -> Value {
    let mut cells = Vec::new();
    if !columns.include_name() {
        cells.push(object["metadata"]["name"].clone());
    }
    match columns {
        Columns::Builtin(columns) => cells.extend(columns.iter().map(|c| c.cell.of(object))),
        Columns::Custom(columns) if columns.is_empty() => cells.push(age(object)),
        Columns::Custom(columns) => cells.extend(columns.iter().map(|c| custom_cell(c, object))),
    }
    let shown = match include {
        Include::None => Value::Null,
        Include::Metadata => partial(object),
        Include::Object => object.clone(),
    };
    json!({"cells": cells, "object": shown})
}

/// Returns the `PartialObjectMetadata` of an object.
pub(crate) fn partial(object: &Value) -> Value {
    json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": object["metadata"]})
}

fn custom_cell(column: &CustomColumn, object: &Value) -> Value {
    let path = column.path.as_ref();
    let found = path.map(|path| path.find(object)).unwrap_or_default();
    let Some(first) = found.first() else {
        return Value::Null;
    };
    match column.kind.as_str() {
        "integer" => first.as_i64().map_or(Value::Null, Value::from),
        "number" => first.as_f64().map_or(Value::Null, Value::from),
        "boolean" => first.as_bool().map_or(Value::Null, Value::from),
        "date" if first.is_string() => since(first),
        "date" => Value::Null,
        _ => {
            let text: Vec<String> = found
                .iter()
                .map(|v| v.as_str().map_or_else(|| v.to_string(), str::to_owned))
                .collect();
            Value::String(text.join(","))
        }
    }
}
