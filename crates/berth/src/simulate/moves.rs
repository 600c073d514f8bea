//! What moves: a decision beside what was before.

use super::decide::{Decision, Share};

/// A binding, before and after.
#[derive(Clone, Debug)]
pub(crate) struct Move {
    /// Where it was.
    pub(crate) from: Vec<Share>,
    /// What becomes of it.
    pub(crate) to: Decision,
    /// Whether it found a place before.
    was_schedulable: bool,
}

impl Move {
    /// `was_schedulable` says whether the earlier decision succeeded, or was never made.
    pub(crate) fn new(from: Vec<Share>, was_schedulable: bool, to: Decision) -> Self {
        Self {
            from,
            to,
            was_schedulable,
        }
    }

    /// Whether it finds no place now, and that is new.
    pub(crate) fn becomes_unschedulable(&self) -> bool {
        self.to.failure.is_some() && self.was_schedulable
    }

    /// Whether it goes elsewhere, or gets other replicas.
    pub(crate) fn goes_elsewhere(&self) -> bool {
        self.from != self.to.clusters
    }

    /// Whether there is something to tell.
    pub(crate) fn is_one(&self) -> bool {
        self.becomes_unschedulable() || self.goes_elsewhere()
    }
}

/// What moves, and out of how many.
#[derive(Clone, Debug, Default)]
pub(crate) struct Moves {
    /// Those that move.
    pub(crate) moves: Vec<Move>,
    /// How many bindings there are.
    pub(crate) looked_at: usize,
}

impl Moves {
    /// Counts a binding in, and keeps it if it moves.
    pub(crate) fn look_at(&mut self, candidate: Move) {
        self.looked_at += 1;
        if candidate.is_one() {
            self.moves.push(candidate);
        }
    }

    /// How many become unschedulable.
    pub(crate) fn unschedulable(&self) -> usize {
        let moves = self.moves.iter();
        moves.filter(|one| one.becomes_unschedulable()).count()
    }

    /// `N bindings looked at, M would move, K would become unschedulable`: each binding counts once.
    pub(crate) fn summary(&self) -> String {
        let unschedulable = self.unschedulable();
        let bindings = match self.looked_at {
            1 => "1 binding".to_owned(),
            several => format!("{several} bindings"),
        };
        format!(
            "{bindings} looked at, {} would move, {unschedulable} would become unschedulable",
            self.moves.len() - unschedulable
        )
    }
}
