//! Reading and decoding request bodies.

mod malformed;
mod strange;
mod surrogates;

use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde::de::{DeserializeOwned, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use serde_saphyr::{DuplicateKeyPolicy, Spanned, with_deserializer_from_str_with_options};

use super::MAX_BODY;
use super::load::Seat;
use crate::error::{ApiError, Reason};
use crate::protobuf;
pub(crate) use strange::{Twice, strictly, told};

/// Receives the whole body, if it is not too large, arrives in time and there is memory for it.
pub(crate) async fn read(body: Body, patience: Duration, seat: &Seat) -> Result<Bytes, ApiError> {
    let received = tokio::time::timeout(patience, receive(body, seat)).await;
    received.unwrap_or_else(|_| {
        let mut error = ApiError::new(
            Reason::Timeout,
            "Timeout: request did not complete within requested timeout - context deadline exceeded",
        );
        error.subject = Some(Box::default());
        Err(error)
    })
}

async fn receive(body: Body, seat: &Seat) -> Result<Bytes, ApiError> {
    let mut body = Limited::new(body, MAX_BODY);
    let mut received = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| {
            if error.is::<LengthLimitError>() {
                ApiError::too_large(&format!("limit is {MAX_BODY}"))
            } else {
                ApiError::bad_request(format!("failed to read the request body: {error}"))
            }
        })?;
        if let Ok(data) = frame.into_data() {
            seat.buffer(data.len())?;
            received.extend_from_slice(&data);
        }
    }
    Ok(received.freeze())
}

/// An object, and the fields that were written twice.
#[derive(Debug)]
pub(crate) struct Decoded {
    pub(crate) value: Value,
    pub(crate) duplicates: Vec<Twice>,
}

/// Decodes an object sent with POST, PUT or DELETE.
pub(crate) fn object(content_type: &str, bytes: &Bytes) -> Result<Decoded, ApiError> {
    check_type(content_type)?;
    match media(content_type) {
        "application/yaml" => parsed_yaml(bytes).map_err(ApiError::bad_request),
        "application/vnd.kubernetes.protobuf" => Ok(Decoded {
            value: protobuf::decode(bytes)?,
            duplicates: Vec::new(),
        }),
        _ => json(bytes),
    }
}

/// JSON, noting duplicate fields.
pub(crate) fn json(bytes: &[u8]) -> Result<Decoded, ApiError> {
    parsed(bytes).map_err(|why| {
        ApiError::bad_request(format!(
            "couldn't get version/kind; json parse error: {why}"
        ))
    })
}

/// The same; what is wrong with it is told as Go tells it, and nothing else.
pub(crate) fn parsed(bytes: &[u8]) -> Result<Decoded, String> {
    let text = String::from_utf8_lossy(bytes);
    decoded(&text)
        .or_else(|error| match surrogates::replaced(&text) {
            Some(whole) => decoded(&whole),
            None => Err(error),
        })
        .map_err(|e| malformed::problem(bytes).unwrap_or_else(|| e.to_string()))
}

fn decoded(text: &str) -> Result<Decoded, serde_json::Error> {
    let mut duplicates = Vec::new();
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let value = Noting::<String>::new(None, &mut duplicates)
        .deserialize(&mut deserializer)
        .and_then(|v| deserializer.end().map(|()| v))?;
    Ok(Decoded { value, duplicates })
}

/// Refuses a body of a type that is not known, before anything of it is read.
pub(crate) fn check_type(content_type: &str) -> Result<(), ApiError> {
    match media(content_type) {
        "" if content_type.is_empty() => Ok(()),
        "application/json" | "application/yaml" | "application/vnd.kubernetes.protobuf" => Ok(()),
        _ => Err(ApiError::new(
            Reason::UnsupportedMediaType,
            "the body of the request was in an unknown format - accepted media types include: application/json, \
             application/yaml, application/vnd.kubernetes.protobuf",
        )),
    }
}

/// The media type without its parameters.
pub(crate) fn media(content_type: &str) -> &str {
    content_type.split(';').next().unwrap_or_default().trim()
}

/// An object of a kind, sent to be stored.
pub(crate) fn typed(content_type: &str, bytes: &Bytes, kind: &str) -> Result<Decoded, ApiError> {
    object(content_type, bytes).map_err(|mut error| {
        if error.reason == Reason::BadRequest {
            error.message = unrecognized(kind, &error.message, bytes);
        }
        error
    })
}

/// What is said of a body that does not become an object of a kind, with its beginning.
pub(crate) fn unrecognized(kind: &str, why: &str, bytes: &[u8]) -> String {
    const SHOWN: usize = 30;
    let shown = match (bytes.first(), std::str::from_utf8(bytes)) {
        (None, _) => "<empty>".to_owned(),
        (Some(b'{'), Ok(text)) => match text.char_indices().nth(SHOWN) {
            Some((end, _)) => format!("{} ...", &text[..end]),
            None => text.to_owned(),
        },
        _ if bytes.len() > SHOWN => format!("{} ...", hexadecimal(&bytes[..SHOWN])),
        _ => hexadecimal(bytes),
    };
    format!("the object provided is unrecognized (must be of type {kind}): {why} ({shown})")
}

/// A body that is no text, or none that could be an object.
fn hexadecimal(bytes: &[u8]) -> String {
    let mut out = String::new();
    for byte in bytes {
        for digit in [byte >> 4, byte & 15] {
            out.extend(char::from_digit(u32::from(digit), 16));
        }
    }
    out
}

