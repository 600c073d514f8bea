//! Limits on the evaluations of one object, and the threads of expensive evaluations.

use std::time::{Duration, Instant};

use berth_cel::{Failure, Limits, Program, Scope, Value};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::block_in_place;

/// Maximum number of loop steps of one evaluation.
const PER_EVALUATION: u64 = 250_000;
/// Maximum number of loop steps in all evaluations of one object.
const PER_OBJECT: u64 = 10 * PER_EVALUATION;
/// Maximum size of the values that one evaluation creates or copies, in bytes.
const BYTES_PER_EVALUATION: u64 = 32 << 20;
/// Maximum size of the values in all evaluations of one object, in bytes.
const BYTES_PER_OBJECT: u64 = 4 * BYTES_PER_EVALUATION;
/// Maximum size of a compiled pattern, in bytes.
pub(super) const MAX_PATTERN: usize = 10 << 20;
/// Maximum time of all evaluations of one object.
const MAX_TIME: Duration = Duration::from_secs(5);

/// Maximum number of loop steps, and maximum size of the values in bytes, of evaluations on a thread of the runtime.
const QUICK: (u64, u64) = (20_000, 2 << 20);

/// The remaining loop steps and bytes, and the deadline, for the evaluations of one object.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Budget(Limits);

impl Budget {
    /// Returns the full budget for one object.
    pub(crate) fn new() -> Self {
        Self(Limits {
            steps: PER_OBJECT,
            bytes: BYTES_PER_OBJECT,
            pattern: MAX_PATTERN,
            deadline: Instant::now() + MAX_TIME,
        })
    }

    /// Calls `evaluate` with a small budget. If this budget does not suffice, calls it again with the full budget. The
    /// other tasks of this thread of the runtime then continue on another thread. `evaluate` returns its result, and
    /// whether it exhausted the budget.
    pub(crate) fn spend<T>(evaluate: impl Fn(Self) -> (T, bool)) -> T {
        let quick = Self(Limits {
            steps: QUICK.0,
            bytes: QUICK.1,
            ..Self::new().0
        });
        let (result, exhausted) = evaluate(quick);
        if !exhausted {
            return result;
        }
        let flavor = Handle::try_current().map(|runtime| runtime.runtime_flavor());
        match flavor {
            Ok(RuntimeFlavor::MultiThread) => block_in_place(|| evaluate(Self::new()).0),
            // A runtime with one thread has no other thread for its tasks.
            _ => evaluate(Self::new()).0,
        }
    }

    /// Runs a program within the limits of one evaluation, and deducts its cost.
    pub(super) fn run(&mut self, program: &Program, scope: &Scope<'_>) -> Result<Value, Failure> {
        let given = Limits {
            steps: self.0.steps.min(PER_EVALUATION),
            bytes: self.0.bytes.min(BYTES_PER_EVALUATION),
            ..self.0
        };
        let mut left = given;
        let result = program.run(scope, &mut left);
        self.0.steps -= given.steps - left.steps;
        self.0.bytes -= given.bytes - left.bytes;
        result
    }
}
