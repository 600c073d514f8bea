//! Functions of CEL: those that the CEL crates lack or implement differently from Kubernetes, and internal ones that
//! compiled operators and macros call. Internal names start with `@`, which user expressions cannot contain.

mod conversions;
mod growth;
mod logic;
mod numbers;
mod times;

use std::cell::RefCell;
use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use kube_cel::KubeCelExt;
use kube_cel::cel::extractors::{Arguments, This};
use kube_cel::cel::objects::{Key, Map, OptionalValue};
use kube_cel::cel::{Context, ExecutionError, Value};

use super::budget;
use super::macros::SORT;
use crate::pattern;
pub(super) use logic::{ALL, BOTH, EITHER, EXISTS, FOUND};
pub(super) use numbers::{AT, EQUAL, WITHIN};

/// Spends a loop step.
pub(super) const STEP: &str = "@step";
/// Returns a value and spends the units of reading it.
pub(super) const CHARGE: &str = "@charge";
/// Adds two values.
pub(super) const PLUS: &str = "@plus";
/// Returns the keys and values of a map or list.
pub(super) const ENTRIES: &str = "@entries";
/// Joins two sets or keyed lists.
pub(super) const JOIN: &str = "@join";
/// Reports whether two sets or keyed lists have the same items.
pub(super) const ALIKE: &str = "@alike";

thread_local! {
    static REGEXES: RefCell<BTreeMap<Arc<String>, regex::Regex>> = RefCell::default();
}

/// The names of types.
pub(super) const TYPES: [&str; 14] = [
    "bool",
    "bytes",
    "double",
    "google.protobuf.Duration",
    "google.protobuf.Timestamp",
    "int",
    "list",
    "map",
    "net.CIDR",
    "net.IP",
    "null_type",
    "optional_type",
    "string",
    "uint",
];

/// Returns the context with all functions and types.
pub(super) fn functions() -> Context<'static> {
    let mut context = Context::default().with_all();
    context.add_function(STEP, || -> Result<Value, ExecutionError> {
        budget::spend(budget::STEP)?;
        Ok(Value::Bool(true))
    });
    context.add_function(CHARGE, |value: Value| -> Result<Value, ExecutionError> {
        budget::spend_reading(&value)?;
        Ok(value)
    });
    context.add_function(PLUS, plus);
    growth::add(&mut context);
    conversions::add(&mut context);
    logic::add(&mut context);
    numbers::add(&mut context);
    times::add(&mut context);
    context.add_function("matches", matches);
    context.add_function("type", |value: Value| -> Result<Value, ExecutionError> {
        Ok(Value::String(Arc::new(type_name(&value).to_owned())))
    });
    for name in TYPES {
        context.add_variable_from_value(name, Value::String(Arc::new(name.to_owned())));
    }
    context.add_function(ENTRIES, entries);
    context.add_function("cel.@mapInsert", insert);
    context.add_function(SORT, sort_by);
    context.add_function(JOIN, join);
    context.add_function(ALIKE, |a: Value, b: Value, keys: Value| {
        spend_product(&a, &b)?;
        Ok::<_, ExecutionError>(Value::Bool(have_same_items(&a, &b, &keys)))
    });
    context.add_function("optional.unwrap", |list: Value| unwrapped(&list));
    context.add_function("unwrapOpt", |This(list): This<Value>| unwrapped(&list));
    context
}

fn type_name(value: &Value) -> &str {
    match value {
        Value::List(_) => "list",
        Value::Map(_) => "map",
        Value::Int(_) => "int",
        Value::UInt(_) => "uint",
        Value::Float(_) => "double",
        Value::String(_) => "string",
        Value::Bytes(_) => "bytes",
        Value::Bool(_) => "bool",
        Value::Null => "null_type",
        Value::Duration(_) => "google.protobuf.Duration",
        Value::Timestamp(_) => "google.protobuf.Timestamp",
        Value::Opaque(of) => of.runtime_type_name(),
        Value::Function(..) => "type",
    }
}

/// Adds two values; a duration may come first.
fn plus(a: Value, b: Value) -> Result<Value, ExecutionError> {
    budget::spend_reading(&a)?;
    budget::spend_reading(&b)?;
    match (a, b) {
        (a @ Value::Duration(_), b @ Value::Timestamp(_)) => b + a,
        (Value::List(a), Value::List(b)) => Ok(Value::List(Arc::new(
            a.iter().chain(b.iter()).cloned().collect(),
        ))),
        (a, b) => a + b,
    }
}

/// Spends the units of comparing every item of one list with every item of another.
fn spend_product(a: &Value, b: &Value) -> Result<(), ExecutionError> {
    budget::spend(budget::units(a).saturating_mul(budget::units(b)))
}

fn no_overload(_: &Value) -> ExecutionError {
    ExecutionError::NoSuchOverload
}

/// Returns pairs of keys and values, or of indexes and items.
fn entries(of: Value) -> Result<Value, ExecutionError> {
    let pair = |key: Value, value: &Value| Value::List(Arc::new(vec![key, value.clone()]));
    let pairs = match &of {
        Value::List(list) => (0_i64..)
            .zip(list.iter())
            .map(|(i, value)| pair(Value::Int(i), value))
            .collect(),
        Value::Map(map) => map
            .map
            .iter()
            .map(|(key, value)| pair(of_key(key), value))
            .collect(),
        other => return Err(no_overload(other)),
    };
    Ok(Value::List(Arc::new(pairs)))
}

