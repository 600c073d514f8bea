//! CEL expressions: parsing, checking and bounded evaluation.
//!
//! | module | contents |
//! |---|---|
//! | [`expression`] | a compiled expression and its evaluation |
//! | [`parse`], [`bounds`], [`macros`] | the syntax tree, with all macros expanded |
//! | [`compile`] | the check of an expression, and its rewriting for the interpreter |
//! | [`functions`] | the functions that the CEL crates lack or implement differently |
//! | [`budget`] | the limits of an evaluation |
//! | [`match_condition`] | the `matchConditions` of webhooks |
//!
//! This module must not know schemas or kinds.

mod bounds;
mod budget;
mod compile;
mod expression;
mod functions;
mod macros;
mod match_condition;
mod names;
mod parse;
mod uses;

pub(crate) use budget::Budget;
pub(crate) use compile::ResultType;
pub(crate) use expression::{Expression, Failure};
pub(crate) use functions::timestamp;
pub(crate) use match_condition::{Condition, ConditionInput};
pub(crate) use names::escape;

/// A variable of an expression.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Variable {
    pub(crate) name: &'static str,
    /// True if the value of the variable is a CEL optional.
    pub(crate) optional: bool,
}

impl Variable {
    /// Returns a variable that always has a value.
    pub(crate) fn plain(name: &'static str) -> Self {
        Self {
            name,
            optional: false,
        }
    }
}
