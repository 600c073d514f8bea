//! A cluster that passed the filters, with the numbers by which later steps select clusters and assign replicas.

use std::cmp::Ordering;

/// A cluster that passed all filters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The ordinal: the index of the cluster in the snapshot, which sorts clusters by name.
    pub ordinal: usize,
    /// The tier of the cluster in the affinity term. The primary clusters of the term have tier 0. The clusters of its
    /// k-th overflow group have tier k.
    pub tier: u32,
    /// The sum of the weighted scores of all plugins.
    pub score: i64,
    /// The number of further replicas (or component sets) that fit into the cluster. Negative if the current replicas
    /// exceed the capacity of the cluster.
    pub allocatable: i64,
    /// The current replicas: the replicas that `spec.clusters` of the binding already assigns to the cluster.
    pub assigned: i64,
}

impl Candidate {
    /// Returns the number of replicas that the cluster can have in total: the further replicas that fit, plus the
    /// current replicas.
    pub fn available(&self) -> i64 {
        self.allocatable.saturating_add(self.assigned)
    }

    /// Compares two candidates, the preferred candidate first. The lower tier is preferred, then the higher score, then
    /// the larger [`Self::available`], then the name that sorts first.
    pub fn preference(&self, other: &Self) -> Ordering {
        self.tier
            .cmp(&other.tier)
            .then_with(|| other.score.cmp(&self.score))
            .then_with(|| other.available().cmp(&self.available()))
            .then_with(|| self.ordinal.cmp(&other.ordinal))
    }
}
