//! Assignment by static weights. The result is independent of the capacity of clusters and of current replicas.

use super::{AssignInput, Party, divide_by_name};
use crate::{Candidate, DivisionOperation, Share, WeightBasis};

/// Divides replicas by weight. The weight of a cluster is the greatest weight of the rules that match the cluster.
/// Clusters without a positive weight get no replicas. If no cluster has a positive weight, all clusters have equal
/// weights.
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
