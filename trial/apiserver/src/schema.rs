//! Structural schemas, compiled once from OpenAPI JSON.
//!
//! [`compile`] compiles schemas, [`custom`] compiles the schemas of CustomResourceDefinitions, and [`builtin`] the
//! schemas of built-in kinds. [`decode`] checks the types of built-in kinds, [`normalize`] sets defaults and prunes,
//! [`validate`] checks values, [`rules`] evaluates CEL rules, and [`structural`] validates the schemas of
//! CustomResourceDefinitions. These modules must not know where objects are stored.

pub(crate) mod builtin;
pub(crate) mod compile;
pub(crate) mod custom;
pub(crate) mod decode;
mod keywords;
mod merge_keys;
pub(crate) mod normalize;
mod null_lists;
pub(crate) mod published;
pub(crate) mod report_limit;
pub(crate) mod rules;
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
    /// A resource quantity, which is a string or a number.
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

/// The fields of an object that its `properties` do not name.
#[derive(Debug, Clone, Default)]
pub(crate) enum Additional {
    #[default]
    None,
    Any,
    Of(Arc<Schema>),
}

/// The type of a list in server-side apply.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) enum ListType {
    #[default]
    Atomic,
    Set,
    Map(Vec<String>),
}

impl ListType {
    /// Returns the list type that a schema declares.
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

    /// Returns the item of the old list that has the same keys as `item`.
    pub(crate) fn correlated<'a>(&self, item: &Value, old: Option<&'a Value>) -> Option<&'a Value> {
        let Self::Map(keys) = self else { return None };
        old?.as_array()?
            .iter()
            .find(|o| keys.iter().all(|k| o.get(k) == item.get(k)))
    }
}

/// The merge rule of a field in strategic merge patches.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Strategy {
    /// The key by which a list of objects merges. Without a key, a list of scalars merges as a set.
    pub(crate) merge_key: Option<String>,
    pub(crate) retain_keys: bool,
    /// True if an object in a patch replaces the existing object.
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
    /// True if this node or a node below this node has CEL rules.
    pub(crate) has_rules: bool,
    /// True if this node or a node below this node has a default.
    pub(crate) has_defaults: bool,
    /// True for a list that is served as null if it is absent. See `null_lists`.
    pub(crate) always_written: bool,
    /// True if `always_written` is true for this node or a node below this node.
    pub(crate) has_always_written: bool,
    /// True for `metadata` of the root and of embedded resources.
    pub(crate) object_meta: bool,
    /// True for the fields of a CustomResourceDefinition that contain an OpenAPI schema.
    pub(crate) of_schemas: bool,
}

impl Schema {
    /// Returns the open schema, which accepts and keeps every value.
    pub(crate) fn open() -> Arc<Self> {
        Arc::new(Self {
            preserve_unknown: true,
            nullable: true,
            ..Self::default()
        })
    }

    /// Returns the schema of a field of an object.
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
