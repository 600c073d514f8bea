//! The result of planning: actions, and times to plan again.

use std::time::Duration;

use crate::action::Action;

/// The actions due now, and the times at which objects must be planned again.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    pub(crate) actions: Vec<Action>,
    /// Times and UIDs of objects to plan again.
    pub(crate) replan_at: Vec<(jiff::Timestamp, String)>,
}

impl Plan {
    /// Schedules the next planning of an object.
    pub(crate) fn replan_after(&mut self, uid: String, start: jiff::Timestamp, after: Duration) {
        let at = start.saturating_add(after).unwrap_or(jiff::Timestamp::MAX);
        self.replan_at.push((at, uid));
    }
}
