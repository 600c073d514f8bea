//! The data of a scheduling cycle that its write task carries: the binding, the start of the cycle and the reserved
//! decision. The scheduler decides a binding again only after its write has ended.

use std::sync::Arc;
use std::time::Instant;

use berth_api::{Binding, BindingKey};
use berth_engine::CycleState;
use berth_telemetry::Span;

use crate::framework::Decided;
use crate::framework::plugin_calls::ExtensionPoints;
use crate::rules::schedule_trigger::ScheduleType;

/// A scheduling cycle of a binding.
#[derive(Debug)]
pub(super) struct Cycle {
    pub(super) binding: Arc<Binding>,
    pub(super) schedule_type: ScheduleType,
    pub(super) began: Instant,
    /// The trace span, which ends with the cycle.
    pub(super) span: Span,
}

impl Cycle {
    pub(super) fn key(&self) -> &BindingKey {
        &self.binding.key
    }
}

/// A decision with the plugins that take part in its write, and with their state.
#[derive(Debug)]
pub(super) struct ReservedDecision {
    pub(super) points: Arc<ExtensionPoints>,
    pub(super) decided: Decided,
    pub(super) state: CycleState,
}

impl ReservedDecision {
    /// Reverts the reservations of the Reserve plugins, in reverse order.
    pub(super) fn unreserve(&mut self) {
        self.points.unreserve(&self.decided, &mut self.state);
    }
}
