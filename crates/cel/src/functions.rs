//! Functions of CEL that the CEL crates lack or implement differently from Kubernetes. Further functions are internal:
//! compiled operators and loops call them. Internal names start with `@`, which is not valid in a user's expression.

mod conversions;
mod logic;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use berth_apimachinery::go_regex;
use kube_cel::KubeCelExt;
use kube_cel::cel::common::ast::{Expr, LiteralValue};
use kube_cel::cel::common::types::CelString;
use kube_cel::cel::common::value::Val;
use kube_cel::cel::extractors::This;
use kube_cel::cel::objects::OptionalValue;
use kube_cel::cel::{Context, ExecutionError, FunctionContext, Value};

use super::error::message;
use super::{limits, metering, tree};
pub use conversions::timestamp;
pub use kube_cel::cel::functions::duration;
pub(crate) use logic::{ALL, EXISTS, FOUND};

/// The internal function that counts a loop step.
pub(crate) const STEP: &str = "@step";
/// The internal function for the operator `==`.
pub(crate) const EQUAL: &str = "@equal";

thread_local! {
    static REGEXES: RefCell<BTreeMap<Arc<String>, regex::Regex>> = RefCell::default();
}

/// The names of types, which are variables of every expression.
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

/// The functions and type names, shared by all expressions.
pub(crate) static FUNCTIONS: LazyLock<Context<'static>> = LazyLock::new(|| {
    let mut context = Context::default().with_all();
    context.add_function(STEP, || -> Result<Value, ExecutionError> {
        limits::step()?;
        Ok(Value::Bool(true))
    });
    context.add_function(EQUAL, |call: &FunctionContext| equal(call));
    conversions::add(&mut context);
    logic::add(&mut context);
    context.add_function("matches", matches);
    metering::add_functions(&mut context);
    context.add_function("type", |value: Value| -> Result<Value, ExecutionError> {
        Ok(Value::String(Arc::new(type_name(&value).to_owned())))
    });
    for name in TYPES {
        context.add_variable_from_value(name, Value::String(Arc::new(name.to_owned())));
    }
    context.add_function("optional.unwrap", |list: Value| unwrapped(&list));
    context.add_function("unwrapOpt", |This(list): This<Value>| unwrapped(&list));
    context
});

/// Reports whether a function exists. `Context` has no lookup, so the function is called without arguments. Only an
/// unknown function fails with an undeclared reference.
pub fn is_function(name: &str) -> bool {
    let undeclared = ExecutionError::UndeclaredReference(Arc::new(name.to_owned()));
    Value::resolve(&tree::call(name, Vec::new()), &FUNCTIONS) != Err(undeclared)
}

/// Reports whether a name, which may contain dots, is that of a type.
pub fn is_type(name: &str) -> bool {
    TYPES.contains(&name)
}

/// Returns the CEL value of a quantity, such as `10Gi`.
///
/// # Errors
/// If the text is no quantity.
pub fn quantity(text: &str) -> Result<Box<dyn Val>, String> {
    converted("quantity", text)
}

/// Returns the CEL value of a semantic version, such as `1.2.3`.
///
/// # Errors
/// If the text is no semantic version.
pub fn semver(text: &str) -> Result<Box<dyn Val>, String> {
    converted("semver", text)
}

fn converted(function: &str, text: &str) -> Result<Box<dyn Val>, String> {
    let text = tree::node(Expr::Literal(LiteralValue::String(text.into())));
    let call = tree::call(function, vec![text]);
    let value = Value::resolve(&call, &FUNCTIONS).and_then(Box::<dyn Val>::try_from);
    value.map_err(|error| message(&error))
}

/// Returns the result of the operator `==`.
fn equal(call: &FunctionContext<'_, '_>) -> Result<Value, ExecutionError> {
    let [left, right] = call.args else {
        return Err(ExecutionError::NoSuchOverload);
    };
    let [left, right] = [left, right].map(|operand| Value::resolve_val(operand, call.ptx));
    let (left, right) = (left?, right?);
    let (left, right) = (left.as_ref(), right.as_ref());
    // Texts are compared without a copy.
    if left.downcast_ref::<CelString>().is_some() {
        return Ok(Value::Bool(left.equals(right)));
    }
    Ok(Value::Bool(
        Value::try_from(left)? == Value::try_from(right)?,
    ))
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

/// Returns the values of the CEL optionals in a list. Empty optionals are left out.
fn unwrapped(list: &Value) -> Result<Value, ExecutionError> {
    let Value::List(list) = list else {
        return Err(ExecutionError::NoSuchOverload);
    };
    let mut values = Vec::with_capacity(list.len());
    for element in list.iter() {
        let optional: &OptionalValue = element.try_into()?;
        values.extend(optional.value().cloned());
    }
    Ok(Value::List(Arc::new(values)))
}

/// Maximum number of compiled patterns that each thread caches.
const MAX_REGEXES: usize = 256;

fn matches(This(text): This<Arc<String>>, pattern: Arc<String>) -> Result<Value, ExecutionError> {
    REGEXES.with(|known| {
        let mut known = known.borrow_mut();
        if !known.contains_key(&pattern) {
            let compiled = go_regex::compile_within(&pattern, limits::pattern_size())
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
