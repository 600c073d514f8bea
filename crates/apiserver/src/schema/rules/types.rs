//! The types of CEL, and what type a value of a schema has. How they fit together is for `check::unify`.

use std::fmt;
use std::sync::Arc;

use serde_json::{Value, json};

use super::escape;
use crate::schema::ListType;

/// The type of an expression. Objects are looked up in their schema when a field is asked for.
#[derive(Debug, Clone)]
pub(crate) enum CelType<'a> {
    /// Anything: checked when the rule runs.
    Dyn,
    /// Of what is wrong already; fits everywhere, so that one mistake is told once.
    Error,
    Null,
    Bool,
    Int,
    Uint,
    Double,
    String,
    Bytes,
    Duration,
    Timestamp,
    /// A list, and how it is joined with another one.
    List(Arc<Self>, Arc<ListType>),
    Map(Arc<Self>, Arc<Self>),
    Object(Object<'a>),
    Optional(Arc<Self>),
    /// A type of a library, by its name.
    Named(&'static str),
    /// The type of a type.
    Type(Option<Arc<Self>>),
    /// A type that is not known yet.
    Variable(usize),
}

/// An object with the fields that its schema declares.
#[derive(Debug, Clone)]
pub(crate) struct Object<'a> {
    /// Where it is below `self`; two objects of one name have one type.
    name: Arc<str>,
    schema: &'a Value,
    /// It is a resource: it has an apiVersion, a kind and metadata.
    resource: bool,
}

static TEXT: std::sync::LazyLock<Value> = std::sync::LazyLock::new(|| json!({"type": "string"}));
static METADATA: std::sync::LazyLock<Value> = std::sync::LazyLock::new(
    || json!({"type": "object", "properties": {"name": {"type": "string"}, "generateName": {"type": "string"}}}),
);

impl<'a> CelType<'a> {
    /// Whether its values may be, or hold, numbers of any type.
    pub(super) fn is_loose(&self) -> bool {
        match self {
            Self::Dyn | Self::Variable(_) => true,
            Self::List(of, _) | Self::Optional(of) => of.is_loose(),
            Self::Map(key, value) => key.is_loose() || value.is_loose(),
            _ => false,
        }
    }

    /// The type of the values of `schema`; none if rules do not see them.
    pub(crate) fn of(schema: &'a Value, name: &str, resource: bool) -> Option<Self> {
        if schema["x-kubernetes-int-or-string"] == true {
            return Some(Self::Dyn);
        }
        let below = |schema: &'a Value, step: &str| {
            let resource = schema["x-kubernetes-embedded-resource"] == true;
            Self::of(schema, &format!("{name}.{step}"), resource)
        };
        match schema["type"].as_str() {
            Some("array") => Some(Self::List(
                Arc::new(below(schema.get("items")?, "@idx")?),
                Arc::new(ListType::of(schema)),
            )),
            Some("object") if schema["additionalProperties"].is_object() && !resource => {
                Some(Self::map(
                    Self::String,
                    below(&schema["additionalProperties"], "@elem")?,
                ))
            }
            Some("object") => Some(Self::object(schema, name, resource)),
            // A resource is an object, said or not.
            _ if resource => Some(Self::object(schema, name, resource)),
            Some("string") => Some(match schema["format"].as_str() {
                Some("byte") => Self::Bytes,
                Some("duration") => Self::Duration,
                Some("date" | "date-time") => Self::Timestamp,
                _ => Self::String,
            }),
            Some("boolean") => Some(Self::Bool),
            Some("number") => Some(Self::Double),
            Some("integer") => Some(Self::Int),
            _ => None,
        }
    }

    fn object(schema: &'a Value, name: &str, resource: bool) -> Self {
        Self::Object(Object {
            name: name.into(),
            schema,
            resource,
        })
    }

    /// A list as any other.
    pub(crate) fn list(of: Self) -> Self {
        Self::List(Arc::new(of), Arc::default())
    }

    pub(crate) fn map(key: Self, value: Self) -> Self {
        Self::Map(Arc::new(key), Arc::new(value))
    }

    pub(crate) fn optional(of: Self) -> Self {
        Self::Optional(Arc::new(of))
    }

    /// Whether it is one and the same type.
    pub(crate) fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::List(a, _), Self::List(b, _)) | (Self::Optional(a), Self::Optional(b)) => {
                a.is(b)
            }
            (Self::Map(a, b), Self::Map(c, d)) => a.is(c) && b.is(d),
            (Self::Object(a), Self::Object(b)) => a.name == b.name,
            (Self::Named(a), Self::Named(b)) => a == b,
            (Self::Variable(a), Self::Variable(b)) => a == b,
            (Self::Type(a), Self::Type(b)) => match (a, b) {
                (Some(a), Some(b)) => a.is(b),
                (None, None) => true,
                _ => false,
            },
            _ => std::mem::discriminant(self) == std::mem::discriminant(other),
        }
    }

    /// The name of the type without what is in it.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Dyn => "dyn",
            Self::Error => "!error!",
            Self::Null => "null",
            Self::Bool => "bool",
            Self::Int => "int",
            Self::Uint => "uint",
            Self::Double => "double",
            Self::String => "string",
            Self::Bytes => "bytes",
            Self::Duration => "duration",
            Self::Timestamp => "timestamp",
            Self::List(..) => "list",
            Self::Map(..) => "map",
            Self::Object(object) => &object.name,
            Self::Optional(_) => "optional_type",
            Self::Named(name) => name,
            Self::Type(_) => "type",
            Self::Variable(_) => "_var",
        }
    }
}

