//! Assignment by the capacity of clusters: to all selected clusters, or to as few clusters as possible.

use std::cmp::Reverse;

use super::go_sort::go_sort;
use super::{AssignError, AssignInput, Operation, Party, divide_by_name};
use crate::{Bits, Candidate, DivisionOperation, Mode, Order, Share, WeightBasis};

/// The choice of the clusters to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spread {
    /// All selected clusters with capacity.
    All,
    /// As few clusters as possible that together have enough capacity.
    Fewest,
}

/// A cluster and its weight in the division.
#[derive(Clone, Copy, Debug)]
struct Weight {
    ordinal: usize,
    replicas: i64,
    /// True if the cluster has current replicas and keeps them.
    keeps_current: bool,
}

/// Assigns missing replicas or removes surplus replicas. In [`Mode::Fresh`], reassigns all replicas.
pub(super) fn assign(
    context: &AssignInput<'_>,
    selected: &mut [Candidate],
    replicas: i64,
    spread: Spread,
) -> Result<Vec<Share>, AssignError> {
    if context.mode() == Mode::Fresh {
        let weight = Candidate::available;
        return divide_by_capacity(
            context,
            selected,
            replicas,
            spread,
            Operation::FreshScale,
            weight,
        );
    }
    let mut current = current_of_selected(context.current, selected);
    if context.request.earlier().is_some() {
        remove_overgrown(&mut current, selected);
    }
    let current_replicas = sum(&current);
    if current_replicas > replicas {
        let mut weights: Vec<Weight> = current
            .iter()
            .map(|share| Weight {
                ordinal: share.ordinal,
                replicas: share.replicas,
                keeps_current: false,
            })
            .collect();
        if spread == Spread::Fewest {
            go_sort(&mut weights, |a, b| a.replicas > b.replicas);
            weights.truncate(prefix_len(&weights, replicas));
        }
        return Ok(divide_by_name(
            context,
            replicas,
            parties(&weights),
            (DivisionOperation::Shrink, WeightBasis::Held),
        ));
    }
    if current_replicas == replicas {
        if let Some(recorder) = context.recorder {
            recorder.undivided(DivisionOperation::Keep, replicas, &current);
        }
        return Ok(current);
    }
    let weight = |candidate: &Candidate| candidate.allocatable.max(0);
    let assigned = divide_by_capacity(
        context,
        selected,
        replicas - current_replicas,
        spread,
        Operation::ScaleUp,
        weight,
    )?;
    Ok(merge(assigned, &current))
}

fn sum(shares: &[Share]) -> i64 {
    let replicas = shares.iter().map(|share| share.replicas);
    replicas.fold(0, i64::saturating_add)
}

/// Removes the current replicas that no longer fit into their clusters, because their request grew. A negative
/// `allocatable` is the number of these replicas.
fn remove_overgrown(current: &mut Vec<Share>, selected: &[Candidate]) {
    for share in current.iter_mut() {
        let mut candidates = selected.iter();
        let candidate = candidates.find(|candidate| candidate.ordinal == share.ordinal);
        let overgrown = candidate.map_or(0, |candidate| candidate.allocatable.min(0));
        share.replicas = share.replicas.saturating_add(overgrown).max(0);
    }
    current.retain(|share| share.replicas > 0);
}

/// Returns the current replicas of the selected clusters, in the order of the binding.
fn current_of_selected(current: &[Share], selected: &[Candidate]) -> Vec<Share> {
    if current.is_empty() {
        return Vec::new();
    }
    let clusters = selected
        .iter()
        .map(|candidate| candidate.ordinal + 1)
        .max()
        .unwrap_or(0);
    let mut is_selected = Bits::none(clusters);
    for candidate in selected {
        is_selected.insert(candidate.ordinal);
    }
    current
        .iter()
        .filter(|share| is_selected.contains(share.ordinal))
        .copied()
        .collect()
}

