//! Assignment by static weights. The result is independent of the capacity of clusters and of current replicas.

use super::{AssignError, AssignInput, Operation, Party, divide, divide_by_name};
use crate::{Candidate, DivisionOperation, Share, WeightBasis};

/// Divides replicas by weight. The weight of a cluster is the greatest weight of the rules that match the cluster.
/// Clusters without a positive weight get no replicas. If no cluster has a positive weight, all clusters have equal
/// weights. A cluster that may not grow keeps at most its current replicas.
pub(super) fn assign(
    context: &AssignInput<'_>,
    selected: &[Candidate],
    replicas: i64,
) -> Result<Vec<Share>, AssignError> {
    let mut parties = weighed(context, selected);
    let mut weights = WeightBasis::Rules;
    if parties.is_empty() {
        weights = WeightBasis::Equal;
        parties.extend(selected.iter().map(|candidate| Party {
            ordinal: candidate.ordinal,
            votes: 1,
        }));
    }
    let kept = keep_closed(context, replicas, &mut parties)?;
    if let Some(recorder) = context.recorder.filter(|_| !kept.is_empty()) {
        let sum = kept.iter().map(|share| share.replicas).sum();
        recorder.undivided(DivisionOperation::Keep, sum, &kept);
    }
    let left = kept
        .iter()
        .fold(replicas, |left, share| left - share.replicas);
    let mut shares = divide_by_name(
        context,
        left,
        parties,
        (DivisionOperation::DivideAll, weights),
    );
    shares.extend(kept);
    Ok(shares)
}

/// Returns the clusters with a positive weight.
pub(super) fn weighed(context: &AssignInput<'_>, selected: &[Candidate]) -> Vec<Party> {
    let weight = |ordinal: usize| {
        let matching = context
            .static_weights
            .iter()
            .filter(|(clusters, _)| clusters.contains(ordinal));
        matching.map(|(_, weight)| *weight).max().unwrap_or(0)
    };
    let parties = selected.iter().map(|candidate| Party {
        ordinal: candidate.ordinal,
        votes: weight(candidate.ordinal),
    });
    parties.filter(|party| party.votes > 0).collect()
}

/// Removes the clusters from `parties` that may not grow and whose weights ask for more than their current replicas.
/// Returns their shares.
fn keep_closed(
    context: &AssignInput<'_>,
    replicas: i64,
    parties: &mut Vec<Party>,
) -> Result<Vec<Share>, AssignError> {
    let mut kept = Vec::new();
    let is_open = |party: &Party| context.context.may_grow(party.ordinal);
    if parties.iter().all(is_open) {
        return Ok(kept);
    }
    let mut left = replicas;
    loop {
        let before = kept.len();
        let mut given = divide(left, parties, context.ties()).into_iter();
        parties.retain(|party| {
            let current = context.current_of(party.ordinal);
            let given = given.next().unwrap_or(0);
            if is_open(party) || given <= current {
                return true;
            }
            kept.push(Share {
                ordinal: party.ordinal,
                replicas: current,
            });
            left -= current;
            false
        });
        if parties.is_empty() && left > 0 {
            return Err(AssignError::InsufficientReplicas {
                operation: Operation::ScaleUp,
                available: replicas - left,
            });
        }
        if kept.len() == before {
            return Ok(kept);
        }
    }
}
