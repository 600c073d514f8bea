//! The scheduling cycles whose result is being written: a binding is not decided again until its write has ended.

use std::sync::Arc;
use std::time::Instant;

use berth_core::CycleState;
use berth_telemetry::Span;

use crate::binding::{Binding, BindingKey};
use crate::framework::Decided;
use crate::framework::extension_points::ExtensionPoints;
use crate::rules::schedule_trigger::ScheduleType;

/// A scheduling cycle of a binding.
#[derive(Debug)]
pub(super) struct Cycle {
    pub(super) binding: Arc<Binding>,
    pub(super) schedule_type: ScheduleType,
    pub(super) began: Instant,
    /// Ends with the cycle.
    pub(super) span: Span,
}

impl Cycle {
    pub(super) fn key(&self) -> &BindingKey {
        &self.binding.key
    }
}

/// A decision with the state of the plugins that reserve for it.
#[derive(Debug)]
pub(super) struct ReservedDecision {
    pub(super) points: Arc<ExtensionPoints>,
    pub(super) decided: Decided,
    pub(super) state: CycleState,
}

impl ReservedDecision {
    /// Reverts the reservations, in reverse order.
    pub(super) fn unreserve(&mut self) {
        self.points.unreserve(&self.decided, &mut self.state);
    }
}
