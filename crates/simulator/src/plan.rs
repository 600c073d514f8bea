//! The result of planning: the actions that are due now, and the times to plan objects again.

use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;

use crate::action::Action;

/// The actions due now, and the times at which objects must be planned again.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    pub(crate) actions: Vec<Action>,
    /// The UIDs of the objects to plan again, with the times.
    pub(crate) replan_at: Vec<(jiff::Timestamp, String)>,
    /// The controllers that cannot create pods, because the cluster is full.
    pub(crate) refused: Vec<ObjectReference>,
}

impl Plan {
    /// Requests another planning of an object at the time `start + after`.
    pub(crate) fn replan_after(&mut self, uid: String, start: jiff::Timestamp, after: Duration) {
        let at = start.saturating_add(after).unwrap_or(jiff::Timestamp::MAX);
        self.replan_at.push((at, uid));
    }
}
