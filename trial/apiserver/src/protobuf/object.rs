//! Conversion of protobuf messages to JSON objects.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::{Map, Number, Value, json};

use super::messages::{self, Cardinality, Field, Kind};
use super::wire::{Reader, Wire, broken, text};
use crate::error::ApiError;

/// Maximum nesting of messages. JSON has the same limit.
const MAX_DEPTH: usize = 128;

/// Reads the fields of a message. Unknown fields are skipped.
pub(super) fn read(bytes: &[u8], fields: &[Field]) -> Result<Map<String, Value>, ApiError> {
    message(bytes, fields, MAX_DEPTH)
}

fn message(bytes: &[u8], fields: &[Field], depth: usize) -> Result<Map<String, Value>, ApiError> {
    let depth = depth.checked_sub(1).ok_or_else(broken)?;
    let (mut map, mut reader) = (Map::new(), Reader::new(bytes));
    while let Some((number, wire)) = reader.next()? {
        let Some(field) = fields.iter().find(|field| field.number == number) else {
            continue;
        };
        let Some(name) = field.name else {
            if let Value::Object(inner) = value(field.kind, wire, depth)? {
                map.extend(inner);
            }
            continue;
        };
        match field.cardinality {
            Cardinality::One => {
                let value = value(field.kind, wire, depth)?;
                if !(value.is_null() || field.omit_zero && is_zero(&value)) {
                    map.insert(name.to_owned(), value);
                }
            }
            Cardinality::List => {
                let list = map.entry(name.to_owned()).or_insert_with(|| json!([]));
                if let Value::Array(list) = list {
                    append(list, field.kind, wire, depth)?;
                }
            }
            Cardinality::Map => {
                let (key, value) = entry(field.kind, wire, depth)?;
                let inner = map.entry(name.to_owned()).or_insert_with(|| json!({}));
                if let Value::Object(inner) = inner {
                    inner.insert(key, value);
                }
            }
        }
    }
    Ok(map)
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Bool(yes) => !yes,
        Value::Number(number) => number.as_i64() == Some(0),
        Value::String(text) => text.is_empty(),
        _ => false,
    }
}

/// Appends one element to a list, or all numbers of a packed field.
fn append(list: &mut Vec<Value>, kind: Kind, wire: Wire<'_>, depth: usize) -> Result<(), ApiError> {
    match (kind, wire) {
        (Kind::Int, Wire::Bytes(bytes)) => {
            let mut numbers = Reader::new(bytes);
            while !numbers.is_empty() {
                list.push(json!(numbers.varint()?.cast_signed()));
            }
        }
        (kind, wire) => list.push(value(kind, wire, depth)?),
    }
    Ok(())
}

/// Reads the key and the value of a map entry. An absent key or value has the zero value of its type.
fn entry(kind: Kind, wire: Wire<'_>, depth: usize) -> Result<(String, Value), ApiError> {
    let Wire::Bytes(bytes) = wire else {
        return Err(broken());
    };
    let (mut key, mut found, mut reader) = (String::new(), None, Reader::new(bytes));
    while let Some((number, wire)) = reader.next()? {
        match (number, wire) {
            (1, Wire::Bytes(bytes)) => text(bytes)?.clone_into(&mut key),
            (2, wire) => found = Some(wire),
            _ => {}
        }
    }
    let value = match found {
        Some(wire) => value(kind, wire, depth)?,
        None if matches!(kind, Kind::Int | Kind::Bool) => value(kind, Wire::Number(0), depth)?,
        None => value(kind, Wire::Bytes(&[]), depth)?,
    };
    Ok((key, value))
}

fn value(kind: Kind, wire: Wire<'_>, depth: usize) -> Result<Value, ApiError> {
    Ok(match (kind, wire) {
        (Kind::Int, Wire::Number(number)) => json!(number.cast_signed()),
        (Kind::Bool, Wire::Number(number)) => json!(number != 0),
        (Kind::Double, Wire::Bytes(bytes)) => {
            let bytes = <[u8; 8]>::try_from(bytes).map_err(|_| broken())?;
            Number::from_f64(f64::from_le_bytes(bytes)).map_or(Value::Null, Value::Number)
        }
        (Kind::Text, Wire::Bytes(bytes)) => json!(text(bytes)?),
        (Kind::Bytes, Wire::Bytes(bytes)) => json!(STANDARD.encode(bytes)),
        (Kind::Time, Wire::Bytes(bytes)) => time(bytes, 0)?,
        (Kind::MicroTime, Wire::Bytes(bytes)) => time(bytes, 6)?,
        (Kind::Quantity, Wire::Bytes(bytes)) => match first(bytes)? {
            [] => json!("0"),
            quantity => json!(text(quantity)?),
        },
        (Kind::IntOrString, Wire::Bytes(bytes)) => int_or_string(bytes)?,
        (Kind::Raw, Wire::Bytes(bytes)) => match first(bytes)? {
            [] => Value::Null,
            raw => serde_json::from_slice(raw).map_err(|_| broken())?,
        },
        (Kind::Message(name), Wire::Bytes(bytes)) => {
            let fields = messages::named(name).ok_or_else(broken)?;
            Value::Object(message(bytes, fields, depth)?)
        }
        (Kind::Either(name), Wire::Bytes(bytes)) => {
            let fields = messages::named(name).ok_or_else(broken)?;
            either(message(bytes, fields, depth)?)
        }
        _ => return Err(broken()),
    })
}

/// Returns the value of the alternative that is set: the field `schema`, or else the only other field.
fn either(mut fields: Map<String, Value>) -> Value {
    let schema = fields.remove("schema");
    schema
        .or_else(|| fields.into_iter().next().map(|(_, value)| value))
        .unwrap_or_default()
}

/// Returns the content of field 1 of a message. The result is empty if another field is first, or if field 1 does not
/// contain bytes.
fn first(bytes: &[u8]) -> Result<&[u8], ApiError> {
    match Reader::new(bytes).next()? {
        Some((1, Wire::Bytes(bytes))) => Ok(bytes),
        _ => Ok(&[]),
    }
}

/// Reads a time from a message with seconds and nanoseconds since 1970. The result has `digits` fractional digits, and
/// is null for an empty message.
fn time(bytes: &[u8], digits: usize) -> Result<Value, ApiError> {
    if bytes.is_empty() {
        return Ok(Value::Null);
    }
    let (mut seconds, mut nanoseconds, mut reader) = (0, 0, Reader::new(bytes));
    while let Some(field) = reader.next()? {
        match field {
            (1, Wire::Number(number)) => seconds = number.cast_signed(),
            (2, Wire::Number(number)) => {
                nanoseconds = i32::try_from(number).map_err(|_| broken())?;
            }
            _ => {}
        }
    }
    let time = Timestamp::new(seconds, nanoseconds).map_err(|_| broken())?;
    Ok(json!(format!("{time:.digits$}")))
}

fn int_or_string(bytes: &[u8]) -> Result<Value, ApiError> {
    let (mut is_text, mut number, mut string, mut reader) = (false, 0, "", Reader::new(bytes));
    while let Some(field) = reader.next()? {
        match field {
            (1, Wire::Number(n)) => is_text = n == 1,
            (2, Wire::Number(n)) => number = n.cast_signed(),
            (3, Wire::Bytes(b)) => string = text(b)?,
            _ => {}
        }
    }
    Ok(if is_text {
        json!(string)
    } else {
        json!(number)
    })
}
