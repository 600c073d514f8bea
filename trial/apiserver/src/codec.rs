//! Decoding of request bodies in JSON, YAML and protobuf to JSON values.
//!
//! This module must not know how a body is received or used.

mod strict_decoding;

use std::fmt;
use std::marker::PhantomData;

use bytes::Bytes;
use serde::de::{DeserializeOwned, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use serde_saphyr::{DuplicateKeyPolicy, Spanned, with_deserializer_from_str_with_options};

use crate::error::{ApiError, Reason};
use crate::protobuf;
pub(crate) use strict_decoding::{DuplicateField, strict_error, warnings};

/// Maximum size of a request body and of a stored object, in bytes.
pub(crate) const MAX_BODY: usize = 3 << 20;

/// A decoded body, and the fields that occur twice in it.
#[derive(Debug)]
pub(crate) struct Decoded {
    pub(crate) value: Value,
    pub(crate) duplicates: Vec<DuplicateField>,
}

/// Decodes an object sent with POST, PUT or DELETE.
pub(crate) fn object(content_type: &str, bytes: &Bytes) -> Result<Decoded, ApiError> {
    check_media_type(content_type)?;
    match media_type(content_type) {
        "application/yaml" => parse_yaml(bytes).map_err(ApiError::bad_request),
        "application/vnd.kubernetes.protobuf" => Ok(Decoded {
            value: protobuf::decode(bytes)?,
            duplicates: Vec::new(),
        }),
        _ => parse_json(bytes).map_err(|message| {
            ApiError::bad_request(format!(
                "couldn't get version/kind; json parse error: {message}"
            ))
        }),
    }
}

/// Decodes an object of a kind. The message of an error names the kind.
pub(crate) fn typed_object(
    content_type: &str,
    bytes: &Bytes,
    kind: &str,
) -> Result<Decoded, ApiError> {
    object(content_type, bytes).map_err(|mut error| {
        if error.reason == Reason::BadRequest {
            error.message = unrecognized(kind, &error.message);
        }
        error
    })
}

/// Returns the message for a body that cannot be decoded into an object of a kind.
pub(crate) fn unrecognized(kind: &str, message: &str) -> String {
    format!("the object provided is unrecognized (must be of type {kind}): {message}")
}

/// Parses JSON, or returns the problem.
pub(crate) fn parse_json(bytes: &[u8]) -> Result<Decoded, String> {
    let text = String::from_utf8_lossy(bytes);
    let mut duplicates = Vec::new();
    let mut deserializer = serde_json::Deserializer::from_str(&text);
    let value = ValueSeed::<String>::new(None, &mut duplicates)
        .deserialize(&mut deserializer)
        .and_then(|value| deserializer.end().map(|()| value))
        .map_err(|error| error.to_string())?;
    Ok(Decoded { value, duplicates })
}

/// Refuses an unknown media type. Handlers call this function before they read the body.
pub(crate) fn check_media_type(content_type: &str) -> Result<(), ApiError> {
    match media_type(content_type) {
        "" if content_type.is_empty() => Ok(()),
        "application/json" | "application/yaml" | "application/vnd.kubernetes.protobuf" => Ok(()),
        _ => Err(ApiError::new(
            Reason::UnsupportedMediaType,
            "the body of the request was in an unknown format - accepted media types include: application/json, \
             application/yaml, application/vnd.kubernetes.protobuf",
        )),
    }
}

/// Returns the media type without its parameters.
pub(crate) fn media_type(content_type: &str) -> &str {
    content_type.split(';').next().unwrap_or_default().trim()
}

/// Decodes YAML, as server-side apply sends it.
pub(crate) fn yaml(bytes: &[u8]) -> Result<Decoded, ApiError> {
    parse_yaml(bytes).map_err(|message| {
        ApiError::bad_request(format!(
            "error decoding YAML: error converting YAML to JSON: {message}"
        ))
    })
}

/// Parses YAML, or returns the problem. JSON is valid YAML, so the faster JSON decoder is tried first.
fn parse_yaml(bytes: &[u8]) -> Result<Decoded, String> {
    if bytes.first() == Some(&b'{')
        && let Ok(decoded) = parse_json(bytes)
        // Only the YAML decoder reports the lines of duplicate fields.
        && decoded.duplicates.is_empty()
    {
        return Ok(decoded);
    }
    let text = String::from_utf8_lossy(bytes);
    let mut duplicates = Vec::new();
    let options = serde_saphyr::options! { duplicate_keys: DuplicateKeyPolicy::LastWins };
    let value = with_deserializer_from_str_with_options(&text, options, |deserializer| {
        ValueSeed::<Spanned<String>>::new(None, &mut duplicates).deserialize(deserializer)
    })
    .map_err(|error| yaml_problem(&error.to_string()))?;
    Ok(Decoded { value, duplicates })
}

/// Returns the first line of a decoder message. The excerpt of the input and the advice to programmers are removed.
fn yaml_problem(message: &str) -> String {
    let line = message.lines().next().unwrap_or_default();
    let line = line.strip_prefix("error: ").unwrap_or(line);
    let advice = [", set ", "; use "].iter().find_map(|by| line.find(by));
    let problem = &line[..advice.unwrap_or(line.len())];
    format!("yaml: {problem}")
}

/// 2^53. An `f64` represents every whole number up to this number exactly.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// The name of a decoded field. The YAML decoder also returns the line of the name.
trait FieldName: DeserializeOwned {
    fn parts(self) -> (String, Option<u64>);
}

impl FieldName for String {
    fn parts(self) -> (String, Option<u64>) {
        (self, None)
    }
}

impl FieldName for Spanned<String> {
    fn parts(self) -> (String, Option<u64>) {
        (self.value, Some(self.referenced.line()))
    }
}

/// A step of the path to a value. A path becomes text only if a duplicate field is recorded, because such a text may be
/// long.
struct Step<'a> {
    parent: Option<&'a Self>,
    element: PathElement<'a>,
}

