//! A compiled expression and its evaluation.

use berth_cel::ast::{Expr, LiteralValue, operators};
use berth_cel::{CompileError, Depth, Failure, Program, Scope, Value, Variable, Variables, parse};

use super::budget::{Budget, MAX_PATTERN};

/// The type that an expression must evaluate to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ResultType {
    Bool,
    String,
}

impl ResultType {
    fn name(self) -> &'static str {
        match self {
            Self::Bool => "boolean",
            Self::String => "string",
        }
    }

    /// Reports whether the result of an expression certainly has another type.
    fn excludes(self, expr: &Expr) -> bool {
        match expr {
            Expr::Literal(LiteralValue::Boolean(_)) => self != Self::Bool,
            Expr::Literal(LiteralValue::String(_)) => self != Self::String,
            Expr::Literal(_) | Expr::List(_) | Expr::Map(_) => true,
            Expr::Select(select) => select.test && self != Self::Bool,
            Expr::Call(call) => match call.func_name.as_str() {
                operators::SUBSTRACT
                | operators::MULTIPLY
                | operators::DIVIDE
                | operators::MODULO
                | operators::NEGATE => true,
                operators::ADD => self != Self::String,
                operators::EQUALS
                | operators::NOT_EQUALS
                | operators::LESS
                | operators::LESS_EQUALS
                | operators::GREATER
                | operators::GREATER_EQUALS
                | operators::IN
                | operators::LOGICAL_AND
                | operators::LOGICAL_OR
                | operators::LOGICAL_NOT => self != Self::Bool,
                _ => false,
            },
            _ => false,
        }
    }
}

/// A compiled expression.
#[derive(Debug)]
pub(crate) struct Expression {
    program: Program,
    depth: Depth,
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
        let depth = Depth::measure(source)?;
        let compiled = depth.with_stack(|| -> Result<Program, CompileError> {
            let root = parse(source)?;
            let excluded = result_type.excludes(&root.expr);
            let program = Program::compile(root, variables, MAX_PATTERN)?;
            if excluded || program.is_optional() {
                return Err(format!("must evaluate to a {}", result_type.name()).into());
            }
            Ok(program)
        });
        let program = compiled?.map_err(|error| error.to_string())?;
        Ok(Self { program, depth })
    }

    /// Evaluates the expression and deducts its cost from the budget.
    pub(crate) fn run(
        &self,
        variables: Vec<(&'static str, Value)>,
        budget: &mut Budget,
    ) -> Result<Value, Failure> {
        self.depth
            .with_stack(|| {
                let mut scope = Scope::new(Variables::new());
                for (name, value) in variables {
                    scope.add(name, value);
                }
                budget.run(&self.program, &scope)
            })
            .map_err(Failure::Error)?
    }

    /// Returns the compiled form, which knows the variables and indexes of the expression.
    pub(crate) fn program(&self) -> &Program {
        &self.program
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_of_other_types_are_refused() {
        for source in ["'text'", "1 + 1", "optional.of(true)"] {
            let compiled = Expression::compile(source, &[], ResultType::Bool);
            assert_eq!(compiled.unwrap_err(), "must evaluate to a boolean");
        }
    }
}
