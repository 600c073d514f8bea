//! The first round of a prediction: compares two states of a control plane, and schedules the affected bindings once.
//! The module `over_time` adds further rounds.

use std::ops::ControlFlow;

use berth_scheduler::rules::responsibility;

use super::decide::{self, Decider};
use super::evictions;
use super::moves::Move;
use super::state::State;
use super::triggers::Triggers;

/// Schedules the bindings that a running scheduler would process after a change, and keeps the placement of all other
/// bindings. Passes each binding with its old and new placement to `on_binding`, and stops when `on_binding` returns
/// `Break`. Returns remarks, one line each.
///
/// If `takes_over` is true, all bindings are processed, as by a scheduler that becomes the leader.
pub(crate) async fn compare(
    decider: &mut Decider,
    before: &State,
    after: &State,
    takes_over: bool,
    mut on_binding: impl FnMut(Move) -> ControlFlow<()>,
) -> Vec<String> {
    let evictions = evictions::by_new_taints(&before.clusters, after);
    let mut remarks = std::mem::take(&mut decider.capacity_faults);
    remarks.extend(evictions.remarks);
    let triggers = Triggers::new(
        (&before.clusters, &before.bindings),
        &after.clusters,
        takes_over,
        decider.multiple_pod_templates(),
    );
    for (key, binding) in &after.bindings {
        let binding = evictions.bindings.get(key).unwrap_or(binding);
        let old = before.bindings.get(key);
        let decision = if triggers.needs_decision(binding) {
            decider.decide(binding).await
        } else {
            if old.is_none() && !responsibility::passes(binding, binding.spec.scheduler()) {
                remarks.push(format!(
                    "{} {key}: no scheduler processes it, because no policy has claimed it or scheduling is suspended",
                    key.kind()
                ));
            }
            decide::unchanged(binding)
        };
        let from = old.map(|old| decide::shares(&old.spec)).unwrap_or_default();
        let was_schedulable = old.is_none_or(|old| !decide::has_failed(&old.status));
        if on_binding(Move::new(from, was_schedulable, decision)).is_break() {
            break;
        }
    }
    remarks
}
