//! Limits on the work of evaluations: on the number of their loop steps, on the size of their values, and on their time.

use std::cell::Cell;
use std::time::{Duration, Instant};

use kube_cel::cel::ExecutionError;

use super::metering::Charge;

/// Maximum number of loop steps of one evaluation.
const PER_EVALUATION: u64 = 250_000;
/// Maximum number of loop steps in all evaluations of one object.
const PER_OBJECT: u64 = 10 * PER_EVALUATION;
/// Maximum size of the values that one evaluation creates or copies, in bytes.
const BYTES_PER_EVALUATION: u64 = 32 << 20;
/// Maximum size of the values in all evaluations of one object, in bytes.
const BYTES_PER_OBJECT: u64 = 4 * BYTES_PER_EVALUATION;
/// Maximum time of all evaluations of one object.
const MAX_TIME: Duration = Duration::from_secs(5);

/// The remaining loop steps and bytes, and the deadline, for the evaluations of one object.
#[derive(Debug, Clone, Copy)]
pub struct Budget {
    left: u64,
    bytes: u64,
    deadline: Instant,
}

/// Maximum number of loop steps, and maximum size of the values in bytes, of evaluations on a thread of the runtime.
const QUICK: (u64, u64) = (20_000, 2 << 20);

thread_local! {
    /// The remaining budget of the evaluation that runs on this thread.
    static RUNNING: Cell<Budget> = Cell::new(Budget::new());
}

impl Budget {
    /// Returns the full budget for one object.
    pub fn new() -> Self {
        Self {
            left: PER_OBJECT,
            bytes: BYTES_PER_OBJECT,
            deadline: Instant::now() + MAX_TIME,
        }
    }

    /// Returns a small budget, for evaluations on a thread of the runtime.
    pub fn quick() -> Self {
        Self {
            left: QUICK.0,
            bytes: QUICK.1,
            ..Self::new()
        }
    }

    /// Starts an evaluation on this thread.
    pub fn begin(self) {
        Charge::start(self.bytes.min(BYTES_PER_EVALUATION), self.deadline);
        RUNNING.set(Self {
            left: self.left.min(PER_EVALUATION),
            ..self
        });
    }

    /// Deducts the cost of the evaluation on this thread. Returns false if the evaluation exceeded its budget.
    pub fn end(&mut self) -> bool {
        let given = self.left.min(PER_EVALUATION);
        let left = RUNNING.get().left;
        self.left -= given - left.min(given);
        let Some(used) = Charge::end() else {
            return false;
        };
        self.bytes -= used.min(self.bytes);
        left > 0
    }
}

/// Reports whether the evaluation on this thread has exceeded its budget.
pub fn exhausted() -> bool {
    RUNNING.get().left == 0 || Charge::is_exhausted()
}

/// Counts a loop step. Fails if the budget is exhausted.
pub fn step() -> Result<(), ExecutionError> {
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