impl<'a> Object<'a> {
    /// The type of a field, as rules spell it.
    pub(crate) fn field(&self, name: &str) -> Option<CelType<'a>> {
        let below = |schema: &'a Value, resource: bool| {
            CelType::of(schema, &format!("{}.{name}", self.name), resource)
        };
        if self.resource {
            match name {
                "apiVersion" | "kind" => return below(&TEXT, false),
                "metadata" => return below(&METADATA, false),
                _ => {}
            }
        }
        let properties = self.schema["properties"].as_object()?;
        let (_, schema) = properties
            .get_key_value(name)
            .filter(|(plain, _)| is_field_name(plain) && escape(plain) == name)
            .or_else(|| {
                properties
                    .iter()
                    .find(|(plain, _)| is_field_name(plain) && escape(plain) == name)
            })?;
        below(schema, schema["x-kubernetes-embedded-resource"] == true)
    }
}

/// Whether rules have a way to spell a property.
fn is_field_name(name: &str) -> bool {
    !name.starts_with(|c: char| c.is_ascii_digit())
        && !name.is_empty()
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "_.-/".contains(c))
}

impl fmt::Display for CelType<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        match self {
            Self::List(of, _) | Self::Optional(of) | Self::Type(Some(of)) => write!(f, "({of})"),
            Self::Map(key, value) => write!(f, "({key}, {value})"),
            Self::Variable(number) => write!(f, "{number}"),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_follow_the_schema() {
        let schema = json!({"type": "object", "properties": {
            "a-b": {"type": "integer"}, "l": {"type": "array", "items": {"type": "object", "properties": {"x": {"type": "number"}}}},
            "m": {"type": "object", "additionalProperties": {"type": "string", "format": "date"}},
            "open": {"x-kubernetes-preserve-unknown-fields": true}, "either": {"x-kubernetes-int-or-string": true},
            "opens": {"type": "array", "items": {"x-kubernetes-preserve-unknown-fields": true}},
            "pod": {"type": "object", "x-kubernetes-embedded-resource": true}, "1st": {"type": "string"}, "namespace": {"type": "string"}}});
        let CelType::Object(spec) = CelType::of(&schema, "self", false).unwrap() else {
            panic!("no object");
        };
        for (name, expected) in [
            ("a__dash__b", Some("int")),
            ("a-b", None),
            ("l", Some("list(self.l.@idx)")),
            ("m", Some("map(string, timestamp)")),
            ("open", None),
            ("opens", None),
            ("either", Some("dyn")),
            ("pod", Some("self.pod")),
            ("1st", None),
            ("namespace", None),
            ("__namespace__", Some("string")),
            ("metadata", None),
        ] {
            let found = spec.field(name).map(|t| t.to_string());
            assert_eq!(found.as_deref(), expected, "{name}");
        }
        let Some(CelType::Object(pod)) = spec.field("pod") else {
            panic!("no object");
        };
        assert_eq!(
            pod.field("metadata").unwrap().to_string(),
            "self.pod.metadata"
        );
    }
}
