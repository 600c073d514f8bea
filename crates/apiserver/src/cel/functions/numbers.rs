//! `==`, `in` and indexing. Numbers of different types are equal if they have the same value.

use kube_cel::cel::objects::{Key, Map};
use kube_cel::cel::{Context, ExecutionError, Value};

use super::type_name;
use crate::cel::budget;

/// `==`.
pub(in crate::cel) const EQUAL: &str = "@equal";
/// `in`.
pub(in crate::cel) const WITHIN: &str = "@within";
/// The element of a list or map.
pub(in crate::cel) const AT: &str = "@at";

type CallResult = Result<Value, ExecutionError>;

pub(super) fn add(context: &mut Context<'_>) {
    context.add_function(EQUAL, |a: Value, b: Value| -> CallResult {
        budget::spend(budget::units(&a).min(budget::units(&b)))?;
        Ok(Value::Bool(equal(&a, &b)))
    });
    context.add_function(WITHIN, |sought: Value, of: Value| -> CallResult {
        budget::spend_reading(&of)?;
        let found = match &of {
            Value::List(list) => list.iter().any(|element| equal(element, &sought)),
            Value::Map(map) => in_map(map, &sought).is_some(),
            _ => return Err(ExecutionError::NoSuchOverload),
        };
        Ok(Value::Bool(found))
    });
    context.add_function(AT, |of: Value, at: Value| {
        budget::spend_reading(&of)?;
        at_key(&of, &at)
    });
}

fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::List(a), Value::List(b)) => {
            a.len() == b.len() && a.iter().zip(b.iter()).all(|(a, b)| equal(a, b))
        }
        (Value::Map(a), Value::Map(b)) => {
            let same = |(key, value): (&Key, &Value)| {
                in_map(b, &super::of_key(key)).is_some_and(|other| equal(value, other))
            };
            a.map.len() == b.map.len() && a.map.iter().all(same)
        }
        _ => a == b,
    }
}

/// Returns the integer that a value equals.
fn as_integer(value: &Value) -> Option<i128> {
    match value {
        Value::Int(number) => Some(i128::from(*number)),
        Value::UInt(number) => Some(i128::from(*number)),
        #[expect(
            clippy::cast_possible_truncation,
            reason = "it is a whole number that fits"
        )]
        Value::Float(number) if number.fract() == 0.0 && number.abs() < 2e19 => {
            Some(*number as i128)
        }
        _ => None,
    }
}

fn in_map<'m>(map: &'m Map, key: &Value) -> Option<&'m Value> {
    let Some(number) = as_integer(key) else {
        let key = super::as_key(key).ok()?;
        return map.map.get(&key);
    };
    let signed = i64::try_from(number).ok().map(Key::Int);
    let unsigned = u64::try_from(number).ok().map(Key::Uint);
    [signed, unsigned]
        .iter()
        .flatten()
        .find_map(|key| map.map.get(key))
}

fn at_key(of: &Value, at: &Value) -> CallResult {
    let failed = |message: String| ExecutionError::function_error(AT, message);
    match of {
        Value::Map(map) => in_map(map, at)
            .cloned()
            .ok_or_else(|| failed(format!("no such key: {}", shown(at)))),
        Value::List(list) => match as_integer(at) {
            Some(index) => usize::try_from(index)
                .ok()
                .and_then(|index| list.get(index).cloned())
                .ok_or_else(|| failed(format!("index out of bounds: {index}"))),
            None => Err(failed(match at {
                Value::Float(number) => format!("unsupported index value {number} in list"),
                _ => format!("unsupported index type '{}' in list", type_name(at)),
            })),
        },
        _ => Err(ExecutionError::NoSuchOverload),
    }
}

fn shown(key: &Value) -> String {
    match key {
        Value::String(text) => text.to_string(),
        Value::Int(number) => number.to_string(),
        Value::UInt(number) => number.to_string(),
        Value::Float(number) => number.to_string(),
        Value::Bool(truth) => truth.to_string(),
        other => type_name(other).to_owned(),
    }
}
