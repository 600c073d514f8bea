//! The logic of `all` and `exists` for items that fail: an item that decides the result outweighs the errors of other
//! items. If no item decides, the first error is returned.

use std::sync::Arc;

use kube_cel::cel::context::Context;
use kube_cel::cel::objects::Opaque;
use kube_cel::cel::{ExecutionError, FunctionContext, IdedExpr, Value};

use crate::limits::is_exceeded;

/// The internal function for a step of `all`. An error of a step is deferred to the end of the loop.
pub(crate) const ALL: &str = "@all";
/// The internal function for a step of `exists`. An error of a step is deferred to the end of the loop.
pub(crate) const EXISTS: &str = "@exists";
/// The internal function that returns the result of a loop, or its deferred error.
pub(crate) const FOUND: &str = "@found";

/// An error that a later item of the loop may outweigh.
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
        defer_error(combine(call, Decisive::False))
    });
    context.add_function(EXISTS, |call: &FunctionContext| {
        defer_error(combine(call, Decisive::True))
    });
    context.add_function(FOUND, |found: Value| -> Result<Value, ExecutionError> {
        as_bool(&found).map(Value::Bool)
    });
}

/// The value of an operand that decides the result: `false` in a conjunction, `true` in a disjunction.
#[derive(Clone, Copy)]
enum Decisive {
    False,
    True,
}

/// Returns the result of combining two operands. If an operand has the decisive value, so has the result.
fn combine(call: &FunctionContext<'_, '_>, decisive: Decisive) -> Result<Value, ExecutionError> {
    let decisive = matches!(decisive, Decisive::True);
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

/// Converts an error to a deferred error, unless a limit is exceeded.
fn defer_error(found: Result<Value, ExecutionError>) -> Result<Value, ExecutionError> {
    match found {
        Err(error) if !is_exceeded() => Ok(Value::Opaque(Arc::new(DeferredError(error)))),
        found => found,
    }
}
