//! Compiled limits on the replicas of clusters, from the annotation `scheduling.berth/replica-limits`.

use berth_api::Binding;
use berth_api::go_json::placement_json;
use berth_api::replica_limits::{Amount, InvalidLimits, ReplicaFit, ReplicaLimits, ReplicaSpread};
use berth_api::well_known::{APPLIED_PLACEMENT, APPLIED_REPLICA_LIMITS, REPLICA_LIMITS};

use crate::candidate::Candidate;
use crate::fleet::{CompiledAffinity, Snapshot};

/// The limits of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompiledLimits {
    clusters: Vec<Entry>,
    spread: ReplicaSpread,
    fit: ReplicaFit,
    rules: RulesChange,
}

/// Reports whether the placement or the limits of a binding changed after the last decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RulesChange {
    /// Both are the same as in the last decision. Static weights then move no running replicas.
    Unchanged,
    /// The next decision is the first with this placement and these limits. Static weights divide all replicas again.
    Changed,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    clusters: CompiledAffinity,
    min: Option<Amount>,
    max: Option<Amount>,
}

/// The limits of one cluster, in replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplicaBounds {
    /// The ordinal of the cluster.
    pub ordinal: usize,
    /// The minimum number of replicas. 0 if the cluster has no minimum.
    pub min: i64,
    /// The maximum number of replicas, or `None` if the cluster has no maximum.
    pub max: Option<i64>,
    /// The number of further replicas that fit into the cluster without a maximum. The selection sees a lower capacity:
    /// [`Candidate::allocatable`] does not exceed the maximum.
    pub free: i64,
}

impl CompiledLimits {
    /// Compiles the annotation of a binding. Returns `None` if the binding has no such annotation.
    pub(super) fn of(binding: &Binding) -> Result<Option<Self>, InvalidLimits> {
        let text = binding.annotation(REPLICA_LIMITS);
        if text.is_empty() {
            return Ok(None);
        }
        let limits = ReplicaLimits::parse(text)?;
        let clusters = limits.clusters.iter().map(|entry| Entry {
            clusters: CompiledAffinity::new(&entry.affinity()),
            min: entry.min,
            max: entry.max,
        });
        let placement = binding.spec.placement.as_ref();
        let is_applied = binding.annotation(APPLIED_REPLICA_LIMITS) == text
            && placement.is_some_and(|placement| {
                placement_json(placement)
                    .is_ok_and(|json| binding.annotation(APPLIED_PLACEMENT) == json)
            });
        Ok(Some(Self {
            clusters: clusters.collect(),
            spread: limits.spread,
            fit: limits.fit,
            rules: if is_applied {
                RulesChange::Unchanged
            } else {
                RulesChange::Changed
            },
        }))
    }

    /// Returns the distribution of the replicas between the limits.
    pub fn spread(&self) -> ReplicaSpread {
        self.spread
    }

    /// Returns the treatment of replicas for which no cluster has room.
    pub fn fit(&self) -> ReplicaFit {
        self.fit
    }

    /// Reports whether the placement or the limits changed after the last decision.
    pub fn rules(&self) -> RulesChange {
        self.rules
    }

    /// Reports whether the limits depend on the capacity of clusters, whatever the strategy of the placement is.
    pub fn count_capacity(&self) -> bool {
        self.fit == ReplicaFit::BestEffort || self.spread == ReplicaSpread::Even
    }

    /// Returns the limits of each candidate for a workload with `replicas`, in the order of the candidates.
    pub(crate) fn bounds(
        &self,
        snapshot: &Snapshot,
        candidates: &[Candidate],
        replicas: i64,
    ) -> Vec<ReplicaBounds> {
        let mut bounds: Vec<ReplicaBounds> = candidates
            .iter()
            .map(|candidate| ReplicaBounds {
                ordinal: candidate.ordinal,
                min: 0,
                max: None,
                free: candidate.allocatable,
            })
            .collect();
        for entry in &self.clusters {
            let selected = entry.clusters.mask(&snapshot.topology);
            let (min, max) = (
                entry.min.map_or(0, |min| min.rounded_down(replicas)),
                entry.max.map(|max| max.rounded_up(replicas)),
            );
            let limited = bounds.iter_mut();
            for bound in limited.filter(|bound| selected.contains(bound.ordinal)) {
                bound.min = bound.min.max(min);
                bound.max = match (bound.max, max) {
                    (Some(one), Some(other)) => Some(one.min(other)),
                    (one, other) => one.or(other),
                };
            }
        }
        bounds
    }
}
