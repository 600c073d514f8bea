//! Compiled expressions.

use kube_cel::cel::{Context, ExecutionError, IdedExpr, Value};

use super::bounds::Depth;
use super::budget::{self, Budget};
use super::compile::compile;
use super::functions;
use super::parse::{parse, with_stack};
use super::shape::Variable;
use super::uses::Uses;

thread_local! {
    static FUNCTIONS: Context<'static> = functions::functions();
}

/// An expression that can be evaluated.
#[derive(Debug)]
pub(crate) struct Expression {
    root: IdedExpr,
    depth: Depth,
}

/// The type that an expression must evaluate to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ResultType {
    Bool,
    String,
}

/// The reason why an evaluation has no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The evaluation exceeded the budget.
    Budget,
    Error(String),
}

impl Expression {
    /// Parses and checks an expression.
    ///
    /// Refuses unknown functions and variables, fields that the schemas of the variables do not declare, constants that
    /// cannot be converted, and results that always have another type.
    pub(crate) fn compile(
        source: &str,
        variables: &[Variable<'_>],
        result_type: ResultType,
    ) -> Result<Self, String> {
        let (root, depth) = parse(source)?;
        let compiled = with_stack(depth, move || {
            budget::begin(Budget::new().limits());
            FUNCTIONS.with(|known| compile(root, known, variables, result_type))
        });
        let root = compiled??;
        Ok(Self { root, depth })
    }

    /// Evaluates the expression and deducts its cost from the budget.
    pub(crate) fn run(
        &self,
        variables: Vec<(&'static str, Value)>,
        budget: &mut Budget,
    ) -> Result<Value, Failure> {
        let limits = budget.limits();
        let evaluated = with_stack(self.depth, || {
            budget::begin(limits);
            let result = FUNCTIONS.with(|functions| {
                let mut scope = functions.new_inner_scope();
                for (name, value) in variables {
                    scope.add_variable_from_value(name, value);
                }
                Value::resolve(&self.root, &scope)
            });
            let result = if budget::exhausted() {
                Err(Failure::Budget)
            } else {
                result.map_err(|e| Failure::Error(message(&e)))
            };
            (result, budget::spent())
        });
        let (result, spent) = evaluated.map_err(Failure::Error)?;
        budget.deduct(spent);
        result
    }

    /// Reports whether the expression mentions a variable.
    pub(crate) fn mentions(&self, variable: &str) -> bool {
        self.uses().variable(variable)
    }

    /// Returns the variables, fields and indexes that the expression uses.
    pub(crate) fn uses(&self) -> Uses<'_> {
        Uses(&self.root)
    }
}

/// Returns the message of a failed evaluation.
pub(super) fn message(error: &ExecutionError) -> String {
    match error {
        ExecutionError::NoSuchKey(key) => format!("no such key: {key}"),
        ExecutionError::IndexOutOfBounds(Value::Int(at)) => format!("index out of bounds: {at}"),
        ExecutionError::DivisionByZero(_) => "division by zero".to_owned(),
        ExecutionError::RemainderByZero(_) => "modulus by zero".to_owned(),
        ExecutionError::Overflow(..) => "integer overflow".to_owned(),
        ExecutionError::UndeclaredReference(name) => format!("undeclared reference to '{name}'"),
        ExecutionError::FunctionError { message, .. } => message.clone(),
        _ => "no such overload".to_owned(),
    }
}

#[cfg(test)]
mod tests;
