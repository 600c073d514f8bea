//! Bindings that move: new decisions compared with the previous clusters.

use std::collections::BTreeSet;

use berth_scheduler::binding::BindingKey;

use super::decide::{Decision, Share};

/// A binding before and after.
#[derive(Clone, Debug)]
pub(crate) struct Move {
    /// Previous clusters.
    pub(crate) from: Vec<Share>,
    /// New decision.
    pub(crate) to: Decision,
    /// True if it could be placed before.
    was_schedulable: bool,
}

impl Move {
    /// `was_schedulable` is true if the previous decision succeeded or was never made.
    pub(crate) fn new(from: Vec<Share>, was_schedulable: bool, to: Decision) -> Self {
        Self {
            from,
            to,
            was_schedulable,
        }
    }

    /// Reports whether the binding cannot be placed any more.
    pub(crate) fn becomes_unschedulable(&self) -> bool {
        self.to.failure.is_some() && self.was_schedulable
    }

    /// Reports whether the clusters or replicas change.
    pub(crate) fn is_moved(&self) -> bool {
        self.from != self.to.clusters
    }

    /// Reports whether the binding is part of the output.
    pub(crate) fn has_changed(&self) -> bool {
        self.becomes_unschedulable() || self.is_moved()
    }
}

/// Bindings that move, and the number of all bindings.
#[derive(Clone, Debug, Default)]
pub(crate) struct Moves {
    /// Bindings that move or become unschedulable.
    pub(crate) moves: Vec<Move>,
    /// Number of all bindings.
    pub(crate) examined: usize,
}

impl Moves {
    /// Counts a binding, and stores it if it changes.
    pub(crate) fn add(&mut self, candidate: Move) {
        self.examined += 1;
        if candidate.has_changed() {
            self.moves.push(candidate);
        }
    }

    /// Replaces the moves of these bindings, which are counted already.
    pub(crate) fn replace(&mut self, candidates: Vec<Move>) {
        let keys: BTreeSet<&BindingKey> = candidates.iter().map(|new| &new.to.key).collect();
        self.moves.retain(|old| !keys.contains(&old.to.key));
        let changed = candidates.into_iter().filter(Move::has_changed);
        self.moves.extend(changed);
        self.moves.sort_by(|a, b| a.to.key.cmp(&b.to.key));
    }

    /// Returns the number of bindings that become unschedulable.
    pub(crate) fn unschedulable(&self) -> usize {
        let moves = self.moves.iter();
        moves.filter(|moved| moved.becomes_unschedulable()).count()
    }

    /// Returns `N bindings looked at, M would move, K would become unschedulable`. Each binding counts once.
    pub(crate) fn summary(&self) -> String {
        let unschedulable = self.unschedulable();
        let bindings = match self.examined {
            1 => "1 binding".to_owned(),
            several => format!("{several} bindings"),
        };
        format!(
            "{bindings} looked at, {} would move, {unschedulable} would become unschedulable",
            self.moves.len() - unschedulable
        )
    }
}
