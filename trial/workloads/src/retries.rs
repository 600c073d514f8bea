//! The objects whose last action failed, with the times of the next attempts. `attempts` has the rules.

use std::collections::HashMap;

/// The refusal of a pod, or of another object that a controller creates or deletes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// The reason of events and conditions, such as `FailedCreate`.
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

/// The state of an object whose last action failed.
#[derive(Debug)]
pub(crate) struct Retry {
    pub(crate) attempts: u32,
    pub(crate) at: jiff::Timestamp,
    pub(crate) generation: Option<i64>,
    pub(crate) refusal: Option<Refusal>,
    /// True if a write of the status failed. Otherwise the status is written before the next attempt.
    pub(crate) is_of_status: bool,
}

/// The objects whose last action failed, by UID.
#[derive(Debug, Default)]
pub(crate) struct Retries(pub(crate) HashMap<String, Retry>);

impl Retries {
    /// Records that all actions of an object succeeded. Until the time of the next attempt, only the status of the
    /// object is written, which does not repeat the failed action.
    pub(crate) fn succeeded(&mut self, uid: &str, now: jiff::Timestamp) {
        if self.0.get(uid).is_some_and(|retry| retry.at <= now) {
            self.0.remove(uid);
        }
    }
}
