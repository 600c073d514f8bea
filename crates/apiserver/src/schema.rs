//! Structural schemas, compiled once from OpenAPI JSON.
//!
//! [`compile`] reads schemas, [`custom`] those of definitions, [`builtin`] those of built-in kinds; [`decode`] checks the types of
//! built-in kinds, [`shape`] sets defaults and prunes, [`validate`] checks values, [`rules`] evaluates CEL, and
//! [`structural`] validates schemas of definitions. Nothing here knows where objects are stored.

pub(crate) mod builtin;
pub(crate) mod compile;
pub(crate) mod custom;
pub(crate) mod decode;
mod keywords;
mod merge_keys;
mod null_lists;
pub(crate) mod published;
pub(crate) mod rules;
pub(crate) mod shape;
pub(crate) mod structural;
pub(crate) mod validate;

use std::collections::BTreeMap;
use std::sync::Arc;

use regex::Regex;
use serde_json::Value;

/// The JSON type of a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Type {
    #[default]
    Any,
    Object,
    Array,
    String,
    Integer,
    Number,
    Boolean,
    IntOrString,
    /// A resource quantity: a string, or a number.
    Quantity,
}

impl Type {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Any => "any",
            Self::Object => "object",
            Self::Array => "array",
            Self::String | Self::Quantity => "string",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Boolean => "boolean",
            Self::IntOrString => "int-or-string",
        }
    }
}

/// The fields of an object beyond its `properties`.
#[derive(Debug, Clone, Default)]
pub(crate) enum Additional {
    #[default]
    None,
    Any,
    Of(Arc<Schema>),
}

/// The merge type of a list in server-side apply.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) enum ListType {
    #[default]
    Atomic,
    Set,
    Map(Vec<String>),
}

impl ListType {
    /// Reads the list type of a schema.
    pub(crate) fn of(json: &Value) -> Self {
        match json["x-kubernetes-list-type"].as_str() {
            Some("set") => Self::Set,
            Some("map") => Self::Map(
                json["x-kubernetes-list-map-keys"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .filter_map(|key| key.as_str().map(str::to_owned))
                    .collect(),
            ),
            _ => Self::Atomic,
        }
    }

    /// Returns the item of `old` with the identity of `item`.
    pub(crate) fn correlated<'a>(&self, item: &Value, old: Option<&'a Value>) -> Option<&'a Value> {
        let Self::Map(keys) = self else { return None };
        old?.as_array()?
            .iter()
            .find(|o| keys.iter().all(|k| o.get(k) == item.get(k)))
    }
}

/// The merge rule of a field in a strategic merge patch.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Strategy {
    /// The key by which lists of objects merge; without it, lists of scalars merge as sets.
    pub(crate) merge_key: Option<String>,
    pub(crate) retain_keys: bool,
    /// True if an object replaces the existing one.
    pub(crate) replaces: bool,
}

/// Restrictions on a value.
#[derive(Debug, Clone, Default)]
pub(crate) struct Limits {
    pub(crate) minimum: Option<f64>,
    pub(crate) maximum: Option<f64>,
    pub(crate) exclusive_minimum: bool,
    pub(crate) exclusive_maximum: bool,
    pub(crate) multiple_of: Option<f64>,
    pub(crate) min_length: Option<u64>,
    pub(crate) max_length: Option<u64>,
    pub(crate) min_items: Option<u64>,
    pub(crate) max_items: Option<u64>,
    pub(crate) unique_items: bool,
    pub(crate) min_properties: Option<u64>,
    pub(crate) max_properties: Option<u64>,
    pub(crate) pattern: Option<Regex>,
    pub(crate) format: Option<String>,
    pub(crate) allowed: Option<Vec<Value>>,
    pub(crate) all_of: Vec<Arc<Schema>>,
    pub(crate) any_of: Vec<Arc<Schema>>,
    pub(crate) one_of: Vec<Arc<Schema>>,
    pub(crate) not: Option<Arc<Schema>>,
}

/// A node of a compiled schema.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is an independent keyword of the schema language"
)]
#[derive(Debug, Clone, Default)]
pub(crate) struct Schema {
    pub(crate) kind: Type,
    pub(crate) nullable: bool,
    pub(crate) preserve_unknown: bool,
    pub(crate) embedded: bool,
    pub(crate) properties: BTreeMap<String, Arc<Self>>,
    pub(crate) additional: Additional,
    pub(crate) items: Option<Arc<Self>>,
    pub(crate) required: Vec<String>,
    pub(crate) default: Option<Value>,
    pub(crate) list_type: ListType,
    pub(crate) map_atomic: bool,
    pub(crate) strategy: Option<Strategy>,
    pub(crate) limits: Option<Box<Limits>>,
    pub(crate) rules: Vec<rules::Rule>,
    /// True if this node or one below has rules.
    pub(crate) has_rules: bool,
    /// True if this node or one below has a default.
    pub(crate) has_defaults: bool,
    /// True for a list that is served as null if it is absent.
    pub(crate) always_written: bool,
    /// True if this node or one below has such lists.
    pub(crate) has_always_written: bool,
    /// True for `metadata` of the root and of embedded resources.
    pub(crate) object_meta: bool,
    /// True for a schema within a definition.
    pub(crate) of_schemas: bool,
}

impl Schema {
    /// Returns the schema that accepts and keeps everything.
    pub(crate) fn open() -> Arc<Self> {
        Arc::new(Self {
            preserve_unknown: true,
            nullable: true,
            ..Self::default()
        })
    }

    /// Returns the schema of a field.
    pub(crate) fn field(&self, name: &str) -> Option<&Arc<Self>> {
        self.properties.get(name).or(match &self.additional {
            Additional::Of(schema) => Some(schema),
            _ => None,
        })
    }
}

/// Joins two paths with a dot.
fn join(path: &str, name: &str) -> String {
    if path.is_empty() {
        name.to_owned()
    } else {
        format!("{path}.{name}")
    }
}
