//! CEL expressions: parsing, checking and bounded evaluation.
//!
//! | module | contents |
//! |---|---|
//! | [`expression`] | a compiled expression and its evaluation |
//! | [`parse`], [`bounds`], [`macros`] | the syntax tree, with all macros expanded |
//! | [`compile`], [`shape`] | the names and fields of an expression, checked against the schemas of its variables |
//! | [`functions`] | the functions that the CEL crates lack |
//! | [`budget`] | the limits of an evaluation |
//! | [`condition`] | conditions on a request |
//!
//! Schemas are raw OpenAPI JSON here; this module knows neither compiled schemas nor kinds.

mod bounds;
mod budget;
mod compile;
mod condition;
mod expression;
mod functions;
mod macros;
mod names;
mod parse;
mod shape;
mod uses;

pub(crate) use budget::Budget;
pub(crate) use condition::{Condition, ConditionInput};
pub(crate) use expression::{Expression, Failure, ResultType};
pub(crate) use names::escape;
pub(crate) use shape::{Variable, is_visible};
