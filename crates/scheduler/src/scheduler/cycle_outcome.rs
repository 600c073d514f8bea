//! The outcome of a scheduling cycle before its write.

use berth_api::Binding;

use super::in_flight::ReservedDecision;
use crate::framework::plugin_calls::Gated;
use crate::metrics::Stages;
use crate::queue::Verdict;
use crate::rules::plan::Plan;
use crate::rules::schedule_trigger::ScheduleType;

/// Result of a cycle.
pub(super) struct CycleOutcome {
    pub(super) plan: Plan,
    /// Trigger of the decision, or `None` if the cycle made no decision.
    pub(super) trigger: Option<ScheduleType>,
    /// The decision, if plugins take part in its write.
    pub(super) decision: Option<ReservedDecision>,
    /// The stages of the decision and their durations, if they are traced.
    pub(super) stages: Stages,
}

impl CycleOutcome {
    /// Creates an outcome without a decision.
    pub(super) fn of(plan: Plan, trigger: Option<ScheduleType>) -> Self {
        Self {
            plan,
            trigger,
            decision: None,
            stages: Stages::new(),
        }
    }

    /// Creates the outcome of a binding that PreEnqueue plugins stop.
    pub(super) fn gated(binding: &Binding, trigger: ScheduleType, gated: &Gated) -> Self {
        match gated {
            Gated::NotKnown => Self::of(Plan::nothing(Verdict::Wait), None),
            Gated::Because(error) => Self::of(Plan::stopped(binding, error), Some(trigger)),
        }
    }

    pub(super) fn boxed(plan: Plan, trigger: Option<ScheduleType>) -> Box<Self> {
        Box::new(Self::of(plan, trigger))
    }
}
