//! The result of a prediction: the bindings that move, each with its previous clusters and the new decision.

use std::collections::BTreeSet;
use std::sync::Arc;

use berth_scheduler::binding::{Binding, BindingKey};

use super::control_plane_state::Clusters;
use super::decision::{Decision, Share, has_failed, shares};

/// The previous clusters of a binding and the new decision about the binding.
#[derive(Clone, Debug)]
pub(crate) struct Move {
    /// Previous clusters.
    pub(crate) from: Vec<Share>,
    /// New decision.
    pub(crate) to: Decision,
    /// True if the previous decision about the binding succeeded or was never made.
    was_schedulable: bool,
}

impl Move {
    /// Creates a move. `was_schedulable` is true if the previous decision succeeded or was never made.
    pub(crate) fn new(from: Vec<Share>, was_schedulable: bool, to: Decision) -> Self {
        Self {
            from,
            to,
            was_schedulable,
        }
    }

    /// Creates a move from the binding before the change. `old` is `None` for a new binding.
    pub(crate) fn from_binding(old: Option<&Arc<Binding>>, to: Decision) -> Self {
        let from = old.map(|old| shares(&old.spec)).unwrap_or_default();
        let was_schedulable = old.is_none_or(|old| !has_failed(&old.status));
        Self::new(from, was_schedulable, to)
    }

    /// Removes the clusters that are lost between two states from the new clusters. After a failed decision a binding
    /// keeps its clusters, but a lost cluster runs nothing.
    pub(crate) fn without_lost(mut self, before: &Clusters, after: &Clusters) -> Self {
        let is_deleting = |clusters: &Clusters, name: &str| {
            let cluster = clusters.get(name);
            cluster.is_some_and(|cluster| cluster.metadata.deletion_timestamp.is_some())
        };
        self.to
            .clusters
            .retain(|Share { name, .. }| is_deleting(before, name) || !is_deleting(after, name));
        self
    }

    /// Reports whether the binding was schedulable and the new decision failed.
    pub(crate) fn becomes_unschedulable(&self) -> bool {
        self.to.failure.is_some() && self.was_schedulable
    }

    /// Reports whether the clusters or replicas change.
    pub(crate) fn is_moved(&self) -> bool {
        self.from != self.to.clusters
    }

    /// Reports whether the binding moves or becomes unschedulable.
    pub(crate) fn has_changed(&self) -> bool {
        self.becomes_unschedulable() || self.is_moved()
    }
}

/// The bindings that change, and the number of all bindings.
#[derive(Clone, Debug, Default)]
pub(crate) struct Moves {
    /// Bindings that move or become unschedulable.
    pub(crate) moves: Vec<Move>,
    /// Number of all bindings, changed or unchanged.
    pub(crate) examined: usize,
}

impl Moves {
    /// Counts a binding, and stores the move if the binding changes.
    pub(crate) fn add(&mut self, candidate: Move) {
        self.examined += 1;
        if candidate.has_changed() {
            self.moves.push(candidate);
        }
    }

    /// Replaces the stored moves of the bindings in `candidates`. The bindings are already counted.
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

    /// Returns `N bindings looked at, M would move, K would become unschedulable`. The K bindings are not part of M.
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
