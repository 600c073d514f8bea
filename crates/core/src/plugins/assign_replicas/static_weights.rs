//! Assignment by fixed weights, independent of capacity and previous shares.

use super::{AssignInput, Party, divide_by_name};
use crate::{Candidate, DivisionOperation, Share, WeightBasis};

/// Divides replicas by the greatest matching weight of each cluster. Clusters without a weight get no
/// replicas. If no cluster has a weight, all weights are equal.
pub(super) fn assign(
    context: &AssignInput<'_>,
    selected: &[Candidate],
    replicas: i64,
) -> Vec<Share> {
    let weight = |ordinal: usize| {
        let matching = context
            .static_weights
            .iter()
            .filter(|(clusters, _)| clusters.contains(ordinal));
        matching.map(|(_, weight)| *weight).max().unwrap_or(0)
    };
    let mut parties: Vec<Party> = selected
        .iter()
        .map(|candidate| Party {
            ordinal: candidate.ordinal,
            votes: weight(candidate.ordinal),
        })
        .filter(|party| party.votes > 0)
        .collect();
    let mut weights = WeightBasis::Rules;
    if parties.is_empty() {
        weights = WeightBasis::Equal;
        parties.extend(selected.iter().map(|candidate| Party {
            ordinal: candidate.ordinal,
            votes: 1,
        }));
    }
    divide_by_name(
        context,
        replicas,
        parties,
        (DivisionOperation::DivideAll, weights),
    )
}
