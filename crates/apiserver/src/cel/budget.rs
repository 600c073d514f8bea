//! Limits on the work of evaluations: the steps of their loops, and their time.

use std::cell::Cell;
use std::time::{Duration, Instant};

use kube_cel::cel::ExecutionError;

/// Loop steps of one evaluation.
const PER_EVALUATION: u64 = 250_000;
/// Loop steps of the evaluations of one object together.
const PER_OBJECT: u64 = 10 * PER_EVALUATION;
/// Time that the evaluations of one object may take together.
const MAX_TIME: Duration = Duration::from_secs(5);

/// The steps and time left for the evaluations of one object.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Budget {
    left: u64,
    deadline: Instant,
}

thread_local! {
    /// The budget of the running evaluation.
    static RUNNING: Cell<Budget> = Cell::new(Budget::new());
}

impl Budget {
    /// Returns the budget of one object.
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

    /// Deducts the steps of the evaluation on this thread. Returns false if it exceeded the budget.
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

/// Counts a loop step, or fails if the budget is spent.
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
