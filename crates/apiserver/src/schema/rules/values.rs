//! What CEL sees of an object: typed by its schema, with field names escaped as CEL needs them.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kube_cel::cel;
use kube_cel::cel::objects::{Key, Map};
use serde_json::Value;

use crate::schema::{ListType, Schema};

/// How to convert.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct How<'a> {
    /// At the root, only these fields, as CEL spells them.
    pub(super) fields: Option<&'a BTreeSet<String>>,
    /// Lists whose order means nothing are put in one order, so that they compare as sets.
    pub(super) unordered: bool,
}

/// The CEL value of `value`.
pub(super) fn convert(value: &Value, schema: Option<&Schema>, how: How<'_>) -> cel::Value {
    let inner = How {
        fields: None,
        ..how
    };
    match value {
        Value::Null => cel::Value::Null,
        Value::Bool(b) => cel::Value::Bool(*b),
        Value::Number(number) => {
            let is_float = schema.is_some_and(|s| s.kind == crate::schema::Type::Number);
            match number.as_i64() {
                Some(i) if !is_float => cel::Value::Int(i),
                _ => cel::Value::Float(number.as_f64().unwrap_or(f64::NAN)),
            }
        }
        Value::String(text) => string(text, schema),
        Value::Array(items) => {
            let of = schema.and_then(|s| s.items.as_deref());
            let mut sorted: Vec<&Value> = items.iter().collect();
            if how.unordered
                && let Some(list_type) = schema.map(|s| &s.list_type)
            {
                order(&mut sorted, list_type);
            }
            cel::Value::List(Arc::new(
                sorted.into_iter().map(|i| convert(i, of, inner)).collect(),
            ))
        }
        Value::Object(object) => {
            let mut map = HashMap::with_capacity(object.len());
            for (name, value) in object {
                let property = schema.and_then(|s| s.properties.get(name));
                let of = property
                    .map(AsRef::as_ref)
                    .or_else(|| schema.and_then(|s| s.field(name).map(AsRef::as_ref)));
                // A null is an absent field to a rule.
                if value.is_null() && property.is_some() {
                    continue;
                }
                // Keys of maps are data and stay as they are.
                let key = if property.is_some() {
                    escape(name)
                } else {
                    name.clone()
                };
                if how.fields.is_some_and(|f| !f.contains(&key)) {
                    continue;
                }
                map.insert(Key::String(Arc::new(key)), convert(value, of, inner));
            }
            cel::Value::Map(Map { map: Arc::new(map) })
        }
    }
}

fn order(items: &mut [&Value], list_type: &ListType) {
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

fn string(text: &str, schema: Option<&Schema>) -> cel::Value {
    let plain = || cel::Value::String(Arc::new(text.to_owned()));
    let format = schema
        .and_then(|s| s.limits.as_ref())
        .and_then(|l| l.format.as_deref());
    // The types of dates and times are those of the crate's own parser of CEL literals.
    match format {
        Some("byte") => STANDARD
            .decode(text)
            .map_or_else(|_| plain(), |bytes| cel::Value::Bytes(Arc::new(bytes))),
        Some("date-time") => {
            cel::functions::timestamp(Arc::new(text.to_owned())).unwrap_or_else(|_| plain())
        }
        Some("date") => cel::functions::timestamp(Arc::new(format!("{text}T00:00:00Z")))
            .unwrap_or_else(|_| plain()),
        Some("duration") => {
            cel::functions::duration(Arc::new(text.to_owned())).unwrap_or_else(|_| plain())
        }
        _ => plain(),
    }
}

/// Words that are no field names in CEL.
const RESERVED: [&str; 21] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// Whether a word is no name in CEL.
pub(super) fn is_reserved(word: &str) -> bool {
    RESERVED.contains(&word)
}

/// A property name as rules spell it.
pub(crate) fn escape(name: &str) -> String {
    if is_reserved(name) {
        return format!("__{name}__");
    }
    if !name.contains(['.', '-', '/']) && !name.contains("__") {
        return name.to_owned();
    }
    name.replace("__", "__underscores__")
        .replace('.', "__dot__")
        .replace('-', "__dash__")
        .replace('/', "__slash__")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_escaped() {
        for (name, escaped) in [
            ("plain_name", "plain_name"),
            ("foo-bar", "foo__dash__bar"),
            ("a.b/c", "a__dot__b__slash__c"),
            ("under__score", "under__underscores__score"),
            ("namespace", "__namespace__"),
        ] {
            assert_eq!(escape(name), escaped);
        }
    }
}
