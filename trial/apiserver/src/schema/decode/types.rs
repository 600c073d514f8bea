//! The types of the fields of built-in kinds, read once from the OpenAPI definitions.

use std::collections::HashMap;
use std::sync::LazyLock;

use serde_json::Value;

use super::empty;
use crate::schema::builtin::definitions;
use crate::schema::compile::reference;

/// The type of a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FieldType {
    Any,
    Text,
    Bytes,
    Bool,
    Int32,
    Int64,
    Float,
    Quantity,
    IntOrString,
    Time {
        /// True if the time has microseconds.
        micro: bool,
    },
    List(Box<Self>),
    Map(Box<Self>),
    /// A struct, with the name of its definition. A struct without fields accepts any value.
    Struct(&'static str),
}

impl FieldType {
    /// Returns the name of the type for messages.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Any => "any",
            Self::Text => "string",
            Self::Bytes => "base64",
            Self::Bool => "bool",
            Self::Int32 => "int32",
            Self::Int64 => "int64",
            Self::Float => "float64",
            Self::Quantity => "quantity",
            Self::IntOrString => "int32 or string",
            Self::Time { .. } => "time",
            Self::List(_) => "array",
            Self::Map(_) | Self::Struct(_) => "object",
        }
    }

    /// Reports whether values of the type are strings, bytes, numbers or booleans.
    fn is_scalar(&self) -> bool {
        matches!(
            self,
            Self::Text | Self::Bytes | Self::Bool | Self::Int32 | Self::Int64 | Self::Float
        )
    }
}

#[derive(Debug)]
pub(super) struct Struct {
    /// The name of the definition without its package, such as `PodSpec`.
    pub(super) name: &'static str,
    pub(super) fields: HashMap<&'static str, Field>,
}

#[derive(Debug)]
pub(super) struct Field {
    pub(super) kind: FieldType,
    /// True if an empty value equals an absent field.
    pub(super) omit_empty: bool,
}

/// The structs with fields, by the name of their definition.
static TYPES: LazyLock<HashMap<&str, Struct>> = LazyLock::new(|| {
    let all = definitions().iter().filter_map(|(definition, json)| {
        let properties = json["properties"].as_object();
        let properties = properties.filter(|p| !p.is_empty())?;
        let required = json["required"].as_array();
        let is_required = |field: &str| required.is_some_and(|r| r.iter().any(|r| r == field));
        let name = short(definition);
        let fields = properties.iter().map(|(field, schema)| {
            let kind = kind(schema);
            let omit_empty =
                kind.is_scalar() && !is_required(field) && !empty::is_kept(name, field);
            (field.as_str(), Field { kind, omit_empty })
        });
        let fields = fields.collect();
        Some((definition.as_str(), Struct { name, fields }))
    });
    all.collect()
});

/// Returns the struct of a definition, if it has fields.
pub(super) fn find(definition: &str) -> Option<&'static Struct> {
    TYPES.get(definition)
}

/// Returns the name of a definition without its package, such as `PodSpec` for `io.k8s.api.core.v1.PodSpec`.
fn short(definition: &str) -> &str {
    definition.rsplit('.').next().unwrap_or(definition)
}

/// Returns the type that a schema declares.
fn kind(schema: &'static Value) -> FieldType {
    if let Some(definition) = reference(schema) {
        return match short(definition) {
            "Quantity" => FieldType::Quantity,
            "IntOrString" => FieldType::IntOrString,
            "Time" => FieldType::Time { micro: false },
            "MicroTime" => FieldType::Time { micro: true },
            _ => FieldType::Struct(definition),
        };
    }
    match schema["type"].as_str() {
        Some("string") if schema["format"] == "byte" => FieldType::Bytes,
        Some("string") => FieldType::Text,
        Some("boolean") => FieldType::Bool,
        Some("integer") if schema["format"] == "int32" => FieldType::Int32,
        Some("integer") => FieldType::Int64,
        Some("number") => FieldType::Float,
        Some("array") => FieldType::List(Box::new(kind(&schema["items"]))),
        Some("object") => match schema.get("additionalProperties") {
            Some(values) => FieldType::Map(Box::new(kind(values))),
            None => FieldType::Any,
        },
        _ => FieldType::Any,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_whose_empty_value_is_kept_exists() {
        let known = |(owner, field): &(&str, &str)| {
            let mut structs = TYPES.values();
            structs.any(|s| s.name == *owner && s.fields.contains_key(field))
        };
        let unknown: Vec<_> = empty::fields().filter(|field| !known(field)).collect();
        assert!(unknown.is_empty(), "{unknown:?}");
    }
}
