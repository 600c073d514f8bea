//! Limits on the work of evaluations.
//!
//! Work is counted in units: a byte of text or a value that a function reads is one unit, a loop step is [`STEP`].

use std::cell::Cell;
use std::time::{Duration, Instant};

use kube_cel::cel::objects::OptionalValue;
use kube_cel::cel::{ExecutionError, Value};

/// Units of one loop step.
pub(super) const STEP: u64 = 64;
/// Units that one evaluation may spend.
const PER_EVALUATION: u64 = 250_000 * STEP;
/// Units that the evaluations of one object may spend together.
const PER_OBJECT: u64 = 10 * PER_EVALUATION;
/// Time that the evaluations of one object may take together.
const MAX_TIME: Duration = Duration::from_secs(5);

/// The units and time left for the evaluations of one object.
#[derive(Debug)]
pub(crate) struct Budget {
    left: u64,
    deadline: Instant,
}

impl Budget {
    /// Returns the budget of one object.
    pub(crate) fn new() -> Self {
        Self {
            left: PER_OBJECT,
            deadline: Instant::now() + MAX_TIME,
        }
    }

    /// Returns the limits of the next evaluation.
    pub(super) fn limits(&self) -> Limits {
        Limits {
            units: self.left.min(PER_EVALUATION),
            deadline: self.deadline,
        }
    }

    /// Deducts the units that an evaluation spent.
    pub(super) fn deduct(&mut self, units: u64) {
        self.left = self.left.saturating_sub(units);
    }
}

/// The limits of one evaluation.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    units: u64,
    deadline: Instant,
}

thread_local! {
    static SPENT: Cell<u64> = const { Cell::new(0) };
    static LIMITS: Cell<Option<Limits>> = const { Cell::new(None) };
}

/// Starts to count the work of an evaluation on this thread.
pub(super) fn begin(limits: Limits) {
    SPENT.set(0);
    LIMITS.set(Some(limits));
}

/// Returns the units that the evaluation on this thread has spent.
pub(super) fn spent() -> u64 {
    SPENT.get()
}

/// Reports whether the evaluation on this thread has exceeded a limit.
pub(super) fn exhausted() -> bool {
    LIMITS
        .get()
        .is_some_and(|limits| SPENT.get() > limits.units)
}

/// Spends units, or fails if the limit is exceeded.
pub(super) fn spend(units: u64) -> Result<(), ExecutionError> {
    let late = LIMITS
        .get()
        .is_some_and(|limits| Instant::now() > limits.deadline);
    let units = if late { u64::MAX } else { units };
    SPENT.set(SPENT.get().saturating_add(units));
    if exhausted() {
        return Err(ExecutionError::function_error("budget", "too expensive"));
    }
    Ok(())
}

/// Spends the units of reading a value.
pub(super) fn spend_reading(value: &Value) -> Result<(), ExecutionError> {
    spend(units(value))
}

/// Returns the bytes and values within a value.
pub(super) fn units(value: &Value) -> u64 {
    let length = |length: usize| u64::try_from(length).unwrap_or(u64::MAX);
    match value {
        Value::String(text) => length(text.len()),
        Value::Bytes(bytes) => length(bytes.len()),
        Value::List(list) => list.iter().map(units).sum::<u64>() + length(list.len()),
        Value::Map(map) => map.map.values().map(units).sum::<u64>() + length(map.map.len()),
        Value::Opaque(of) => of
            .downcast_ref::<OptionalValue>()
            .and_then(OptionalValue::value)
            .map_or(1, units),
        _ => 1,
    }
}
