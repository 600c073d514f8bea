//! Limits on the work of evaluations: on the number of their loop steps, on the size of their values, and on their time.
//! A compiled expression contains calls that deduct from the limits of the evaluation on the thread.

use std::cell::RefCell;
use std::time::Instant;

use kube_cel::cel::ExecutionError;

/// The limits of evaluations. An evaluation deducts its steps and bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of loop steps.
    pub steps: u64,
    /// Maximum size of the values that are created, copied or searched, in bytes.
    pub bytes: u64,
    /// Maximum size of a compiled pattern of `matches`, in bytes.
    pub pattern: usize,
    /// The end of the time.
    pub deadline: Instant,
}

/// An exceeded limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exceeded {
    /// The loops took too many steps.
    Steps,
    /// The values were too large.
    Bytes,
    /// The time ended.
    Time,
}

/// The state of the evaluation on a thread.
struct Running {
    /// The limits at the beginning of the evaluation.
    whole: Limits,
    left: Limits,
    exceeded: Option<Exceeded>,
}

thread_local! {
    static RUNNING: RefCell<Option<Running>> = const { RefCell::new(None) };
}

impl Limits {
    /// Calls `evaluate` within these limits, and deducts its steps and bytes. Operators such as `||` can hide the error
    /// of an exceeded limit, so the limits decide about the result.
    pub(crate) fn run<T>(&mut self, evaluate: impl FnOnce() -> T) -> Result<T, Exceeded> {
        if Instant::now() > self.deadline {
            return Err(Exceeded::Time);
        }
        RUNNING.set(Some(Running {
            whole: *self,
            left: *self,
            exceeded: None,
        }));
        let result = evaluate();
        let Some(running) = RUNNING.take() else {
            return Ok(result);
        };
        *self = running.left;
        running.exceeded.map_or(Ok(result), Err)
    }
}

/// Reports whether the evaluation on this thread has exceeded a limit.
pub(crate) fn is_exceeded() -> bool {
    RUNNING.with_borrow(|running| running.as_ref().is_some_and(|r| r.exceeded.is_some()))
}

/// Returns the maximum size of a compiled pattern in the evaluation on this thread.
pub(crate) fn pattern_size() -> usize {
    RUNNING.with_borrow(|running| running.as_ref().map_or(0, |r| r.left.pattern))
}

/// Counts a loop step.
pub(crate) fn step() -> Result<(), ExecutionError> {
    update(|running| deduct(&mut running.left.steps, 1, Exceeded::Steps))
}

/// Charges for bytes that are created, copied or searched.
pub(crate) fn charge(bytes: u64) -> Result<(), ExecutionError> {
    update(|running| deduct(&mut running.left.bytes, bytes, Exceeded::Bytes))
}

/// Fails if a variable of this size exceeds the limit of the whole evaluation.
pub(crate) fn fits(bytes: u64) -> Result<(), ExecutionError> {
    update(|running| {
        let is_small = bytes <= running.whole.bytes;
        is_small.then_some(()).ok_or(Exceeded::Bytes)
    })
}

fn deduct(left: &mut u64, used: u64, limit: Exceeded) -> Result<(), Exceeded> {
    *left = left.checked_sub(used).ok_or(limit)?;
    Ok(())
}

/// Updates the state of the evaluation on this thread. Fails if the evaluation has exceeded a limit.
fn update(change: impl FnOnce(&mut Running) -> Result<(), Exceeded>) -> Result<(), ExecutionError> {
    RUNNING.with_borrow_mut(|running| {
        let Some(running) = running else {
            return Ok(());
        };
        if running.exceeded.is_none() {
            running.exceeded = if Instant::now() > running.left.deadline {
                Some(Exceeded::Time)
            } else {
                change(running).err()
            };
        }
        match running.exceeded {
            Some(_) => Err(ExecutionError::function_error("limits", "too expensive")),
            None => Ok(()),
        }
    })
}
