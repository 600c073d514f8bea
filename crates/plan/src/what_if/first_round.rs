//! The first round of decisions of a prediction: schedules once each binding that a change affects. The module
//! `further_rounds` schedules bindings again.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use berth_api::{Binding, BindingKey};
use berth_diagnosis::is_quota_refusal;
use berth_scheduler::rules::responsibility;

use super::decider::Decider;
use super::decision::{Decision, has_failed, shares};
use super::moves::Move;
use super::triggers::Triggers;
use crate::control_plane_state::ControlPlaneState;

/// The results of the first round that further rounds need.
#[derive(Debug, Default)]
pub(crate) struct FirstRoundResults {
    /// Decisions that failed or moved a binding.
    pub(super) decisions: Vec<Decision>,
    /// Bindings whose last scheduling failed before the simulation, and which the first round did not change.
    pub(super) waiting: BTreeSet<BindingKey>,
}

impl FirstRoundResults {
    /// Adds a decision about a binding, if further rounds need it.
    pub(crate) fn record(&mut self, binding: &Binding, decision: &Decision) {
        if decision.failure.is_some() || decision.clusters != shares(&binding.spec) {
            self.decisions.push(decision.without_explanation());
        } else if has_failed(&binding.status) {
            self.waiting.insert(binding.key.clone());
        }
    }
}

/// Schedules the bindings that a running scheduler would process after a change, and keeps the placement of all other
/// bindings. Passes each binding with its old and new placement to `on_binding`, and stops when `on_binding` returns
/// `Break`. Returns remarks, one line each.
///
/// If `takes_over` is true, all bindings are processed, as by a scheduler that becomes the leader.
pub(crate) async fn run_first_round(
    decider: &mut Decider,
    before: &ControlPlaneState,
    after: &ControlPlaneState,
    takes_over: bool,
    mut on_binding: impl FnMut(Move) -> ControlFlow<()>,
) -> Vec<String> {
    let mut remarks = std::mem::take(&mut decider.capacity_faults);
    let triggers = Triggers::new(
        (&before.clusters, &before.bindings),
        &after.clusters,
        takes_over,
        decider.multiple_pod_templates(),
    );
    let quotas_changed = before.quotas != after.quotas;
    for (key, binding) in &after.bindings {
        let old = before.bindings.get(key);
        let may_get_room = quotas_changed && is_quota_refusal(binding);
        let decision = if may_get_room || triggers.needs_decision(binding) {
            decider.decide(binding).await
        } else {
            if old.is_none() && !responsibility::passes(binding, binding.spec.scheduler()) {
                remarks.push(format!(
                    "{} {key}: no scheduler processes it, because no policy has claimed it or scheduling is suspended",
                    key.kind()
                ));
            }
            Decision::unchanged(binding)
        };
        let warnings = decision.warnings.iter();
        remarks.extend(warnings.map(|warning| format!("{key}: {warning}")));
        if on_binding(Move::from_binding(old, decision)).is_break() {
            break;
        }
    }
    remarks
}
