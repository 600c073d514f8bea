//! A compiled expression and its evaluation.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use kube_cel::cel::common::value::Val;
use kube_cel::cel::{Context, IdedExpr, Value};

use super::compile::{self, Compiled, Variable};
use super::error::{CompileError, Failure, message};
use super::functions::FUNCTIONS;
use super::limits::Limits;
use super::metering;

/// Variables by name.
pub type Variables = BTreeMap<String, Box<dyn Val>>;

/// The variables of an evaluation, with the functions.
pub struct Scope<'a>(Context<'a>);

impl fmt::Debug for Scope<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scope").finish_non_exhaustive()
    }
}

impl<'a> Scope<'a> {
    /// Returns a scope with these variables.
    pub fn new(variables: Variables) -> Self {
        Self::child(&FUNCTIONS, variables)
    }

    /// Returns a scope with further variables.
    #[must_use]
    pub fn with(&'a self, variables: Variables) -> Self {
        Self::child(&self.0, variables)
    }

    fn child(parent: &'a Context<'a>, variables: Variables) -> Self {
        Self(Context::Child {
            parent,
            variables,
            resolver: None,
        })
    }

    /// Adds a variable.
    pub fn add(&mut self, name: &str, value: Value) {
        self.0.add_variable_from_value(name, value);
    }

    /// Returns the variables of this scope, without those of its parent.
    pub fn into_variables(self) -> Variables {
        match self.0 {
            Context::Child { variables, .. } | Context::Root { variables, .. } => variables,
        }
    }
}

/// A compiled expression.
#[derive(Debug)]
pub struct Program {
    root: IdedExpr,
    names: BTreeSet<String>,
    indexes: bool,
    is_optional: bool,
}

impl Program {
    /// Compiles a parsed expression. `max_pattern` limits the size of compiled constant patterns, in bytes.
    ///
    /// # Errors
    /// If a function or variable is unknown, or a constant cannot be converted.
    pub fn compile(
        root: IdedExpr,
        variables: &[Variable],
        max_pattern: usize,
    ) -> Result<Self, CompileError> {
        let Compiled {
            mut root,
            names,
            indexes,
            is_optional,
        } = compile::compile(root, variables, max_pattern)?;
        metering::meter(&mut root);
        Ok(Self {
            root,
            names,
            indexes,
            is_optional,
        })
    }

    /// Evaluates the expression on this thread, and deducts its steps and bytes from the limits.
    ///
    /// # Errors
    /// If the evaluation fails or exceeds a limit.
    pub fn run(&self, scope: &Scope<'_>, limits: &mut Limits) -> Result<Value, Failure> {
        limits
            .run(|| Value::resolve(&self.root, &scope.0))
            .map_err(Failure::Exceeded)?
            .map_err(|error| Failure::Error(message(&error)))
    }

    /// Reports whether the expression uses a variable.
    pub fn mentions(&self, variable: &str) -> bool {
        self.names.contains(variable)
    }

    /// Reports whether the expression indexes a list or map.
    pub fn indexes(&self) -> bool {
        self.indexes
    }

    /// Reports whether the result of the expression is certainly a CEL optional.
    pub fn is_optional(&self) -> bool {
        self.is_optional
    }
}

#[cfg(test)]
mod tests;