/// Divides `replicas` among the selected clusters by weight.
fn divide_by_capacity(
    context: &AssignInput<'_>,
    selected: &mut [Candidate],
    replicas: i64,
    spread: Spread,
    operation: Operation,
    weight: impl Fn(&Candidate) -> i64,
) -> Result<Vec<Share>, AssignError> {
    let keeps_current = operation == Operation::ScaleUp;
    let kind = match operation {
        Operation::FreshScale => (DivisionOperation::DivideAll, WeightBasis::Available),
        Operation::ScaleUp => (DivisionOperation::Add, WeightBasis::Free),
    };
    let available = selected.iter().fold(0_i64, |sum, candidate| {
        sum.saturating_add(weight(candidate))
    });
    if available < replicas {
        return Err(AssignError::InsufficientReplicas {
            operation,
            available,
        });
    }
    if spread == Spread::All {
        let parties = selected.iter().map(|candidate| Party {
            ordinal: candidate.ordinal,
            votes: weight(candidate),
        });
        return Ok(divide_by_name(context, replicas, parties.collect(), kind));
    }
    let weighed = |candidates: &[Candidate]| -> Vec<Weight> {
        candidates
            .iter()
            .map(|candidate| Weight {
                ordinal: candidate.ordinal,
                replicas: weight(candidate),
                keeps_current: keeps_current && candidate.assigned > 0,
            })
            .collect()
    };
    let prefix = fewest_unless_tied(weighed(selected), replicas).unwrap_or_else(|| {
        // Some clusters are equal. The order of the input decides which of them are used.
        if context.order == Order::ByName {
            selected.sort_unstable_by(Candidate::preference);
        }
        let mut weights = weighed(selected);
        go_sort(&mut weights, |a, b| a.replicas > b.replicas);
        weights.sort_by_key(|weight| Reverse(weight.keeps_current));
        weights.truncate(prefix_len(&weights, replicas));
        weights
    });
    Ok(divide_by_name(context, replicas, parties(&prefix), kind))
}

/// Sorts the clusters, and returns the shortest prefix with capacity for `replicas`. Clusters that keep current
/// replicas come first, then clusters with a larger weight. Returns `None` if a cluster outside the result is equal to
/// the last cluster in the result.
fn fewest_unless_tied(mut weights: Vec<Weight>, replicas: i64) -> Option<Vec<Weight>> {
    let key = |weight: &Weight| (Reverse(weight.keeps_current), Reverse(weight.replicas));
    let mut sorted = 0;
    let mut sum = 0_i64;
    // Few clusters are usually enough. Therefore sort only the head of the list, and extend the head while the capacity
    // is too small.
    let mut head = 16;
    while sum < replicas && sorted < weights.len() {
        let rest = &mut weights[sorted..];
        let len = head.min(rest.len());
        if len < rest.len() {
            rest.select_nth_unstable_by_key(len, key);
        }
        rest[..len].sort_unstable_by_key(key);
        for weight in &rest[..len] {
            sorted += 1;
            sum = sum.saturating_add(weight.replicas);
            if sum >= replicas {
                break;
            }
        }
        head *= 4;
    }
    let last = weights.get(sorted.checked_sub(1)?).map(key)?;
    if weights[sorted..].iter().any(|weight| key(weight) == last) {
        return None;
    }
    weights.truncate(sorted);
    Some(weights)
}

/// Returns the length of the shortest prefix with capacity for `replicas`.
fn prefix_len(weights: &[Weight], replicas: i64) -> usize {
    let mut sum = 0_i64;
    for (index, weight) in weights.iter().enumerate() {
        sum = sum.saturating_add(weight.replicas);
        if sum >= replicas {
            return index + 1;
        }
    }
    weights.len()
}

fn parties(weights: &[Weight]) -> Vec<Party> {
    weights
        .iter()
        .map(|weight| Party {
            ordinal: weight.ordinal,
            votes: weight.replicas,
        })
        .collect()
}

/// Adds the current replicas to the assigned replicas. Clusters that are missing in `assigned` come last, in the order
/// of `current`.
fn merge(mut assigned: Vec<Share>, current: &[Share]) -> Vec<Share> {
    let by_name = assigned.len();
    for share in current {
        match assigned[..by_name].binary_search_by_key(&share.ordinal, |assigned| assigned.ordinal)
        {
            Ok(index) => assigned[index].replicas += share.replicas,
            Err(_) => assigned.push(*share),
        }
    }
    assigned
}
