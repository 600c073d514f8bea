//! CEL expressions of schemas and webhooks.
//!
//! This module must not know schemas or kinds.

mod expression;
mod match_condition;

pub(crate) use berth_cel::Variable;
pub(crate) use berth_cel::compile::ResultType;
pub(crate) use berth_cel::functions::timestamp;
pub(crate) use berth_cel::limits::Budget;
pub(crate) use berth_cel::names::escape;
pub(crate) use expression::{Expression, Failure};
pub(crate) use match_condition::{Condition, ConditionInput};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::block_in_place;

/// Calls `evaluate` with a small budget. If this budget does not suffice, calls it again with the full budget. The
/// other tasks of this thread of the runtime then continue on another thread. `evaluate` returns its result, and
/// whether it exhausted the budget.
pub(crate) fn spend<T>(evaluate: impl Fn(Budget) -> (T, bool)) -> T {
    let (result, exhausted) = evaluate(Budget::quick());
    if !exhausted {
        return result;
    }
    let flavor = Handle::try_current().map(|runtime| runtime.runtime_flavor());
    match flavor {
        Ok(RuntimeFlavor::MultiThread) => block_in_place(|| evaluate(Budget::new()).0),
        // A runtime with one thread has no other thread for its tasks.
        _ => evaluate(Budget::new()).0,
    }
}
