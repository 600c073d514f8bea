//! A compiled expression and its evaluation.

use berth_cel::compile::{compile, message};
use berth_cel::depth::Depth;
use berth_cel::functions;
use berth_cel::parse::{parse, with_stack};
use berth_cel::tree::Uses;
use kube_cel::cel::{Context, IdedExpr, Value};

use super::{Budget, ResultType, Variable};

thread_local! {
    static FUNCTIONS: Context<'static> = functions::functions();
}

/// A compiled expression.
#[derive(Debug)]
pub(crate) struct Expression {
    root: IdedExpr,
    depth: Depth,
}

/// The reason for which an evaluation has no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The evaluation exceeded the budget.
    Budget,
    Error(String),
}

impl Expression {
    /// Parses and checks an expression.
    ///
    /// Refuses unknown functions and variables, and constants that cannot be converted. Also refuses an expression
    /// whose outermost operator or literal has another type than `result_type`.
    pub(crate) fn compile(
        source: &str,
        variables: &[Variable],
        result_type: ResultType,
    ) -> Result<Self, String> {
        let (root, depth) = parse(source)?;
        let compiled = with_stack(depth, move || {
            Budget::new().begin();
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
        with_stack(self.depth, || {
            budget.begin();
            let result = FUNCTIONS.with(|functions| {
                let mut scope = functions.new_inner_scope();
                for (name, value) in variables {
                    scope.add_variable_from_value(name, value);
                }
                Value::resolve(&self.root, &scope)
            });
            if budget.end() {
                result.map_err(|e| Failure::Error(message(&e)))
            } else {
                Err(Failure::Budget)
            }
        })
        .map_err(Failure::Error)?
    }

    /// Reports whether the expression uses a variable.
    pub(crate) fn mentions(&self, variable: &str) -> bool {
        self.uses().variable(variable)
    }

    /// Returns the variables and indexes that the expression uses.
    pub(crate) fn uses(&self) -> Uses<'_> {
        Uses(&self.root)
    }
}

#[cfg(test)]
mod tests;
