//! The types of Go that objects of built-in kinds are decoded into, made once from the OpenAPI definitions.

use std::collections::HashMap;
use std::sync::LazyLock;

use serde_json::Value;

use super::empty;
use super::named::{embedded, named};
use crate::schema::builtin::definitions;
use crate::schema::compile::reference;

/// A type of Go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum GoType {
    /// Whatever is there.
    Any,
    /// A text, and what its type is called.
    Text(&'static str),
    Bytes,
    Bool,
    Int32,
    Int64,
    Float,
    Quantity,
    IntOrString,
    Time {
        micro: bool,
    },
    /// A list or a map of these, and what it is called if it has a name of its own.
    List(Box<Self>, Option<&'static str>),
    Map(Box<Self>, Option<&'static str>),
    Struct(Place),
}

impl GoType {
    /// Whether its values are texts, numbers or flags and nothing else.
    fn is_plain(&self) -> bool {
        matches!(
            self,
            Self::Text(_) | Self::Bytes | Self::Bool | Self::Int32 | Self::Int64 | Self::Float
        )
    }
}

/// Where a struct is among all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place(usize);

#[derive(Debug)]
pub(super) struct Struct {
    /// `PodSpec`
    pub(super) name: &'static str,
    /// `v1`
    package: &'static str,
    pub(super) fields: HashMap<&'static str, Field>,
}

#[derive(Debug)]
pub(super) struct Field {
    /// The struct within the struct that it is a field of.
    pub(super) within: Option<&'static str>,
    pub(super) kind: GoType,
    /// An empty value is none.
    pub(super) omit_empty: bool,
}

/// All structs, by place and by the name of their definition.
#[derive(Debug)]
pub(super) struct Types {
    structs: Vec<Struct>,
    places: HashMap<&'static str, Place>,
}

static TYPES: LazyLock<Types> = LazyLock::new(Types::all);

/// The types of all built-in kinds.
pub(super) fn types() -> &'static Types {
    &TYPES
}

impl Types {
    /// The struct of a definition.
    pub(super) fn find(&self, definition: &str) -> Option<&Struct> {
        self.places.get(definition).map(|place| self.at(*place))
    }

    pub(super) fn at(&self, place: Place) -> &Struct {
        &self.structs[place.0]
    }

    /// What Go calls a type.
    pub(super) fn name_of(&self, kind: &GoType) -> String {
        match kind {
            GoType::Any => "interface {}".to_owned(),
            GoType::Bytes => "[]uint8".to_owned(),
            GoType::Bool => "bool".to_owned(),
            GoType::Int32 => "int32".to_owned(),
            GoType::Int64 => "int64".to_owned(),
            GoType::Float => "float64".to_owned(),
            GoType::Quantity => "resource.Quantity".to_owned(),
            GoType::IntOrString => "intstr.IntOrString".to_owned(),
            GoType::Time { micro: false } => "v1.Time".to_owned(),
            GoType::Time { micro: true } => "v1.MicroTime".to_owned(),
            GoType::Text(name) | GoType::List(_, Some(name)) | GoType::Map(_, Some(name)) => {
                (*name).to_owned()
            }
            GoType::List(items, None) => format!("[]{}", self.name_of(items)),
            GoType::Map(values, None) => match **values {
                GoType::Quantity => "v1.ResourceList".to_owned(),
                _ => format!("map[string]{}", self.name_of(values)),
            },
            GoType::Struct(place) => {
                let Struct { name, package, .. } = self.at(*place);
                format!("{package}.{name}")
            }
        }
    }

    fn all() -> Self {
        // Types without fields take anything.
        let structs = || {
            definitions().iter().filter_map(|(name, definition)| {
                let properties = definition["properties"].as_object();
                Some((name.as_str(), properties.filter(|p| !p.is_empty())?))
            })
        };
        let places = structs()
            .enumerate()
            .map(|(at, (definition, _))| (definition, Place(at)))
            .collect();
        let made = structs().map(|(definition, properties)| {
            let name = short(definition);
            let required = definitions()[definition]["required"].as_array();
            let is_required = |field: &str| required.is_some_and(|r| r.iter().any(|r| r == field));
            let field = |(field, schema): (&'static String, &'static Value)| {
                let kind = kind(schema, named(name, field), &places);
                let made = Field {
                    within: embedded(name, field),
                    omit_empty: kind.is_plain()
                        && !is_required(field)
                        && !empty::stays(name, field),
                    kind,
                };
                (field.as_str(), made)
            };
            Struct {
                name,
                package: definition.rsplit('.').nth(1).unwrap_or_default(),
                fields: properties.iter().map(field).collect(),
            }
        });
        Self {
            structs: made.collect(),
            places,
        }
    }
}

/// `PodSpec` of `io.k8s.api.core.v1.PodSpec`.
fn short(definition: &str) -> &str {
    definition.rsplit('.').next().unwrap_or(definition)
}

/// The type of a schema. `named` is what it is called, as far as it or what is in it has a name of its own.
fn kind(
    schema: &'static Value,
    named: Option<&'static str>,
    places: &HashMap<&'static str, Place>,
) -> GoType {
    if let Some(definition) = reference(schema) {
        return match short(definition) {
            "Quantity" => GoType::Quantity,
            "IntOrString" => GoType::IntOrString,
            "Time" => GoType::Time { micro: false },
            "MicroTime" => GoType::Time { micro: true },
            _ => match places.get(definition) {
                Some(place) => GoType::Struct(*place),
                None => GoType::Any,
            },
        };
    }
    // The name of a list may be its own, or be about what is in it.
    let own = named.filter(|name| !name.starts_with("[]"));
    match schema["type"].as_str() {
        Some("string") if schema["format"] == "byte" => GoType::Bytes,
        Some("string") => GoType::Text(named.unwrap_or("string")),
        Some("boolean") => GoType::Bool,
        Some("integer") if schema["format"] == "int32" => GoType::Int32,
        Some("integer") => GoType::Int64,
        Some("number") => GoType::Float,
        Some("array") => {
            let items = named.and_then(|name| name.strip_prefix("[]"));
            GoType::List(Box::new(kind(&schema["items"], items, places)), own)
        }
        Some("object") => match schema.get("additionalProperties") {
            Some(values) => {
                let named_values = named
                    .and_then(|name| name.strip_prefix("map[")?.split_once(']'))
                    .map(|(_, values)| values);
                // Keys that have a type of their own are part of the name.
                let own = named.filter(|name| !name.starts_with("map[string]"));
                GoType::Map(Box::new(kind(values, named_values, places)), own)
            }
            None => GoType::Any,
        },
        _ => GoType::Any,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(definition: &str, field: &str) -> String {
        let found = types().find(definition).unwrap();
        types().name_of(&found.fields[field].kind)
    }

    #[test]
    fn types_have_the_names_of_go() {
        for (definition, name, expected) in [
            ("core.v1.PodSpec", "containers", "[]v1.Container"),
            ("core.v1.PodSpec", "restartPolicy", "v1.RestartPolicy"),
            ("core.v1.PodSpec", "nodeName", "string"),
            ("core.v1.PodSpec", "overhead", "v1.ResourceList"),
            ("core.v1.Capabilities", "add", "[]v1.Capability"),
            ("core.v1.HTTPGetAction", "port", "intstr.IntOrString"),
            ("core.v1.Secret", "data", "map[string][]uint8"),
            (
                "autoscaling.v2.HorizontalPodAutoscalerSpec",
                "metrics",
                "[]v2.MetricSpec",
            ),
            (
                "certificates.v1.CertificateSigningRequestSpec",
                "extra",
                "map[string]v1.ExtraValue",
            ),
            (
                "core.v1.PersistentVolumeClaimStatus",
                "allocatedResourceStatuses",
                "map[v1.ResourceName]v1.ClaimResourceStatus",
            ),
        ] {
            let found = field(&format!("io.k8s.api.{definition}"), name);
            assert_eq!(found, expected, "{definition} {name}");
        }
    }

    #[test]
    fn every_name_is_that_of_a_field() {
        let known = |place: &str| {
            let (owner, field) = place.split_once('.').unwrap();
            let mut structs = types().structs.iter();
            structs.any(|s| s.name == owner && s.fields.contains_key(field))
        };
        let unknown: Vec<_> = super::super::named::places()
            .filter(|p| !known(p))
            .collect();
        assert!(unknown.is_empty(), "{unknown:?}");
        let kept = empty::places().map(|(owner, field)| format!("{owner}.{field}"));
        let unknown: Vec<_> = kept.filter(|p| !known(p)).collect();
        assert!(unknown.is_empty(), "{unknown:?}");
    }
}
