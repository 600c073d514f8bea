//! The complete prediction of the moves after a change: evictions by taints, a first round of decisions
//! ([`compare`]), and further rounds until no binding moves ([`settle`]).

use std::ops::ControlFlow;

use super::comparison::compare;
use super::decide::{self, Decider};
use super::evictions;
use super::moves::{Move, Moves};
use super::settle::{FirstRound, settle};
use super::state::State;

/// Returns the moves after a change, and remarks, one line each.
///
/// Calls `progress` after each binding of the first round with the number of processed bindings. If `progress` returns
/// `Break`, the prediction stops, and the returned moves are incomplete.
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

/// Evicts bindings in `after` from the clusters with new taints. Returns remarks, one line each.
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
