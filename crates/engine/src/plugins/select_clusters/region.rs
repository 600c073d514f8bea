//! Selection by the `region` constraint: the best combination of regions, one cluster in each chosen region, and then
//! the most preferred other clusters of these regions, up to the maximum of the `cluster` constraint.

use super::group_score::{GroupDemand, group_score};
use super::groups::{Group, select_groups};
use super::{SelectContext, SelectError};
use crate::Candidate;
use crate::{Constraint, SpreadBy};

/// Selects clusters by the `region` constraint and, if present, the `cluster` constraint. Does not check the total
/// capacity of the selected clusters.
pub(super) fn select(
    context: &SelectContext<'_>,
    mut candidates: Vec<Candidate>,
) -> Result<Vec<Candidate>, SelectError> {
    candidates.sort_unstable_by(Candidate::preference);
    let regions = group_by_region(context, &candidates);
    if regions.len() < min_regions(context) {
        return Err(SelectError::TooFewRegions);
    }
    let chosen = choose_regions(context, &score_regions(context, &regions));
    if chosen.is_empty() {
        return Err(SelectError::NoRegionsTogether);
    }
    let by_cluster = context.placement.constraint(&SpreadBy::Cluster);
    // Each chosen region gets one cluster, even if the `cluster` constraint allows fewer clusters.
    let mut selected = Vec::new();
    let mut others = Vec::new();
    for group in chosen {
        if let Some((first, rest)) = regions[group.rank].split_first() {
            selected.push(*first);
            others.extend_from_slice(rest);
        }
    }
    let wanted = by_cluster.and_then(Constraint::max).unwrap_or(0);
    let more = wanted.saturating_sub(selected.len()).min(others.len());
    others.sort_unstable_by(Candidate::preference);
    selected.extend_from_slice(&others[..more]);
    Ok(selected)
}

/// Returns the minimum number of regions.
fn min_regions(context: &SelectContext<'_>) -> usize {
    let constraint = context.placement.constraint(&SpreadBy::Region);
    constraint.map_or(0, Constraint::min)
}

/// Returns the regions as groups with scores. The rank of a group is the index of the region in `regions`.
pub(super) fn score_regions(context: &SelectContext<'_>, regions: &[Vec<Candidate>]) -> Vec<Group> {
    let demand = group_demand(context, min_regions(context));
    regions
        .iter()
        .enumerate()
        .map(|(rank, clusters)| Group {
            rank,
            clusters: clusters.len(),
            score: group_score(clusters, demand),
        })
        .collect()
}

/// Returns the best combination of regions, or an empty list if no combination satisfies the constraints.
pub(super) fn choose_regions(context: &SelectContext<'_>, regions: &[Group]) -> Vec<Group> {
    let constraint = context.placement.constraint(&SpreadBy::Region);
    let max = constraint
        .and_then(Constraint::max)
        .unwrap_or(regions.len());
    let by_cluster = context.placement.constraint(&SpreadBy::Cluster);
    let min_clusters = by_cluster.map_or(0, Constraint::min);
    select_groups(regions, min_regions(context), max, min_clusters)
}

/// Returns the demand that groups of clusters must satisfy.
pub(super) fn group_demand(context: &SelectContext<'_>, min_groups: usize) -> GroupDemand {
    if context.placement.duplicates() {
        return GroupDemand::Duplicated {
            replicas: context.replicas,
        };
    }
    let by_cluster = context.placement.constraint(&SpreadBy::Cluster);
    GroupDemand::Divided {
        replicas: context.replicas,
        min_groups,
        min_clusters: by_cluster.map_or(0, Constraint::min),
    }
}

/// Groups the candidates by region. The regions are sorted by name, and each region keeps the order of its candidates.
pub(super) fn group_by_region(
    context: &SelectContext<'_>,
    candidates: &[Candidate],
) -> Vec<Vec<Candidate>> {
    let mut groups: Vec<(u32, Vec<Candidate>)> = Vec::new();
    for candidate in candidates {
        let Some(region) = context.snapshot.region_number(candidate.ordinal) else {
            continue;
        };
        match groups.iter_mut().find(|(number, _)| *number == region) {
            Some((_, clusters)) => clusters.push(*candidate),
            None => groups.push((region, vec![*candidate])),
        }
    }
    let name = |clusters: &[Candidate]| {
        let first = clusters
            .first()
            .and_then(|candidate| context.snapshot.cluster(candidate.ordinal));
        first.map_or("", |cluster| cluster.region())
    };
    groups.sort_unstable_by(|(_, a), (_, b)| name(a).cmp(name(b)));
    groups.into_iter().map(|(_, clusters)| clusters).collect()
}
