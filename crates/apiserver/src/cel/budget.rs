//! Limits on the work of evaluations: on the number of their loop steps, and on their time.

use std::cell::Cell;
use std::time::{Duration, Instant};

use kube_cel::cel::ExecutionError;

/// Maximum number of loop steps of one evaluation.
const PER_EVALUATION: u64 = 250_000;
/// Maximum number of loop steps in all evaluations of one object.
const PER_OBJECT: u64 = 10 * PER_EVALUATION;
/// Maximum time of all evaluations of one object.
const MAX_TIME: Duration = Duration::from_secs(5);

/// The remaining loop steps and the deadline for the evaluations of one object.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Budget {
    left: u64,
    deadline: Instant,
}

thread_local! {
    /// The remaining budget of the evaluation that runs on this thread.
    static RUNNING: Cell<Budget> = Cell::new(Budget::new());
}

impl Budget {
    /// Returns the full budget for one object.
    pub(crate) fn new() -> Self {
        Self {
            left: PER_OBJECT,
            deadline: Instant::now() + MAX_TIME,
        }
    }

    /// Starts an evaluation on this thread.
    pub(super) fn begin(self) {
        RUNNING.set(Self {
            left: self.left.min(PER_EVALUATION),
            ..self
        });
    }

    /// Deducts the loop steps of the evaluation on this thread. Returns false if the evaluation exceeded its budget.
    pub(super) fn end(&mut self) -> bool {
        let given = self.left.min(PER_EVALUATION);
        let left = RUNNING.get().left;
        self.left -= given - left.min(given);
        left > 0
    }
}

/// Reports whether the evaluation on this thread has exceeded its budget.
pub(super) fn exhausted() -> bool {
    RUNNING.get().left == 0
}

/// Counts a loop step. Fails if the budget is exhausted.
pub(super) fn step() -> Result<(), ExecutionError> {
    let running = RUNNING.get();
    let late = Instant::now() > running.deadline;
    let left = if late {
        0
    } else {
        running.left.saturating_sub(1)
    };
    RUNNING.set(Budget { left, ..running });
    if left == 0 {
        return Err(ExecutionError::function_error("budget", "too expensive"));
    }
    Ok(())
}
