//! The minimum number of groups of each spread constraint, after the division (feature gate MinGroupsInDivision).
//!
//! The selection chooses enough groups, but the division may give all replicas to some of them. This step then moves
//! single replicas to the other selected groups.

use std::cmp::Reverse;

use super::super::select_clusters::{applied_constraints, covered_groups};
use super::{AssignError, AssignInput, static_weights};
use crate::{Candidate, CompiledLimits, Constraint, DivisionOperation, Share, SpreadBy, Strategy};

/// Moves replicas until the shares cover the minimum number of groups of each constraint. A workload with fewer replicas
/// than groups covers one group with each replica.
pub(super) fn cover(
    context: &AssignInput<'_>,
    selected: &[Candidate],
    shares: &mut Vec<Share>,
) -> Result<(), AssignError> {
    let placement = context.request.placement();
    if placement.duplicates() || placement.constraints().is_empty() {
        return Ok(());
    }
    let mut constraints = applied_constraints(placement, context.gates);
    constraints.retain(|constraint| constraint.min() > 1);
    let division = Division {
        context,
        constraints,
        replicas: shares
            .iter()
            .fold(0, |sum: i64, share| sum.saturating_add(share.replicas)),
    };
    if division
        .constraints
        .iter()
        .all(|it| division.holds(it, shares))
    {
        return Ok(());
    }
    let targets = division.targets(selected);
    for constraint in &division.constraints {
        while !division.holds(constraint, shares) {
            let Some(moved) = division.move_one(constraint, &targets, shares) else {
                return Err(AssignError::TooFewGroups {
                    groups: groups(constraint.by()),
                    min: constraint.min(),
                    covered: division.covered(constraint, shares),
                });
            };
            *shares = moved;
        }
    }
    if let Some(recorder) = context.recorder {
        recorder.undivided(DivisionOperation::Spread, division.replicas, shares);
    }
    Ok(())
}

/// A division and its constraints.
struct Division<'a> {
    context: &'a AssignInput<'a>,
    /// The constraints with a minimum number of groups.
    constraints: Vec<&'a Constraint>,
    replicas: i64,
}

impl Division<'_> {
    fn covered(&self, constraint: &Constraint, shares: &[Share]) -> usize {
        let snapshot = self.context.context.binding().snapshot();
        let clusters = shares.iter().map(|share| share.ordinal);
        covered_groups(snapshot, constraint.by(), clusters).len()
    }

    /// Reports whether the shares cover the minimum number of groups, or as many groups as there are replicas.
    fn holds(&self, constraint: &Constraint, shares: &[Share]) -> bool {
        let replicas = usize::try_from(self.replicas).unwrap_or(0);
        self.covered(constraint, shares) >= constraint.min().min(replicas)
    }

    /// Returns the selected clusters that may get replicas and the maximum share of each, the preferred cluster first.
    fn targets(&self, selected: &[Candidate]) -> Vec<(usize, i64)> {
        let mut selected = selected.to_vec();
        selected.sort_unstable_by(Candidate::preference);
        let by_weights = matches!(
            self.context.request.placement().strategy(),
            Strategy::StaticWeights(_)
        );
        let weighed = if by_weights {
            static_weights::weighed(self.context, &selected)
        } else {
            Vec::new()
        };
        let takes_part = |candidate: &Candidate| {
            weighed.is_empty() || weighed.iter().any(|it| it.ordinal == candidate.ordinal)
        };
        let limits = self.context.request.limits();
        let counts_capacity = !by_weights || limits.is_some_and(CompiledLimits::count_capacity);
        let room = |candidate: &Candidate| {
            if counts_capacity {
                candidate.available()
            } else if self.context.context.may_grow(candidate.ordinal) {
                self.replicas
            } else {
                candidate.assigned
            }
        };
        let limit = |candidate: &Candidate| {
            let max = self.context.context.maximum(candidate.ordinal);
            room(candidate).min(max.unwrap_or(i64::MAX))
        };
        let targets = selected.iter().filter(|candidate| takes_part(candidate));
        targets
            .map(|candidate| (candidate.ordinal, limit(candidate)))
            .filter(|(_, limit)| *limit > 0)
            .collect()
    }

    /// Returns the shares after one replica moved to a group of the constraint that had no replicas. Each other
    /// constraint keeps the groups that it needs. New replicas move before running replicas, and larger shares lose
    /// replicas first.
    fn move_one(
        &self,
        constraint: &Constraint,
        targets: &[(usize, i64)],
        shares: &[Share],
    ) -> Option<Vec<Share>> {
        let covered = self.covered(constraint, shares);
        let above_minimum =
            |share: &Share| share.replicas > self.context.context.minimum(share.ordinal);
        let mut donors: Vec<usize> = (0..shares.len())
            .filter(|&index| above_minimum(&shares[index]))
            .collect();
        donors.sort_by_key(|&index| {
            let Share { ordinal, replicas } = shares[index];
            let is_new = replicas > self.context.current_of(ordinal);
            Reverse((is_new, replicas))
        });
        let empty = |cluster: usize| !shares.iter().any(|share| share.ordinal == cluster);
        let targets = targets.iter().filter(|(cluster, _)| empty(*cluster));
        targets
            .flat_map(|(target, _)| donors.iter().map(move |donor| (*target, *donor)))
            .map(|(target, donor)| {
                let mut moved = shares.to_vec();
                moved[donor].replicas -= 1;
                moved.push(Share {
                    ordinal: target,
                    replicas: 1,
                });
                moved.retain(|share| share.replicas > 0);
                moved
            })
            .find(|moved| {
                let keeps =
                    |other: &&Constraint| !self.holds(other, shares) || self.holds(other, moved);
                self.covered(constraint, moved) > covered && self.constraints.iter().all(keeps)
            })
    }
}

/// Returns the plural noun for the groups of a constraint.
fn groups(by: &SpreadBy) -> &'static str {
    match by {
        SpreadBy::Cluster => "clusters",
        SpreadBy::Region => "regions",
        SpreadBy::Zone => "zones",
        SpreadBy::Provider => "providers",
        SpreadBy::Label(_) | SpreadBy::Unknown => "label values",
    }
}
