//! Clusters that passed the filters, with the numbers for selection and assignment.

use std::cmp::Ordering;

/// A cluster that passed the filters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The ordinal in the snapshot: the rank by name.
    pub ordinal: usize,
    /// 0 for the primary clusters of an affinity term, k for its k-th overflow group.
    pub tier: u32,
    /// The sum of the scores.
    pub score: i64,
    /// The replicas (or component sets) for which the cluster has capacity.
    pub allocatable: i64,
    /// The replicas that the cluster holds.
    pub assigned: i64,
}

impl Candidate {
    /// Returns the capacity plus the held replicas.
    pub fn available(&self) -> i64 {
        self.allocatable.saturating_add(self.assigned)
    }

    /// Compares by preference: tier, then score, then availability, then name.
    pub fn preference(&self, other: &Self) -> Ordering {
        self.tier
            .cmp(&other.tier)
            .then_with(|| other.score.cmp(&self.score))
            .then_with(|| other.available().cmp(&self.available()))
            .then_with(|| self.ordinal.cmp(&other.ordinal))
    }
}
