//! Assignment by tiers: each tier takes the replicas that do not fit into the preceding tiers. The first tier contains
//! the primary clusters of an affinity term, and each further tier contains one of its overflow groups.

use std::collections::BTreeMap;

use berth_api::replica_limits::ReplicaFit;

use super::{AssignError, AssignInput, by_strategy, limited};
use crate::{Candidate, Share};

/// Fills the tiers in order. When a workload shrinks, the last tiers lose their replicas first. A tier leaves the
/// minimums of the later tiers.
pub(super) fn assign_by_tier(
    context: &AssignInput<'_>,
    selected: &[Candidate],
) -> Result<Vec<Share>, AssignError> {
    let mut tiers: BTreeMap<u32, Vec<Candidate>> = BTreeMap::new();
    for candidate in selected {
        tiers.entry(candidate.tier).or_default().push(*candidate);
    }
    let limits = context.request.limits();
    let mut left = context.request.replicas();
    let mut reserved = limits.map_or(0, |_| limited::minimums(context, selected));
    let mut shares = Vec::new();
    for (tier, clusters) in &mut tiers {
        if let Some(recorder) = context.recorder {
            recorder.begin_tier(*tier);
        }
        let capacity = clusters.iter().fold(0_i64, |sum, candidate| {
            sum.saturating_add(candidate.available())
        });
        let minimums = limits.map_or(0, |_| limited::minimums(context, clusters));
        reserved -= minimums;
        let taken = (left - reserved).min(capacity).max(minimums);
        let assigned = by_strategy(context, clusters, taken)?;
        let placed = assigned.iter().fold(0, |sum, share| sum + share.replicas);
        shares.extend(assigned);
        // Without limits, a strategy assigns all replicas, or fails.
        left -= if limits.is_some() { placed } else { taken };
        if left <= 0 {
            break;
        }
    }
    let must_fit = limits.is_none_or(|limits| limits.fit() == ReplicaFit::All);
    if left > 0 && (must_fit || shares.is_empty()) {
        return Err(AssignError::TiersExhausted);
    }
    Ok(shares)
}