fn of_key(key: &Key) -> Value {
    match key {
        Key::Int(i) => Value::Int(*i),
        Key::Uint(u) => Value::UInt(*u),
        Key::Bool(b) => Value::Bool(*b),
        Key::String(text) => Value::String(text.clone()),
    }
}

fn as_key(value: &Value) -> Result<Key, ExecutionError> {
    match value {
        Value::Int(i) => Ok(Key::Int(*i)),
        Value::UInt(u) => Ok(Key::Uint(*u)),
        Value::Bool(b) => Ok(Key::Bool(*b)),
        Value::String(text) => Ok(Key::String(text.clone())),
        other => Err(ExecutionError::UnsupportedKeyType(other.clone())),
    }
}

/// Adds an entry, or the entries of another map, to a map.
fn insert(Arguments(given): Arguments) -> Result<Value, ExecutionError> {
    let (map, added) = match given.as_slice() {
        [Value::Map(map), Value::Map(others)] => (
            map,
            others
                .map
                .iter()
                .map(|(k, v)| (k.clone(), v.clone()))
                .collect(),
        ),
        [Value::Map(map), key, value] => (map, vec![(as_key(key)?, value.clone())]),
        _ => return Err(ExecutionError::NoSuchOverload),
    };
    // The map is copied.
    budget::spend(u64::try_from(map.map.len()).unwrap_or(u64::MAX))?;
    let mut all: HashMap<Key, Value> = map.map.as_ref().clone();
    for (key, value) in added {
        let shown = format!("insert failed: key {key} already exists");
        if all.insert(key, value).is_some() {
            return Err(ExecutionError::function_error("insert", shown));
        }
    }
    Ok(Value::Map(Map { map: Arc::new(all) }))
}

fn sort_by(This(list): This<Value>, keys: Value) -> Result<Value, ExecutionError> {
    let (Value::List(list), Value::List(keys)) = (&list, &keys) else {
        return Err(no_overload(&list));
    };
    if let Some(first) = keys.first() {
        let same = |key: &Value| {
            std::mem::discriminant(key) == std::mem::discriminant(first)
                && key.partial_cmp(first).is_some()
        };
        if !keys.iter().all(same) {
            let message = "list elements must have the same type";
            return Err(ExecutionError::function_error("sortBy", message));
        }
    }
    let mut keyed: Vec<(&Value, &Value)> = keys.iter().zip(list.iter()).collect();
    keyed.sort_by(|(a, _), (b, _)| a.partial_cmp(b).unwrap_or(Ordering::Equal));
    let sorted = keyed.into_iter().map(|(_, value)| value.clone()).collect();
    Ok(Value::List(Arc::new(sorted)))
}

/// Returns the identity of a list item: the values of its keys, or the whole item.
fn identity<'v>(element: &'v Value, keys: &Value) -> Vec<Option<&'v Value>> {
    match (element, keys) {
        (Value::Map(map), Value::List(keys)) if !keys.is_empty() => keys
            .iter()
            .map(|key| as_key(key).ok().and_then(|key| map.map.get(&key)))
            .collect(),
        _ => vec![Some(element)],
    }
}

/// Returns the items of both lists; an item in both has the value of the second list.
fn join(a: Value, b: Value, keys: Value) -> Result<Value, ExecutionError> {
    let (Value::List(first), Value::List(second)) = (&a, &b) else {
        return Err(no_overload(&a));
    };
    spend_product(&a, &b)?;
    let mut joined = first.as_ref().clone();
    for element in second.iter() {
        let same = |other: &&mut Value| identity(other, &keys) == identity(element, &keys);
        match joined.iter_mut().find(same) {
            Some(found) => *found = element.clone(),
            None => joined.push(element.clone()),
        }
    }
    Ok(Value::List(Arc::new(joined)))
}

/// Reports whether two lists have the same items, in any order.
fn have_same_items(a: &Value, b: &Value, keys: &Value) -> bool {
    let (Value::List(first), Value::List(second)) = (a, b) else {
        return a == b;
    };
    let there = |element: &Value| {
        let same = |other: &&Value| identity(other, keys) == identity(element, keys);
        first
            .iter()
            .find(same)
            .is_some_and(|found| found == element)
    };
    first.len() == second.len() && second.iter().all(there)
}

/// Returns the values of the optional items, without the empty ones.
fn unwrapped(list: &Value) -> Result<Value, ExecutionError> {
    let Value::List(list) = list else {
        return Err(no_overload(list));
    };
    let mut values = Vec::with_capacity(list.len());
    for element in list.iter() {
        let optional: &OptionalValue = element.try_into()?;
        values.extend(optional.value().cloned());
    }
    Ok(Value::List(Arc::new(values)))
}

/// Patterns that each thread keeps compiled.
const MAX_REGEXES: usize = 256;

fn matches(This(text): This<Arc<String>>, pattern: Arc<String>) -> Result<Value, ExecutionError> {
    REGEXES.with(|known| {
        let mut known = known.borrow_mut();
        if !known.contains_key(&pattern) {
            let compiled = pattern::compile(&pattern)
                .map_err(|e| ExecutionError::function_error("matches", e))?;
            if known.len() >= MAX_REGEXES {
                known.clear();
            }
            known.insert(pattern.clone(), compiled);
        }
        Ok(Value::Bool(
            known.get(&pattern).is_some_and(|r| r.is_match(&text)),
        ))
    })
}
