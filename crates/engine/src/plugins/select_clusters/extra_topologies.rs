//! Selection by constraints over zones, providers and label values. Karmada ignores such constraints.
//!
//! All clusters with the same zone, provider or label value form a group. The selection has three steps:
//!
//! 1. For each constraint, keep only the clusters of the best groups. The number of groups is as small as the capacity
//!    allows.
//! 2. Select among the kept clusters by the `region` or `cluster` constraint.
//! 3. Add or replace selected clusters until they cover the minimum number of groups of each constraint.

use std::collections::{BTreeMap, BTreeSet};

use super::group_score::group_score;
use super::{SelectContext, SelectError, cluster, region};
use crate::Candidate;
use crate::ClusterView;
use crate::{CompiledPlacement, Constraint, SpreadBy};

/// Selects clusters by all spread constraints of the placement.
pub(super) fn select(
    context: &SelectContext<'_>,
    mut candidates: Vec<Candidate>,
) -> Result<Vec<Candidate>, SelectError> {
    candidates.sort_unstable_by(Candidate::preference);
    let by_others = other_constraints(context);
    for constraint in &by_others {
        keep_best_groups(context, constraint, &mut candidates)?;
    }
    let selected = if context.placement.constraint(&SpreadBy::Region).is_some() {
        region::select(context, candidates.clone())?
    } else if let Some(by_cluster) = context.placement.constraint(&SpreadBy::Cluster) {
        cluster::most_preferred(
            candidates.clone(),
            by_cluster.min(),
            by_cluster.max(),
            context.required_capacity,
        )?
    } else {
        return Ok(candidates);
    };
    represent_groups(context, &by_others, selected, &candidates)
}

/// Returns the constraints by zone, provider and label.
pub(super) fn other_constraints<'a>(context: &SelectContext<'a>) -> Vec<&'a Constraint> {
    distinct(context.placement)
        .into_iter()
        .filter(|constraint| {
            !matches!(
                constraint.by(),
                SpreadBy::Cluster | SpreadBy::Region | SpreadBy::Unknown
            )
        })
        .collect()
}

/// Returns the spread constraints of the placement. If several constraints have the same field, returns only the last
/// of these.
pub(super) fn distinct(placement: &CompiledPlacement) -> Vec<&Constraint> {
    let constraints = placement.constraints();
    let is_last = |index: usize, by: &SpreadBy| {
        !constraints[index + 1..]
            .iter()
            .any(|later| later.by() == by)
    };
    constraints
        .iter()
        .enumerate()
        .filter(|(index, constraint)| is_last(*index, constraint.by()))
        .map(|(_, constraint)| constraint)
        .collect()
}

/// Returns the names of the groups to which a cluster belongs.
pub(super) fn groups_of<'a>(cluster: &ClusterView<'a>, by: &SpreadBy) -> Vec<&'a str> {
    let one = |name: &'a str| {
        Some(name)
            .filter(|name| !name.is_empty())
            .into_iter()
            .collect()
    };
    match by {
        SpreadBy::Zone => cluster.zones().collect(),
        SpreadBy::Provider => one(cluster.provider()),
        SpreadBy::Region => one(cluster.region()),
        SpreadBy::Label(key) => cluster.label(key).into_iter().collect(),
        SpreadBy::Cluster | SpreadBy::Unknown => Vec::new(),
    }
}

/// Returns the names of the groups to which a candidate belongs.
pub(super) fn groups<'a>(
    context: &SelectContext<'a>,
    candidate: &Candidate,
    by: &SpreadBy,
) -> Vec<&'a str> {
    let cluster = context.snapshot.cluster(candidate.ordinal);
    cluster.map_or_else(Vec::new, |cluster| groups_of(&cluster, by))
}

/// Returns the groups that a constraint forms: the score, the name and the clusters of each group. The best group comes
/// first.
pub(super) fn ranked_groups<'a>(
    context: &SelectContext<'a>,
    constraint: &Constraint,
    candidates: &[Candidate],
) -> Vec<(i64, &'a str, Vec<Candidate>)> {
    let mut members: BTreeMap<&str, Vec<Candidate>> = BTreeMap::new();
    for candidate in candidates {
        for group in groups(context, candidate, constraint.by()) {
            members.entry(group).or_default().push(*candidate);
        }
    }
    let demand = region::group_demand(context, constraint.min().max(1));
    let mut ranked: Vec<(i64, &str, Vec<Candidate>)> = members
        .into_iter()
        .map(|(name, clusters)| (group_score(&clusters, demand), name, clusters))
        .collect();
    ranked.sort_unstable_by(|(a, left, _), (b, right, _)| b.cmp(a).then_with(|| left.cmp(right)));
    ranked
}

