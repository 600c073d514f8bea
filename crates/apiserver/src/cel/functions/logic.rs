//! `all` and `exists`. An item that decides outweighs an error of another item. Of several errors, the first one is
//! returned.

use std::sync::Arc;

use kube_cel::cel::context::Context;
use kube_cel::cel::objects::Opaque;
use kube_cel::cel::{ExecutionError, FunctionContext, IdedExpr, Value};

use crate::cel::budget::exhausted;

/// A step of `all`. It defers an error to the end of the loop.
pub(in crate::cel) const ALL: &str = "@all";
/// A step of `exists`. It defers an error to the end of the loop.
pub(in crate::cel) const EXISTS: &str = "@exists";
/// The result of a loop, or its deferred error.
pub(in crate::cel) const FOUND: &str = "@found";

/// An error that a later item may outweigh.
#[derive(Debug, PartialEq)]
struct DeferredError(ExecutionError);

impl Eq for DeferredError {}

impl Opaque for DeferredError {
    fn runtime_type_name(&self) -> &'static str {
        "error"
    }
}

pub(super) fn add(context: &mut Context<'_>) {
    context.add_function(ALL, |call: &FunctionContext| {
        defer_error(decide(call, false))
    });
    context.add_function(EXISTS, |call: &FunctionContext| {
        defer_error(decide(call, true))
    });
    context.add_function(FOUND, |found: Value| -> Result<Value, ExecutionError> {
        as_bool(&found).map(Value::Bool)
    });
}

/// Combines two operands. One operand with the `decisive` value decides the result.
fn decide(call: &FunctionContext<'_, '_>, decisive: bool) -> Result<Value, ExecutionError> {
    let [left, right] = call.args else {
        return Err(ExecutionError::NoSuchOverload);
    };
    let value = |of: &IdedExpr| as_bool(&Value::resolve(of, call.ptx)?);
    let left = value(left);
    if left == Ok(decisive) {
        return Ok(Value::Bool(decisive));
    }
    match value(right) {
        Ok(right) if right == decisive => Ok(Value::Bool(decisive)),
        right => left.and(right).map(Value::Bool),
    }
}

fn as_bool(value: &Value) -> Result<bool, ExecutionError> {
    match value {
        Value::Bool(value) => Ok(*value),
        Value::Opaque(of) => match of.downcast_ref::<DeferredError>() {
            Some(DeferredError(error)) => Err(error.clone()),
            None => Err(ExecutionError::NoSuchOverload),
        },
        _ => Err(ExecutionError::NoSuchOverload),
    }
}

/// Turns an error into a value, unless the budget is exhausted.
fn defer_error(found: Result<Value, ExecutionError>) -> Result<Value, ExecutionError> {
    match found {
        Err(error) if !exhausted() => Ok(Value::Opaque(Arc::new(DeferredError(error)))),
        found => found,
    }
}
