//! The construction of the plugin's [`SelectionExplanation`].

use std::collections::BTreeSet;

use super::{SelectContext, SelectionMode, cluster, extra_topologies, region};
use crate::{Candidate, Constraint, GroupChoice, GroupExplanation, SelectionExplanation, SpreadBy};

/// Explains the selection. Returns `None` in the modes `All` and `Unsupported`.
pub(super) fn explain(
    context: &SelectContext<'_>,
    mode: SelectionMode,
    candidates: &[Candidate],
) -> Option<SelectionExplanation> {
    let mut candidates = candidates.to_vec();
    candidates.sort_unstable_by(Candidate::preference);
    let mut choices = Vec::new();
    match mode {
        SelectionMode::All | SelectionMode::Unsupported => return None,
        SelectionMode::ByCluster => choices.push(by_cluster(context, &candidates)),
        SelectionMode::ByRegion => choices.extend(by_region(context, &candidates)),
        SelectionMode::ExtraTopologies => {
            for constraint in extra_topologies::other_constraints(context) {
                choices.push(by_groups(context, constraint, &mut candidates));
            }
            if context.placement.constraint(&SpreadBy::Region).is_some() {
                choices.extend(by_region(context, &candidates));
            } else if context.placement.constraint(&SpreadBy::Cluster).is_some() {
                choices.push(by_cluster(context, &candidates));
            }
        }
    }
    Some(SelectionExplanation {
        required_capacity: context.required_capacity,
        choices,
    })
}

/// Explains the `cluster` constraint, in which each cluster is a group.
fn by_cluster(context: &SelectContext<'_>, candidates: &[Candidate]) -> GroupChoice {
    let constraint = context.placement.constraint(&SpreadBy::Cluster);
    let selected = cluster::select(context, candidates.to_vec()).unwrap_or_default();
    cluster_choice(context, constraint, candidates, &selected)
}

fn cluster_choice(
    context: &SelectContext<'_>,
    constraint: Option<&Constraint>,
    candidates: &[Candidate],
    selected: &[Candidate],
) -> GroupChoice {
    let selected: BTreeSet<usize> = selected.iter().map(|candidate| candidate.ordinal).collect();
    let groups = candidates.iter().map(|candidate| GroupExplanation {
        name: name(context, candidate),
        clusters: vec![name(context, candidate)],
        score: candidate.score,
        available: candidate.available(),
        chosen: selected.contains(&candidate.ordinal),
    });
    choice(&SpreadBy::Cluster, constraint, groups.collect())
}

/// Explains the `region` constraint, and the selection of clusters in the chosen regions.
fn by_region(context: &SelectContext<'_>, candidates: &[Candidate]) -> Vec<GroupChoice> {
    let regions = region::group_by_region(context, candidates);
    let mut scored = region::score_regions(context, &regions);
    let chosen: BTreeSet<usize> = region::choose_regions(context, &scored)
        .iter()
        .map(|group| group.rank)
        .collect();
    scored.sort_by_key(|group| (std::cmp::Reverse(group.score), group.rank));
    let groups = scored.iter().map(|group| {
        let clusters = &regions[group.rank];
        let first = clusters
            .first()
            .and_then(|candidate| context.snapshot.cluster(candidate.ordinal));
        let name = first.map_or("", |cluster| cluster.region());
        described(
            context,
            name,
            group.score,
            clusters,
            chosen.contains(&group.rank),
        )
    });
    let constraint = context.placement.constraint(&SpreadBy::Region);
    let mut choices = vec![choice(&SpreadBy::Region, constraint, groups.collect())];
    let in_chosen: Vec<Candidate> = candidates
        .iter()
        .filter(|candidate| {
            chosen
                .iter()
                .any(|&rank| regions[rank].iter().any(|c| c.ordinal == candidate.ordinal))
        })
        .copied()
        .collect();
    if !in_chosen.is_empty() {
        let constraint = context.placement.constraint(&SpreadBy::Cluster);
        let selected = region::select(context, candidates.to_vec()).unwrap_or_default();
        choices.push(cluster_choice(context, constraint, &in_chosen, &selected));
    }
    choices
}

/// Explains a constraint by zone, provider or label. Removes the clusters outside the chosen groups from `candidates`,
/// unless no groups can be chosen.
fn by_groups(
    context: &SelectContext<'_>,
    constraint: &Constraint,
    candidates: &mut Vec<Candidate>,
) -> GroupChoice {
    let ranked = extra_topologies::ranked_groups(context, constraint, candidates);
    let mut kept = candidates.clone();
    let chosen: BTreeSet<&str> =
        match extra_topologies::keep_best_groups(context, constraint, &mut kept) {
            Ok(()) => kept
                .iter()
                .flat_map(|candidate| extra_topologies::groups(context, candidate, constraint.by()))
                .collect(),
            Err(_) => BTreeSet::new(),
        };
    let groups = ranked.iter().map(|(score, name, clusters)| {
        described(context, name, *score, clusters, chosen.contains(name))
    });
    let explained = choice(constraint.by(), Some(constraint), groups.collect());
    *candidates = kept;
    explained
}

fn choice(
    by: &SpreadBy,
    constraint: Option<&Constraint>,
    groups: Vec<GroupExplanation>,
) -> GroupChoice {
    GroupChoice {
        by: match by {
            SpreadBy::Cluster => "cluster".to_owned(),
            SpreadBy::Region => "region".to_owned(),
            SpreadBy::Zone => "zone".to_owned(),
            SpreadBy::Provider => "provider".to_owned(),
            SpreadBy::Label(key) => format!("label {key}"),
            SpreadBy::Unknown => "unknown".to_owned(),
        },
        min: constraint.map_or(0, Constraint::min),
        max: constraint.and_then(Constraint::max),
        groups,
    }
}

fn described(
    context: &SelectContext<'_>,
    group: &str,
    score: i64,
    clusters: &[Candidate],
    chosen: bool,
) -> GroupExplanation {
    GroupExplanation {
        name: group.to_owned(),
        clusters: clusters
            .iter()
            .map(|candidate| name(context, candidate))
            .collect(),
        score,
        available: clusters.iter().fold(0_i64, |sum, candidate| {
            sum.saturating_add(candidate.available())
        }),
        chosen,
    }
}

fn name(context: &SelectContext<'_>, candidate: &Candidate) -> String {
    let name = context.snapshot.name(candidate.ordinal);
    name.map_or_else(String::new, ToString::to_string)
}
