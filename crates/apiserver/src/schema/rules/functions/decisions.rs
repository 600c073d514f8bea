//! `&&`, `||`, `all` and `exists`: what decides outweighs an error, wherever it is, and of several errors the first
//! counts.

use std::sync::Arc;

use kube_cel::cel::context::Context;
use kube_cel::cel::objects::Opaque;
use kube_cel::cel::{ExecutionError, FunctionContext, IdedExpr, Value};

use super::exhausted;

/// Both of two.
pub(in crate::schema::rules) const BOTH: &str = "@both";
/// One of two.
pub(in crate::schema::rules) const EITHER: &str = "@either";
/// Both what a loop has found so far and its next element; an error is kept for the end.
pub(in crate::schema::rules) const ALL: &str = "@all";
/// The same for one of them.
pub(in crate::schema::rules) const EXISTS: &str = "@exists";
/// What a loop has found, or the error that it kept.
pub(in crate::schema::rules) const FOUND: &str = "@found";

/// An error that something may yet outweigh.
#[derive(Debug, PartialEq)]
struct Failed(ExecutionError);

impl Eq for Failed {}

impl Opaque for Failed {
    fn runtime_type_name(&self) -> &'static str {
        "error"
    }
}

pub(super) fn add(context: &mut Context<'_>) {
    context.add_function(BOTH, |call: &FunctionContext| decide(call, false));
    context.add_function(EITHER, |call: &FunctionContext| decide(call, true));
    context.add_function(ALL, |call: &FunctionContext| kept(decide(call, false)));
    context.add_function(EXISTS, |call: &FunctionContext| kept(decide(call, true)));
    context.add_function(FOUND, |found: Value| -> Result<Value, ExecutionError> {
        truth(&found).map(Value::Bool)
    });
}

/// The value of two truths, of which one that is `decisive` is enough.
fn decide(call: &FunctionContext<'_, '_>, decisive: bool) -> Result<Value, ExecutionError> {
    let [left, right] = call.args else {
        return Err(ExecutionError::NoSuchOverload);
    };
    let value = |of: &IdedExpr| truth(&Value::resolve(of, call.ptx)?);
    let left = value(left);
    if left == Ok(decisive) {
        return Ok(Value::Bool(decisive));
    }
    match value(right) {
        Ok(right) if right == decisive => Ok(Value::Bool(decisive)),
        right => left.and(right).map(Value::Bool),
    }
}

fn truth(value: &Value) -> Result<bool, ExecutionError> {
    match value {
        Value::Bool(truth) => Ok(*truth),
        Value::Opaque(of) => match of.downcast_ref::<Failed>() {
            Some(Failed(error)) => Err(error.clone()),
            None => Err(ExecutionError::NoSuchOverload),
        },
        _ => Err(ExecutionError::NoSuchOverload),
    }
}

/// An error as a value, unless there is no time for anything else.
fn kept(found: Result<Value, ExecutionError>) -> Result<Value, ExecutionError> {
    match found {
        Err(error) if !exhausted() => Ok(Value::Opaque(Arc::new(Failed(error)))),
        found => found,
    }
}
