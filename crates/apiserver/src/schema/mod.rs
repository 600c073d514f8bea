//! Structural schemas: what an object of a kind may look like, compiled once from OpenAPI JSON.
//!
//! [`compile`] reads CRD schemas, [`builtin`] those of the built-in kinds; [`shape`] defaults and prunes,
//! [`validate`] checks, [`decode`] does for built-in kinds what comes before. [`structural`] says whether a CRD schema can be used at all, [`rules`] holds its CEL. Nothing here knows where objects are stored or how they arrive.

pub(crate) mod builtin;
pub(crate) mod compile;
pub(crate) mod decode;
mod keywords;
mod merge_keys;
pub(crate) mod pattern;
pub(crate) mod published;
pub(crate) mod rules;
pub(crate) mod shape;
pub(crate) mod structural;
pub(crate) mod validate;
mod written;

use std::collections::BTreeMap;
use std::sync::Arc;

use regex::Regex;
use serde_json::Value;

/// The JSON type a schema asks for.
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
    /// A resource quantity: a string, for which a number is accepted.
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

/// What fields beyond `properties` an object may have.
#[derive(Debug, Clone, Default)]
pub(crate) enum Additional {
    #[default]
    None,
    Any,
    Of(Arc<Schema>),
}

/// How lists merge, for server-side apply.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) enum ListType {
    #[default]
    Atomic,
    Set,
    Map(Vec<String>),
}

impl ListType {
    /// How lists of a schema merge, as its JSON says.
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

    /// The item of `old` that `item` stands for now.
    pub(crate) fn correlated<'a>(&self, item: &Value, old: Option<&'a Value>) -> Option<&'a Value> {
        let Self::Map(keys) = self else { return None };
        old?.as_array()?
            .iter()
            .find(|o| keys.iter().all(|k| o.get(k) == item.get(k)))
    }
}

/// How a field merges in a strategic merge patch.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Strategy {
    /// Lists of objects merge by this key; lists of scalars merge as sets when it is empty.
    pub(crate) merge_key: Option<String>,
    pub(crate) retain_keys: bool,
    /// An object takes the place of the one that is there.
    pub(crate) replaces: bool,
}

/// Bounds and patterns of a value.
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

/// One node of a compiled schema.
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
    /// True for a list that is written even if there is none.
    pub(crate) always_written: bool,
    /// True if there are such lists in this node or below.
    pub(crate) has_always_written: bool,
    /// True for `metadata` of the root and of embedded resources.
    pub(crate) object_meta: bool,
    /// True for what is a schema itself, in a definition.
    pub(crate) of_schemas: bool,
}

impl Schema {
    /// The schema of everything: nothing is checked, nothing is pruned.
    pub(crate) fn open() -> Arc<Self> {
        Arc::new(Self {
            preserve_unknown: true,
            nullable: true,
            ..Self::default()
        })
    }

    /// The schema of a field, if it is known.
    pub(crate) fn field(&self, name: &str) -> Option<&Arc<Self>> {
        self.properties.get(name).or(match &self.additional {
            Additional::Of(schema) => Some(schema),
            _ => None,
        })
    }
}