/// Keeps only the candidates in the best groups. The kept groups are the fewest that have enough capacity, but at least
/// the minimum number of the constraint. If even the maximum number of groups lacks capacity, keeps this number. A
/// cluster with several zones is kept only if all of its zones are kept.
pub(super) fn keep_best_groups(
    context: &SelectContext<'_>,
    constraint: &Constraint,
    candidates: &mut Vec<Candidate>,
) -> Result<(), SelectError> {
    let min = constraint.min().max(1);
    let ranked = ranked_groups(context, constraint, candidates);
    let max = constraint.max().unwrap_or(ranked.len()).min(ranked.len());
    let too_few = SelectError::TooFewGroups(match constraint.by() {
        SpreadBy::Zone => "zone",
        SpreadBy::Provider => "provider",
        SpreadBy::Region => "region",
        SpreadBy::Label(_) | SpreadBy::Cluster | SpreadBy::Unknown => "label value",
    });
    let mut kept: BTreeSet<&str> = BTreeSet::new();
    let mut fitting: Option<Vec<Candidate>> = None;
    for (_, name, _) in ranked.into_iter().take(max) {
        kept.insert(name);
        let in_kept_groups: Vec<Candidate> = candidates
            .iter()
            .filter(|candidate| {
                let groups = groups(context, candidate, constraint.by());
                !groups.is_empty() && groups.iter().all(|group| kept.contains(group))
            })
            .copied()
            .collect();
        let covered: BTreeSet<&str> = in_kept_groups
            .iter()
            .flat_map(|candidate| groups(context, candidate, constraint.by()))
            .collect();
        if covered.len() < min {
            continue;
        }
        let capacity = in_kept_groups.iter().fold(0_i64, |sum, candidate| {
            sum.saturating_add(candidate.available())
        });
        let enough = context
            .required_capacity
            .is_none_or(|required_capacity| capacity >= required_capacity);
        fitting = Some(in_kept_groups);
        if enough {
            break;
        }
    }
    *candidates = fitting.ok_or(too_few)?;
    Ok(())
}

/// Adds or replaces selected clusters until they cover the minimum number of groups of each constraint. Replaces the
/// least preferred clusters first.
fn represent_groups(
    context: &SelectContext<'_>,
    constraints: &[&Constraint],
    mut selected: Vec<Candidate>,
    candidates: &[Candidate],
) -> Result<Vec<Candidate>, SelectError> {
    let limit = context
        .placement
        .constraint(&SpreadBy::Cluster)
        .and_then(Constraint::max)
        .unwrap_or(usize::MAX)
        .max(selected.len());
    for constraint in constraints {
        loop {
            let covered = |clusters: &[Candidate]| -> BTreeSet<&str> {
                clusters
                    .iter()
                    .flat_map(|candidate| groups(context, candidate, constraint.by()))
                    .collect()
            };
            let present = covered(&selected);
            if present.len() >= constraint.min() {
                break;
            }
            let missing = candidates.iter().find(|candidate| {
                groups(context, candidate, constraint.by())
                    .iter()
                    .any(|group| !present.contains(group))
            });
            let Some(replacement) = missing else {
                return Err(SelectError::NoRegionsTogether);
            };
            if selected.len() < limit {
                selected.push(*replacement);
                continue;
            }
            // A cluster is replaceable if the other selected clusters cover all of its groups.
            let bounded: Vec<&Constraint> = distinct(context.placement);
            let spare = (0..selected.len()).rev().find(|&index| {
                let mut others = selected.clone();
                others.remove(index);
                bounded.iter().all(|constraint| {
                    let groups_without: BTreeSet<&str> = others
                        .iter()
                        .flat_map(|candidate| groups(context, candidate, constraint.by()))
                        .collect();
                    let groups_with: BTreeSet<&str> = selected
                        .iter()
                        .flat_map(|candidate| groups(context, candidate, constraint.by()))
                        .collect();
                    groups_without.len() == groups_with.len()
                })
            });
            let Some(index) = spare else {
                return Err(SelectError::NoRegionsTogether);
            };
            selected[index] = *replacement;
        }
    }
    Ok(selected)
}
