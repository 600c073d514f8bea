//! Selection by the `cluster` constraint: a bounded number of the most preferred clusters, with enough capacity in
//! total.

use super::{SelectContext, SelectError};
use crate::Candidate;
use crate::{Constraint, SpreadBy};

/// Selects clusters by the `cluster` constraint.
pub(super) fn select(
    context: &SelectContext<'_>,
    candidates: Vec<Candidate>,
) -> Result<Vec<Candidate>, SelectError> {
    let constraint = context.placement.constraint(&SpreadBy::Cluster);
    let min = constraint.map_or(0, Constraint::min);
    let max = constraint.and_then(Constraint::max);
    most_preferred(candidates, min, max, context.required_capacity)
}

/// Returns `min` to `max` clusters with a total capacity of at least `required_capacity`.
///
/// Starts with the most preferred clusters. While their total capacity is too small, replaces one selected cluster at a
/// time by the largest of the other clusters. The least preferred selected cluster is replaced first.
pub(super) fn most_preferred(
    mut candidates: Vec<Candidate>,
    min: usize,
    max: Option<usize>,
    required_capacity: Option<i64>,
) -> Result<Vec<Candidate>, SelectError> {
    if candidates.len() < min {
        return Err(SelectError::TooFewClusters);
    }
    let count = max.map_or(candidates.len(), |max| max.min(candidates.len()));
    let enough = |selected: &[Candidate]| {
        required_capacity.is_none_or(|required_capacity| {
            let capacity = selected.iter().fold(0_i64, |sum, candidate| {
                sum.saturating_add(candidate.available())
            });
            capacity >= required_capacity
        })
    };
    // If the `count` most preferred clusters have enough capacity, the other clusters need no sorting.
    if count < candidates.len() {
        if count > 0 {
            candidates.select_nth_unstable_by(count - 1, Candidate::preference);
        }
        if enough(&candidates[..count]) {
            candidates.truncate(count);
            candidates.sort_unstable_by(Candidate::preference);
            return Ok(candidates);
        }
    }
    candidates.sort_unstable_by(Candidate::preference);
    let (selected, others) = candidates.split_at_mut(count);
    for index in (0..count).rev() {
        if enough(selected) {
            break;
        }
        let largest = others.iter_mut().reduce(|best, other| {
            if other.available() > best.available() {
                other
            } else {
                best
            }
        });
        if let Some(other) = largest.filter(|other| other.available() > selected[index].available())
        {
            std::mem::swap(&mut selected[index], other);
        }
    }
    if count > 0 && enough(selected) {
        candidates.truncate(count);
        Ok(candidates)
    } else {
        Err(SelectError::InsufficientCapacity(count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidates(available: &[i64]) -> Vec<Candidate> {
        available
            .iter()
            .enumerate()
            .map(|(ordinal, &allocatable)| Candidate {
                ordinal,
                tier: 0,
                // The first cluster is preferred for its score, although its capacity is small.
                score: if ordinal == 0 { 100 } else { 0 },
                allocatable,
                assigned: 0,
            })
            .collect()
    }

    #[test]
    fn clusters_are_replaced_until_capacity_suffices() {
        for (available, min, max, required_capacity, expected) in [
            (&[1, 5, 9, 7][..], 1, Some(2), None, Ok(vec![0, 2])),
            (&[1, 5, 9, 7], 1, Some(2), Some(10), Ok(vec![0, 2])),
            (&[1, 5, 9, 7], 1, Some(2), Some(16), Ok(vec![3, 2])),
            (
                &[1, 5, 9, 7],
                1,
                Some(2),
                Some(17),
                Err(SelectError::InsufficientCapacity(2)),
            ),
            (&[1, 5, 9, 7], 1, None, Some(22), Ok(vec![0, 2, 3, 1])),
            (&[1, 5], 3, Some(3), None, Err(SelectError::TooFewClusters)),
            (&[1, 5], 1, Some(9), Some(6), Ok(vec![0, 1])),
        ] {
            let selected = most_preferred(candidates(available), min, max, required_capacity)
                .map(|selected| selected.iter().map(|c| c.ordinal).collect::<Vec<_>>());
            match (&selected, &expected) {
                (Ok(found), Ok(wanted)) => {
                    let (mut found, mut wanted) = (found.clone(), wanted.clone());
                    found.sort_unstable();
                    wanted.sort_unstable();
                    assert_eq!(
                        found, wanted,
                        "{available:?} required_capacity {required_capacity:?}"
                    );
                }
                _ => assert_eq!(
                    selected, expected,
                    "{available:?} required_capacity {required_capacity:?}"
                ),
            }
        }
    }
}
