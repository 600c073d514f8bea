//! The result of a prediction: the bindings that move, each with its previous clusters and the new decision.

use std::collections::BTreeSet;
use std::sync::Arc;

use berth_api::{Binding, BindingKey};

use super::decision::{Decision, Share, has_failed, shares};
use crate::control_plane_state::Clusters;

/// The previous clusters of a binding and the new decision about the binding.
#[derive(Clone, Debug)]
pub struct Move {
    /// Previous clusters.
    pub from: Vec<Share>,
    /// New decision.
    pub to: Decision,
    /// True if the previous decision about the binding succeeded or was never made.
    was_schedulable: bool,
}

impl Move {
    /// Creates a move. `was_schedulable` is true if the previous decision succeeded or was never made.
    pub fn new(from: Vec<Share>, was_schedulable: bool, to: Decision) -> Self {
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
    pub fn becomes_unschedulable(&self) -> bool {
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
pub struct Moves {
    /// Bindings that move or become unschedulable.
    pub moves: Vec<Move>,
    /// Number of all bindings, changed or unchanged.
    pub examined: usize,
    /// Number of moves that [`Self::truncate`] dropped.
    dropped: usize,
    /// Number of dropped moves that make a binding unschedulable.
    dropped_unschedulable: usize,
}

impl Moves {
    /// Counts a binding, and stores the move if the binding changes.
    pub fn add(&mut self, candidate: Move) {
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

    /// Drops all moves but the first `limit`. The dropped moves still count in the totals.
    pub fn truncate(&mut self, limit: usize) {
        let all = self.unschedulable();
        self.dropped += self.moves.len().saturating_sub(limit);
        self.moves.truncate(limit);
        self.dropped_unschedulable += all - self.unschedulable();
    }

    /// Returns the number of bindings that move or become unschedulable.
    pub fn changed(&self) -> usize {
        self.moves.len() + self.dropped
    }

    /// Returns the number of bindings that become unschedulable.
    pub fn unschedulable(&self) -> usize {
        let moves = self.moves.iter();
        let kept = moves.filter(|moved| moved.becomes_unschedulable());
        kept.count() + self.dropped_unschedulable
    }

    /// Returns `N bindings looked at, M would move, K would become unschedulable`. The K bindings are not part of M.
    /// `number` formats a number.
    pub fn summary(&self, number: impl Fn(usize) -> String) -> String {
        let unschedulable = self.unschedulable();
        let bindings = match self.examined {
            1 => "1 binding".to_owned(),
            several => format!("{} bindings", number(several)),
        };
        format!(
            "{bindings} looked at, {} would move, {} would become unschedulable",
            number(self.changed() - unschedulable),
            number(unschedulable)
        )
    }
}

#[cfg(test)]
mod tests {
    use berth_engine::Explanation;

    use super::super::decision::Failure;
    use super::*;

    fn moved(index: usize, failure: Option<Failure>) -> Move {
        let decision = Decision {
            key: BindingKey::new("", &format!("web-{index}")),
            replicas: Some(1),
            affinity: None,
            clusters: Vec::new(),
            failure,
            rejections: None,
            explanation: Explanation::default(),
            warnings: Vec::new(),
            tie: None,
        };
        let share = Share {
            name: "m1".to_owned(),
            replicas: 1,
        };
        Move::new(vec![share], true, decision)
    }

    #[test]
    fn dropped_moves_count_in_the_totals() {
        let mut moves = Moves::default();
        for index in 0..5 {
            let failure = Failure {
                kind: "NoClusterFit",
                message: String::new(),
            };
            moves.add(moved(index, (index >= 3).then_some(failure)));
        }
        let summary = |moves: &Moves| moves.summary(|number| number.to_string());
        let of_all = summary(&moves);
        for limit in [6, 4, 2] {
            moves.truncate(limit);
            assert_eq!(moves.moves.len(), limit.min(5));
            assert_eq!((moves.changed(), moves.unschedulable()), (5, 2));
            assert_eq!(summary(&moves), of_all);
        }
    }
}