/// YAML, as server-side apply sends it.
pub(crate) fn yaml(bytes: &[u8]) -> Result<Decoded, ApiError> {
    parsed_yaml(bytes).map_err(|why| {
        ApiError::bad_request(format!(
            "error decoding YAML: error converting YAML to JSON: {why}"
        ))
    })
}

/// What YAML says, or why it says nothing. JSON is YAML, and the faster decoder is tried first.
fn parsed_yaml(bytes: &[u8]) -> Result<Decoded, String> {
    if bytes.first() == Some(&b'{')
        && let Ok(decoded) = parsed(bytes)
        // Where they are is told in lines.
        && decoded.duplicates.is_empty()
    {
        return Ok(decoded);
    }
    let text = String::from_utf8_lossy(bytes);
    let mut duplicates = Vec::new();
    let options = serde_saphyr::options! { duplicate_keys: DuplicateKeyPolicy::LastWins };
    let value = with_deserializer_from_str_with_options(&text, options, |deserializer| {
        Noting::<Spanned<String>>::new(None, &mut duplicates).deserialize(deserializer)
    })
    .map_err(|e| yaml_problem(&e.to_string()))?;
    Ok(Decoded { value, duplicates })
}

/// One line of what the decoder says: no excerpt, and none of its advice to who calls it.
fn yaml_problem(told: &str) -> String {
    let line = told.lines().next().unwrap_or_default();
    let line = line.strip_prefix("error: ").unwrap_or(line);
    let advice = [", set ", "; use "].iter().find_map(|by| line.find(by));
    let problem = &line[..advice.unwrap_or(line.len())];
    format!("yaml: {problem}")
}

/// The largest whole number below which every whole number is an f64: 2^53.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// The name of a field, and its line where there are lines.
trait Name: DeserializeOwned {
    fn parts(self) -> (String, Option<u64>);
}

impl Name for String {
    fn parts(self) -> (String, Option<u64>) {
        (self, None)
    }
}

impl Name for Spanned<String> {
    fn parts(self) -> (String, Option<u64>) {
        (self.value, Some(self.referenced.line()))
    }
}

/// A step on the way to a value. The way is written out only where something is wrong: names may be long, and many
/// fields below them.
struct Step<'a> {
    above: Option<&'a Self>,
    to: To<'a>,
}

enum To<'a> {
    Field(&'a str),
    Item(usize),
}

impl fmt::Display for Step<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(above) = self.above {
            above.fmt(f)?;
        }
        match (&self.to, self.above) {
            (To::Item(at), _) => write!(f, "[{at}]"),
            (To::Field(name), None) => f.write_str(name),
            (To::Field(name), Some(_)) => write!(f, ".{name}"),
        }
    }
}

/// Builds a [`Value`] and notes fields that occur twice; the last one wins.
struct Noting<'a, N> {
    path: Option<&'a Step<'a>>,
    duplicates: &'a mut Vec<Twice>,
    names: PhantomData<N>,
}

impl<'a, N> Noting<'a, N> {
    fn new(path: Option<&'a Step<'a>>, duplicates: &'a mut Vec<Twice>) -> Self {
        Self {
            path,
            duplicates,
            names: PhantomData,
        }
    }
}

impl<'de, N: Name> DeserializeSeed<'de> for Noting<'_, N> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, N: Name> Visitor<'de> for Noting<'_, N> {
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

    /// A whole number is stored as one: `1.0` is `1` to Kubernetes clients, and must equal it here.
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
                above: self.path,
                to: To::Item(items.len()),
            };
            match seq.next_element_seed(Noting::<N>::new(Some(&step), self.duplicates))? {
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
                above: self.path,
                to: To::Field(&key),
            };
            let value = access.next_value_seed(Noting::<N>::new(Some(&step), self.duplicates))?;
            if map.contains_key(&key) {
                strange::note(self.duplicates, &step, line.map(|line| (key.clone(), line)));
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
    fn duplicates_are_noted_with_their_path() {
        let decoded = json(br#"{"a": {"b": 1, "b": 2}, "c": [{"d": 1, "d": 1}]}"#).unwrap();
        let paths: Vec<&str> = decoded.duplicates.iter().map(|d| d.path.as_str()).collect();
        assert_eq!(paths, ["a.b", "c[0].d"]);
        assert_eq!(decoded.value["a"]["b"], 2);
    }

    #[test]
    fn in_yaml_the_last_of_two_counts_and_its_line_is_told() {
        let decoded = yaml(b"a:\n  b: 1\n  b: 2\nc: 1\n").unwrap();
        assert_eq!(decoded.value, serde_json::json!({"a": {"b": 2}, "c": 1}));
        let said: Vec<String> = decoded.duplicates.iter().map(ToString::to_string).collect();
        assert_eq!(said, ["line 3: key \"b\" already set in map"]);
    }

    #[test]
    fn whole_numbers_are_the_same_however_they_are_written() {
        for bytes in [&b"{\"a\": 1.0, \"b\": 0.5}"[..], b"a: 1.0\nb: 0.5\n"] {
            let value = yaml(bytes).unwrap().value;
            assert_eq!(value, serde_json::json!({ "a": 1, "b": 0.5 }));
        }
    }
}
