//! Shapes of subexpressions, derived from the schemas of the variables: the fields of objects, the keys of list items, and
//! whether a value is optional.

use std::sync::LazyLock;

use serde_json::{Value, json};

use super::names::{escape, is_reserved, is_selectable};

/// A variable of an expression.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Variable<'s> {
    pub(crate) name: &'static str,
    /// The OpenAPI schema of its value, if known.
    pub(crate) schema: Option<&'s Value>,
    /// True if the value is a resource. It then has apiVersion, kind and metadata even if its schema declares none.
    pub(crate) resource: bool,
    /// True if the value is wrapped in an optional value.
    pub(crate) optional: bool,
}

impl<'s> Variable<'s> {
    /// Returns a variable of unknown shape.
    pub(crate) fn untyped(name: &'static str) -> Self {
        Self {
            name,
            schema: None,
            resource: false,
            optional: false,
        }
    }

    pub(super) fn shape(&self) -> Shape<'s> {
        Shape {
            schema: self.schema,
            resource: self.resource,
            optional: self.optional,
        }
    }
}

/// The known shape of the value of a subexpression.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Shape<'s> {
    schema: Option<&'s Value>,
    resource: bool,
    /// True if the value is wrapped in an optional value.
    pub(super) optional: bool,
}

static TEXT: LazyLock<Value> = LazyLock::new(|| json!({"type": "string"}));
static METADATA: LazyLock<Value> = LazyLock::new(
    || json!({"type": "object", "properties": {"name": {"type": "string"}, "generateName": {"type": "string"}}}),
);

impl<'s> Shape<'s> {
    pub(super) fn optional(self) -> Self {
        Self {
            optional: true,
            ..self
        }
    }

    pub(super) fn unwrapped(self) -> Self {
        Self {
            optional: false,
            ..self
        }
    }

    /// Returns the shape of a field, or an error if the schema rules the field out.
    pub(super) fn field(self, name: &str) -> Result<Self, String> {
        let Some(schema) = self.schema.filter(|schema| !is_int_or_string(schema)) else {
            return Ok(self.unknown());
        };
        let kind = schema["type"].as_str().unwrap_or_default();
        if !self.resource && kind != "object" {
            return Err(format!("type '{kind}' has no field '{name}'"));
        }
        if self.resource {
            match name {
                "apiVersion" | "kind" => return Ok(self.below(&TEXT)),
                "metadata" => return Ok(self.below(&METADATA)),
                _ => {}
            }
        } else if schema["additionalProperties"].is_object() {
            return Ok(self.below(&schema["additionalProperties"]));
        }
        let spelled = |plain: &str| {
            is_selectable(plain) && (escape(plain) == name || plain == name && is_reserved(name))
        };
        let mut properties = schema["properties"].as_object().into_iter().flatten();
        properties
            .find(|(plain, property)| spelled(plain) && is_visible(property, false))
            .map(|(_, property)| self.below(property))
            .ok_or_else(|| format!("undefined field '{name}'"))
    }

    /// Returns the shape of the elements of a list or of the values of a map.
    pub(super) fn element(self) -> Self {
        let of = self.schema.and_then(|schema| {
            let below = |keyword: &str| schema.get(keyword).filter(|of| of.is_object());
            below("items").or_else(|| below("additionalProperties"))
        });
        of.map_or_else(|| self.unknown(), |of| self.below(of))
    }

    /// Reports whether the value is a map.
    pub(super) fn is_map(self) -> bool {
        self.schema
            .is_some_and(|schema| schema["additionalProperties"].is_object())
    }

    /// Returns the keys that identify the items of a list that merges by item: an empty list for a set, `None` for an
    /// atomic list.
    pub(super) fn item_keys(self) -> Option<Vec<&'s str>> {
        let schema = self.schema?;
        match schema["x-kubernetes-list-type"].as_str()? {
            "set" => Some(Vec::new()),
            "map" => Some(
                schema["x-kubernetes-list-map-keys"]
                    .as_array()?
                    .iter()
                    .filter_map(Value::as_str)
                    .collect(),
            ),
            _ => None,
        }
    }

    /// Reports whether the schema rules out that the value is of this type.
    pub(super) fn excludes(self, kind: &str) -> bool {
        self.optional
            || self.schema.is_some_and(|schema| {
                !is_int_or_string(schema) && schema["type"].as_str().is_some_and(|t| t != kind)
            })
    }

    fn below(self, schema: &'s Value) -> Self {
        Self {
            schema: Some(schema),
            resource: schema["x-kubernetes-embedded-resource"] == true,
            optional: self.optional,
        }
    }

    fn unknown(self) -> Self {
        Self {
            optional: self.optional,
            ..Self::default()
        }
    }
}

fn is_int_or_string(schema: &Value) -> bool {
    schema["x-kubernetes-int-or-string"] == true
}

/// Reports whether expressions can read values of a schema. Values without a type are hidden.
pub(crate) fn is_visible(schema: &Value, resource: bool) -> bool {
    let of = |keyword: &str| {
        let of = &schema[keyword];
        of.is_object() && is_visible(of, of["x-kubernetes-embedded-resource"] == true)
    };
    if resource || schema["x-kubernetes-embedded-resource"] == true || is_int_or_string(schema) {
        return true;
    }
    match schema["type"].as_str() {
        Some("array") => of("items"),
        Some("object") if schema["additionalProperties"].is_object() => of("additionalProperties"),
        Some(kind) => ["object", "string", "boolean", "number", "integer"].contains(&kind),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_follow_the_schema() {
        let schema = json!({"type": "object", "properties": {
            "a-b": {"type": "integer"}, "l": {"type": "array", "items": {"type": "object", "properties": {"x": {"type": "number"}}}},
            "m": {"type": "object", "additionalProperties": {"type": "string"}},
            "open": {"x-kubernetes-preserve-unknown-fields": true}, "either": {"x-kubernetes-int-or-string": true},
            "pod": {"type": "object", "x-kubernetes-embedded-resource": true}, "1st": {"type": "string"}, "namespace": {"type": "string"}}});
        let root = Shape {
            schema: Some(&schema),
            ..Shape::default()
        };
        for name in [
            "a__dash__b",
            "l",
            "m",
            "either",
            "pod",
            "namespace",
            "__namespace__",
        ] {
            assert!(root.field(name).is_ok(), "{name}");
        }
        for name in ["a-b", "open", "1st", "metadata"] {
            assert!(root.field(name).is_err(), "{name}");
        }
        let metadata = root.field("pod").unwrap().field("metadata").unwrap();
        assert!(metadata.field("name").is_ok() && metadata.field("labels").is_err());
        assert!(root.field("l").unwrap().element().field("x").is_ok());
        assert!(root.field("a__dash__b").unwrap().field("x").is_err());
        assert!(
            root.field("m")
                .unwrap()
                .field("x")
                .unwrap()
                .excludes("boolean")
        );
    }
}
