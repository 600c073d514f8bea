//! The complete prediction of the moves after a change: evictions, a first round of decisions, and further
//! rounds until no binding needs another decision.

use std::ops::ControlFlow;

use super::decider::Decider;
use super::decision::shares;
use super::evictions;
use super::first_round::{FirstRoundResults, run_first_round};
use super::further_rounds::run_further_rounds;
use super::moves::{Move, Moves};
use crate::control_plane_state::ControlPlaneState;

/// Predicts the moves after a change. Returns the moves, and remarks, one line each. If `takes_over` is true, the first
/// round processes all bindings, as a scheduler that becomes the leader does.
///
/// Calls `progress` after each binding of the first round with the number of processed bindings. If `progress` returns
/// `Break`, the prediction stops, and the returned moves are incomplete.
pub(crate) async fn predict_moves(
    decider: &mut Decider,
    before: &ControlPlaneState,
    mut after: ControlPlaneState,
    takes_over: bool,
    mut progress: impl FnMut(usize) -> ControlFlow<()>,
) -> (Moves, Vec<String>) {
    let mut remarks = evict(decider, before, &mut after);
    let (mut moves, mut first) = (Moves::default(), FirstRoundResults::default());
    let mut reported = ControlFlow::Continue(());
    let first_round = run_first_round(decider, before, &after, takes_over, |candidate| {
        if let Some(binding) = after.bindings.get(&candidate.to.key) {
            first.record(binding, &candidate.to);
        }
        moves.add(candidate.without_lost(&before.clusters, &after.clusters));
        reported = progress(moves.examined);
        reported
    });
    remarks.extend(first_round.await);
    if reported.is_break() {
        return (moves, remarks);
    }
    let further = run_further_rounds(decider, &after.bindings, first).await;
    remarks.extend(further.remarks);
    let decided_again = further
        .decisions
        .into_iter()
        .map(|(key, decision)| Move::from_binding(before.bindings.get(&key), decision))
        .map(|candidate| candidate.without_lost(&before.clusters, &after.clusters));
    moves.replace(decided_again.collect());
    (moves, remarks)
}

/// Evicts bindings in `after` from drained clusters and from clusters with new taints. Returns remarks, one line each.
fn evict(
    decider: &mut Decider,
    before: &ControlPlaneState,
    after: &mut ControlPlaneState,
) -> Vec<String> {
    let evictions = evictions::of_change(&before.clusters, after);
    for (key, binding) in evictions.bindings {
        if let Some(stored) = after.bindings.get(&key) {
            decider.record_move(stored, &shares(&stored.spec), &shares(&binding.spec));
        }
        decider.binding_changed(&binding);
        after.bindings.insert(key, binding);
    }
    evictions.remarks
}