enum PathElement<'a> {
    Field(&'a str),
    Item(usize),
}

impl fmt::Display for Step<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.parent {
            parent.fmt(f)?;
        }
        match (&self.element, self.parent) {
            (PathElement::Item(at), _) => write!(f, "[{at}]"),
            (PathElement::Field(name), None) => f.write_str(name),
            (PathElement::Field(name), Some(_)) => write!(f, ".{name}"),
        }
    }
}

/// The decoder of a [`Value`], which records the fields that occur twice. The last occurrence of such a field
/// determines its value.
struct ValueSeed<'a, N> {
    path: Option<&'a Step<'a>>,
    duplicates: &'a mut Vec<DuplicateField>,
    names: PhantomData<N>,
}

impl<'a, N> ValueSeed<'a, N> {
    fn new(path: Option<&'a Step<'a>>, duplicates: &'a mut Vec<DuplicateField>) -> Self {
        Self {
            path,
            duplicates,
            names: PhantomData,
        }
    }
}

impl<'de, N: FieldName> DeserializeSeed<'de> for ValueSeed<'_, N> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, N: FieldName> Visitor<'de> for ValueSeed<'_, N> {
    type Value = Value;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_bool<E>(self, v: bool) -> Result<Value, E> {
        Ok(Value::Bool(v))
    }

    fn visit_i64<E>(self, v: i64) -> Result<Value, E> {
        Ok(v.into())
    }

    fn visit_u64<E>(self, v: u64) -> Result<Value, E> {
        Ok(v.into())
    }

    /// Stores a whole number such as `1.0` as the integer `1`, because Kubernetes clients treat these numbers as equal.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "whole and within the exact range of f64"
    )]
    fn visit_f64<E>(self, v: f64) -> Result<Value, E> {
        if v.fract() == 0.0 && v.abs() <= EXACT {
            return Ok((v as i64).into());
        }
        Ok(Number::from_f64(v).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, v: &str) -> Result<Value, E> {
        Ok(Value::String(v.to_owned()))
    }

    fn visit_string<E>(self, v: String) -> Result<Value, E> {
        Ok(Value::String(v))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        loop {
            let step = Step {
                parent: self.path,
                element: PathElement::Item(items.len()),
            };
            match seq.next_element_seed(ValueSeed::<N>::new(Some(&step), self.duplicates))? {
                Some(item) => items.push(item),
                None => return Ok(Value::Array(items)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(name) = access.next_key::<N>()? {
            let (key, line) = name.parts();
            let step = Step {
                parent: self.path,
                element: PathElement::Field(&key),
            };
            let value =
                access.next_value_seed(ValueSeed::<N>::new(Some(&step), self.duplicates))?;
            if map.contains_key(&key) {
                strict_decoding::record(
                    self.duplicates,
                    &step,
                    line.map(|line| (key.clone(), line)),
                );
            }
            map.insert(key, value);
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duplicate_fields_are_recorded_with_their_path() {
        let decoded = parse_json(br#"{"a": {"b": 1, "b": 2}, "c": [{"d": 1, "d": 1}]}"#).unwrap();
        let paths: Vec<&str> = decoded.duplicates.iter().map(|d| d.path.as_str()).collect();
        assert_eq!(paths, ["a.b", "c[0].d"]);
        assert_eq!(decoded.value["a"]["b"], 2);
    }

    #[test]
    fn the_last_duplicate_in_yaml_wins_and_its_line_is_reported() {
        let decoded = yaml(b"a:\n  b: 1\n  b: 2\nc: 1\n").unwrap();
        assert_eq!(decoded.value, serde_json::json!({"a": {"b": 2}, "c": 1}));
        let messages: Vec<String> = decoded.duplicates.iter().map(ToString::to_string).collect();
        assert_eq!(messages, ["line 3: key \"b\" already set in map"]);
    }

    #[test]
    fn whole_numbers_are_equal_with_and_without_a_fraction() {
        for bytes in [&b"{\"a\": 1.0, \"b\": 0.5}"[..], b"a: 1.0\nb: 0.5\n"] {
            let value = yaml(bytes).unwrap().value;
            assert_eq!(value, serde_json::json!({ "a": 1, "b": 0.5 }));
        }
    }
}
