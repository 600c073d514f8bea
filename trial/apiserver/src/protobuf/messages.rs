//! The fields of protobuf messages by their numbers, read from `messages.txt`.

use std::collections::HashMap;
use std::sync::OnceLock;

/// A field of a protobuf message.
#[derive(Debug)]
pub(super) struct Field {
    pub(super) number: u64,
    /// The name in JSON. `None` if JSON contains the fields of this message in the enclosing object.
    pub(super) name: Option<&'static str>,
    pub(super) cardinality: Cardinality,
    pub(super) kind: Kind,
    /// True if JSON omits a zero value.
    pub(super) omit_zero: bool,
}

/// The cardinality of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cardinality {
    One,
    List,
    Map,
}

/// The type of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Int,
    Bool,
    Double,
    Bytes,
    /// A time, with whole seconds in JSON.
    Time,
    /// A time, with microseconds in JSON.
    MicroTime,
    Quantity,
    IntOrString,
    /// Bytes that contain JSON.
    Raw,
    Message(&'static str),
    /// A message of alternatives. JSON contains only the value of the alternative that is set.
    Either(&'static str),
}

impl Kind {
    fn parse(name: &'static str) -> Self {
        match name {
            "text" => Self::Text,
            "int" => Self::Int,
            "bool" => Self::Bool,
            "double" => Self::Double,
            "bytes" => Self::Bytes,
            "time" => Self::Time,
            "microtime" => Self::MicroTime,
            "quantity" => Self::Quantity,
            "intstr" => Self::IntOrString,
            "raw" => Self::Raw,
            message => match message.strip_prefix('|') {
                Some(either) => Self::Either(either),
                None => Self::Message(message),
            },
        }
    }
}

impl Field {
    fn parse(words: &'static str) -> Option<Self> {
        let mut words = words.split(' ');
        let (number, name, kind) = (words.next()?, words.next()?, words.next()?);
        let (kind, omit_zero) = match kind.strip_suffix('?') {
            Some(kind) => (kind, true),
            None => (kind, false),
        };
        let (cardinality, kind) = if let Some(kind) = kind.strip_prefix("[]") {
            (Cardinality::List, kind)
        } else if let Some(kind) = kind.strip_prefix("{}") {
            (Cardinality::Map, kind)
        } else {
            (Cardinality::One, kind)
        };
        Some(Self {
            number: number.parse().ok()?,
            name: (name != "-").then_some(name),
            cardinality,
            kind: Kind::parse(kind),
            omit_zero,
        })
    }
}

type Messages = HashMap<&'static str, Vec<Field>>;

fn all() -> &'static Messages {
    static ALL: OnceLock<Messages> = OnceLock::new();
    ALL.get_or_init(|| {
        let lines = include_str!("messages.txt").lines();
        let lines = lines.filter(|line| !line.starts_with('#'));
        let named = lines.filter_map(|line| line.split_once(':'));
        named
            .map(|(name, fields)| {
                let fields = fields.split(',').map(str::trim);
                (name, fields.filter_map(Field::parse).collect())
            })
            .collect()
    })
}

/// Returns the fields of the message with this name.
pub(super) fn named(message: &str) -> Option<&'static [Field]> {
    all().get(message).map(Vec::as_slice)
}

/// Returns the fields of the message for a kind.
pub(super) fn of_kind(api_version: &str, kind: &str) -> Option<&'static [Field]> {
    if kind == "DeleteOptions" {
        // Clients send `DeleteOptions` with the API group of the object to delete.
        return named("meta.v1.DeleteOptions");
    }
    let (group, version) = api_version.split_once('/').unwrap_or(("core", api_version));
    let package = group.split('.').next().unwrap_or_default();
    named(&format!("{package}.{version}.{kind}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_message_table_is_parsed() {
        let text = include_str!("messages.txt");
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let (name, fields) = line.split_once(':').unwrap();
            let parsed = named(name).unwrap();
            let written = fields.split(',').filter(|field| !field.trim().is_empty());
            assert_eq!(parsed.len(), written.count(), "{name}");
            for field in parsed {
                if let Kind::Message(message) | Kind::Either(message) = field.kind {
                    assert!(named(message).is_some(), "{name}: {message}");
                }
            }
        }
    }

    #[test]
    fn every_built_in_kind_has_a_message() {
        for resource in crate::registry::Registry::new(Vec::new()).snapshot().all() {
            let api_version = resource.api_version();
            assert!(
                of_kind(&api_version, &resource.kind).is_some(),
                "{api_version} {}",
                resource.kind
            );
        }
    }
}
