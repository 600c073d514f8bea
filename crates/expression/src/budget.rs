//! The limits of evaluations.

use std::time::{Duration, Instant};

use berth_cel::{Failure, Limits, Program, Scope, Value};

/// Maximum number of loop iterations in one evaluation.
pub(crate) const MAX_ITERATIONS: u64 = 10_000;
/// Maximum size of all values that one evaluation creates or copies, in bytes.
pub(crate) const MAX_BYTES: u64 = 32 << 20;
/// Maximum total time of the evaluations in one [`Budget`].
pub(crate) const MAX_TIME: Duration = Duration::from_secs(1);
/// Maximum size of a compiled pattern, in bytes.
pub(crate) const MAX_PATTERN_SIZE: usize = 1 << 18;

/// A time budget of evaluations in one scheduling cycle. A cycle has three budgets: for the filters, for the scores and
/// for the reasons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Budget {
    deadline: Instant,
}

impl Budget {
    pub(crate) fn begin() -> Self {
        Self::within(MAX_TIME)
    }

    pub(crate) fn within(time: Duration) -> Self {
        Self {
            deadline: Instant::now() + time,
        }
    }

    /// Evaluates an expression within the limits on iterations, bytes and time.
    pub(crate) fn run(self, program: &Program, scope: &Scope<'_>) -> Result<Value, Failure> {
        let mut limits = Limits {
            steps: MAX_ITERATIONS,
            bytes: MAX_BYTES,
            pattern: MAX_PATTERN_SIZE,
            deadline: self.deadline,
        };
        program.run(scope, &mut limits)
    }
}
