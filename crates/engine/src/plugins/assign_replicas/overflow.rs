//! Assignment by tiers: each tier takes the replicas that do not fit into the preceding tiers. The first tier contains
//! the primary clusters of an affinity term, and each further tier contains one of its overflow groups.

use std::collections::BTreeMap;

use super::{AssignError, AssignInput, by_strategy};
use crate::{Candidate, Share};

/// Fills the tiers in order. When a workload shrinks, the last tiers lose their replicas first.
pub(super) fn assign_by_tier(
    context: &AssignInput<'_>,
    selected: &[Candidate],
) -> Result<Vec<Share>, AssignError> {
    let mut tiers: BTreeMap<u32, Vec<Candidate>> = BTreeMap::new();
    for candidate in selected {
        tiers.entry(candidate.tier).or_default().push(*candidate);
    }
    let mut left = context.request.replicas();
    let mut shares = Vec::new();
    for (tier, clusters) in &mut tiers {
        if let Some(recorder) = context.recorder {
            recorder.begin_tier(*tier);
        }
        let capacity = clusters.iter().fold(0_i64, |sum, candidate| {
            sum.saturating_add(candidate.available())
        });
        let taken = left.min(capacity);
        shares.extend(by_strategy(context, clusters, taken)?);
        left -= taken;
        if left <= 0 {
            break;
        }
    }
    if left > 0 {
        return Err(AssignError::TiersExhausted);
    }
    Ok(shares)
}
