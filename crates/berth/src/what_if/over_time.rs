//! Moves between two states over time: evictions, and decisions until nothing moves.

use std::ops::ControlFlow;

use super::comparison::compare;
use super::decide::{self, Decider};
use super::evictions;
use super::moves::{Move, Moves};
use super::settle::{FirstRound, settle};
use super::state::State;

/// Returns the moves after a change, with remarks, one line each. `progress` gets the number of bindings that are done;
/// if it breaks, the moves are incomplete.
pub(crate) async fn moves_over_time(
    decider: &mut Decider,
    before: &State,
    mut after: State,
    takes_over: bool,
    mut progress: impl FnMut(usize) -> ControlFlow<()>,
) -> (Moves, Vec<String>) {
    let mut remarks = evict(decider, before, &mut after);
    let (mut moves, mut first) = (Moves::default(), FirstRound::default());
    let mut reported = ControlFlow::Continue(());
    let compared = compare(decider, before, &after, takes_over, |candidate| {
        if let Some(binding) = after.bindings.get(&candidate.to.key) {
            first.record(binding, &candidate.to);
        }
        moves.add(candidate);
        reported = progress(moves.examined);
        reported
    });
    remarks.extend(compared.await);
    if reported.is_break() {
        return (moves, remarks);
    }
    let settled = settle(decider, &after.bindings, first).await;
    remarks.extend(settled.remarks);
    let again = settled.decisions.into_iter().map(|(key, decision)| {
        let old = before.bindings.get(&key);
        let from = old.map(|old| decide::shares(&old.spec)).unwrap_or_default();
        let was_schedulable = old.is_none_or(|old| !decide::has_failed(&old.status));
        Move::new(from, was_schedulable, decision)
    });
    moves.replace(again.collect());
    (moves, remarks)
}

/// Applies the evictions by new taints. Returns remarks.
pub(crate) fn evict(decider: &mut Decider, before: &State, after: &mut State) -> Vec<String> {
    let evictions = evictions::by_new_taints(&before.clusters, after);
    for (key, binding) in evictions.bindings {
        if let Some(stored) = after.bindings.get(&key) {
            let (from, to) = (decide::shares(&stored.spec), decide::shares(&binding.spec));
            decider.moved(stored, &from, &to);
        }
        after.bindings.insert(key, binding);
    }
    evictions.remarks
}
