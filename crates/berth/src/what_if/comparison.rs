//! Comparison of two states of a control plane: the bindings that a running scheduler would move.

use std::ops::ControlFlow;

use berth_scheduler::rules::responsibility;

use super::decide::{self, Decider};
use super::moves::{Move, Moves};
use super::state::State;
use super::triggers::Triggers;

/// Moves, with remarks about their bindings.
#[derive(Debug)]
pub(crate) struct Comparison {
    /// The moves.
    pub(crate) moves: Moves,
    /// Remarks, one line each.
    pub(crate) remarks: Vec<String>,
    /// False if `progress` ended it early.
    pub(crate) is_complete: bool,
}

/// Decides about the bindings that a scheduler would process after a change. With `takes_over`, a new leader processes
/// every binding once. `progress` gets the number of bindings that are done; after a break, the rest is left out.
pub(crate) async fn moves_between(
    mut decider: Decider,
    before: &State,
    after: &State,
    takes_over: bool,
    mut progress: impl FnMut(usize) -> ControlFlow<()>,
) -> Comparison {
    let mut comparison = Comparison {
        remarks: std::mem::take(&mut decider.capacity_faults),
        moves: Moves::default(),
        is_complete: true,
    };
    let triggers = Triggers::new(
        (&before.clusters, &before.bindings),
        &after.clusters,
        takes_over,
        decider.multiple_pod_templates(),
    );
    let Comparison { moves, remarks, .. } = &mut comparison;
    for (key, binding) in &after.bindings {
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
        moves.add(Move::new(from, was_schedulable, decision));
        if progress(moves.examined).is_break() {
            comparison.is_complete = false;
            break;
        }
    }
    comparison
}
