//! How large the values of a schema can be, and how often they can be there, in a request of the largest size.

use serde_json::Value;

use super::Range;
use crate::schema::rules::{CelType, escape};

/// The largest request, in bytes.
const REQUEST: u64 = 3 * 1024 * 1024;

/// So many values of this schema fit into a request.
pub(crate) fn most_values(schema: &Value, resource: bool) -> u64 {
    REQUEST / (least_bytes(schema, resource) + 1)
}

/// The sizes of what is at and below a variable.
#[derive(Debug)]
pub(crate) struct Sizes<'a> {
    schema: &'a Value,
    resource: bool,
}

/// A place below the variable.
enum At<'a> {
    Schema(&'a Value, bool),
    /// The key of a map, or a field that every resource has.
    Text {
        longest: u64,
    },
    Metadata,
}

impl<'a> Sizes<'a> {
    /// Of a variable of this schema; `resource` if it is the root of one.
    pub(crate) fn new(schema: &'a Value, resource: bool) -> Self {
        Self { schema, resource }
    }

    /// The size of what is at a path, the first step of which is the variable.
    pub(super) fn at(&self, path: &[String]) -> Option<Range> {
        let (_, steps) = path.split_first()?;
        let mut at = At::Schema(self.schema, self.resource);
        for step in steps {
            at = at.step(step)?;
        }
        let most = match at {
            At::Schema(schema, _) => most_elements(schema),
            At::Text { longest } => longest,
            At::Metadata => 0,
        };
        Some(Range::between(0, most))
    }
}

impl At<'_> {
    fn step(self, step: &str) -> Option<Self> {
        let (schema, resource) = match self {
            At::Schema(schema, resource) => (schema, resource),
            At::Metadata if matches!(step, "name" | "generateName") => {
                return Some(Self::Text {
                    longest: REQUEST - 2,
                });
            }
            _ => return None,
        };
        if schema["x-kubernetes-int-or-string"] == true {
            return None;
        }
        let below = |schema| {
            let resource = embedded(schema);
            CelType::of(schema, "", resource).map(|_| At::Schema(schema, resource))
        };
        let is_map = schema["additionalProperties"].is_object() && !resource;
        match (schema["type"].as_str(), step) {
            (Some("array"), "@items" | "@values") => below(schema.get("items")?),
            (Some("object"), "@items" | "@values") if is_map => {
                below(&schema["additionalProperties"])
            }
            (Some("object"), "@keys") if is_map => Some(Self::Text { longest: 0 }),
            (Some("object"), field) if !is_map => {
                match field {
                    "apiVersion" | "kind" if resource => {
                        return Some(Self::Text {
                            longest: REQUEST - 2,
                        });
                    }
                    "metadata" if resource => return Some(Self::Metadata),
                    _ => {}
                }
                let properties = schema["properties"].as_object()?;
                let named = |name: &String| escape(name) == field;
                below(properties.iter().find(|(name, _)| named(name))?.1)
            }
            _ => None,
        }
    }
}

fn embedded(schema: &Value) -> bool {
    schema["x-kubernetes-embedded-resource"] == true
}

/// A limit that is written down; those below zero are zero.
fn limit(schema: &Value, keyword: &str) -> Option<u64> {
    let limit = &schema[keyword];
    limit.as_u64().or_else(|| {
        limit
            .as_i64()
            .map(|below| u64::try_from(below).unwrap_or(0))
    })
}

/// The most elements, characters or bytes of a value.
fn most_elements(schema: &Value) -> u64 {
    // A character has up to four bytes.
    let longest = || limit(schema, "maxLength").map(|length| length.saturating_mul(4));
    if schema["x-kubernetes-int-or-string"] == true {
        return longest().unwrap_or(REQUEST - 2);
    }
    match schema["type"].as_str() {
        Some("array") => limit(schema, "maxItems").unwrap_or_else(|| {
            let items = &schema["items"];
            (REQUEST - 2) / (least_bytes(items, embedded(items)) + 1)
        }),
        Some("object") if schema["additionalProperties"].is_object() => {
            limit(schema, "maxProperties").unwrap_or_else(|| {
                let values = &schema["additionalProperties"];
                // Two quotes, a colon, a comma and a short name are around each.
                (REQUEST - 2) / (least_bytes(values, embedded(values)) + 6)
            })
        }
        Some("string") => match schema["format"].as_str() {
            Some("byte") => limit(schema, "maxLength").unwrap_or(REQUEST - 2),
            Some("duration" | "date-time") => 32,
            Some("date") => 12,
            _ => longest()
                .or_else(|| longest_allowed(schema))
                .unwrap_or(REQUEST - 2),
        },
        _ => 0,
    }
}

/// The longest of the values that are allowed.
fn longest_allowed(schema: &Value) -> Option<u64> {
    let allowed = schema["enum"]
        .as_array()
        .filter(|allowed| !allowed.is_empty())?;
    let longest = allowed
        .iter()
        .filter_map(|value| value.as_str().map(str::len))
        .max();
    u64::try_from(longest.unwrap_or(0)).ok()
}

/// The fewest bytes that a value has as JSON.
fn least_bytes(schema: &Value, resource: bool) -> u64 {
    if schema["x-kubernetes-int-or-string"] == true {
        return 1;
    }
    match schema["type"].as_str() {
        Some("string") if !resource => match schema["format"].as_str() {
            Some("duration") => 3,
            Some("date") => 12,
            Some("date-time") => 21,
            _ => 2,
        },
        Some("boolean") => 4,
        Some("number" | "integer") => 1,
        Some("object") if !schema["additionalProperties"].is_object() || resource => {
            let required = schema["required"].as_array().map(Vec::as_slice);
            let required = required.unwrap_or_default();
            let properties = schema["properties"].as_object().into_iter().flatten();
            let needed = properties
                .filter(|(name, property)| {
                    let is_required = required.iter().any(|r| r.as_str() == Some(name.as_str()));
                    is_required
                        && property["default"].is_null()
                        && CelType::of(property, "", embedded(property)).is_some()
                })
                .map(|(name, property)| {
                    let name = u64::try_from(name.len()).unwrap_or(u64::MAX);
                    name.saturating_add(least_bytes(property, embedded(property)) + 4)
                });
            needed.fold(2, u64::saturating_add)
        }
        _ => 2,
    }
}
