//! Comparison of two states of a control plane: the bindings that a running scheduler would move.

use std::ops::ControlFlow;

use berth_scheduler::rules::responsibility;

use super::decide::{self, Decider};
use super::evictions;
use super::moves::Move;
use super::state::State;
use super::triggers::Triggers;

/// Decides about the bindings that a scheduler would process after a change, and passes each binding to `on_binding`
/// until it breaks. With `takes_over`, a new leader processes every binding once. Returns remarks, one line each.
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
                    "{} {key}: no scheduler takes it, because no policy has claimed it or scheduling is suspended",
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
