//! What rules can call beyond the libraries of the crates: conversions, patterns, and what macros are made of.

mod conversions;
mod decisions;
mod numbers;
mod times;

use std::cell::{Cell, RefCell};
use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use kube_cel::KubeCelExt;
use kube_cel::cel::extractors::{Arguments, This};
use kube_cel::cel::objects::{Key, Map, OptionalValue};
use kube_cel::cel::{Context, ExecutionError, Value};

use super::macros::SORT;
use crate::schema::pattern;
pub(super) use decisions::{ALL, BOTH, EITHER, EXISTS, FOUND};
pub(super) use numbers::{AT, EQUAL, WITHIN};

/// Steps of loops that one evaluation may take.
const MAX_STEPS: u32 = 250_000;
/// Counts a step; no expression of a user can have this name.
pub(super) const STEP: &str = "@step";
/// The keys and values of a map or list.
pub(super) const ENTRIES: &str = "@entries";
/// Joins two sets or keyed lists.
pub(super) const JOIN: &str = "@join";
/// Whether two sets or keyed lists have the same in them.
pub(super) const ALIKE: &str = "@alike";

thread_local! {
    static STEPS: Cell<u32> = const { Cell::new(0) };
    static REGEXES: RefCell<BTreeMap<Arc<String>, regex::Regex>> = RefCell::default();
}

/// Begins to count the steps of an evaluation.
pub(super) fn begin() {
    STEPS.with(|steps| steps.set(0));
}

/// Whether the evaluation took too many steps.
pub(super) fn exhausted() -> bool {
    STEPS.with(Cell::get) > MAX_STEPS
}

fn step(count: usize) -> Result<(), ExecutionError> {
    let taken = STEPS.with(|steps| {
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        steps.set(steps.get().saturating_add(count));
        steps.get()
    });
    if taken > MAX_STEPS {
        return Err(ExecutionError::function_error(STEP, "too many steps"));
    }
    Ok(())
}

/// The names of types that rules compare with.
const TYPES: [&str; 14] = [
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

/// The functions rules may use.
pub(super) fn functions() -> Context<'static> {
    let mut context = Context::default().with_all();
    context.add_function(STEP, || -> Result<Value, ExecutionError> {
        step(1)?;
        Ok(Value::Bool(true))
    });
    conversions::add(&mut context);
    decisions::add(&mut context);
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
        Ok::<_, ExecutionError>(Value::Bool(alike(&a, &b, &keys)))
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

fn no_overload(_: &Value) -> ExecutionError {
    ExecutionError::NoSuchOverload
}

/// Pairs of keys and values, or of indexes and elements.
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

/// A map with an entry more, or with those of another map.
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
    // The map is copied, which takes the longer the larger it is.
    step(map.map.len() / 64)?;
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
            let why = "list elements must have the same type";
            return Err(ExecutionError::function_error("sortBy", why));
        }
    }
    let mut keyed: Vec<(&Value, &Value)> = keys.iter().zip(list.iter()).collect();
    keyed.sort_by(|(a, _), (b, _)| a.partial_cmp(b).unwrap_or(Ordering::Equal));
    let sorted = keyed.into_iter().map(|(_, value)| value.clone()).collect();
    Ok(Value::List(Arc::new(sorted)))
}

/// What tells the elements of a list apart: the values of these keys, or all that they are.
fn identity<'v>(element: &'v Value, keys: &Value) -> Vec<Option<&'v Value>> {
    match (element, keys) {
        (Value::Map(map), Value::List(keys)) if !keys.is_empty() => keys
            .iter()
            .map(|key| as_key(key).ok().and_then(|key| map.map.get(&key)))
            .collect(),
        _ => vec![Some(element)],
    }
}

/// The elements of the first list, as they are in the second where they are in both, and then the others.
fn join(a: Value, b: Value, keys: Value) -> Result<Value, ExecutionError> {
    let (Value::List(first), Value::List(second)) = (&a, &b) else {
        return Err(no_overload(&a));
    };
    let mut joined = first.as_ref().clone();
    for element in second.iter() {
        step(joined.len() / 64)?;
        let same = |other: &&mut Value| identity(other, &keys) == identity(element, &keys);
        match joined.iter_mut().find(same) {
            Some(found) => *found = element.clone(),
            None => joined.push(element.clone()),
        }
    }
    Ok(Value::List(Arc::new(joined)))
}

/// Whether the same is in both lists, in whatever order.
fn alike(a: &Value, b: &Value, keys: &Value) -> bool {
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

/// The values that there are among optional ones.
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

/// Patterns that are kept compiled, on each thread.
const MAX_REGEXES: usize = 256;

fn matches(This(text): This<Arc<String>>, pattern: Arc<String>) -> Result<Value, ExecutionError> {
    REGEXES.with(|known| {
        let mut known = known.borrow_mut();
        if !known.contains_key(&pattern) {
            let compiled = pattern::read(&pattern)
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
