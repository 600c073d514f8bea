//! CEL expressions of schemas and webhooks. The crate `berth-cel` compiles and evaluates them.
//!
//! | module | contents |
//! |---|---|
//! | [`expression`] | a compiled expression and its evaluation |
//! | [`budget`] | the limits on the evaluations of one object |
//! | [`match_condition`] | the `matchConditions` of webhooks |
//!
//! This module must not know schemas or kinds.

mod budget;
mod expression;
mod match_condition;

pub(crate) use budget::Budget;
pub(crate) use expression::{Expression, ResultType};
pub(crate) use match_condition::{Condition, ConditionInput};
