//! The summary of a decision: one sentence about its result, and the number of clusters for each reason.

use std::collections::BTreeMap;

use berth_engine::{Placement, Request, ScheduleError, ScheduledReason, Stage};

use crate::report::{ClusterReport, StageCount};

/// Counts the clusters that are not part of the result, by stage and reason. The most frequent reasons come first.
pub(crate) fn counts(clusters: &[ClusterReport]) -> Vec<StageCount> {
    let mut counts: BTreeMap<(Stage, Option<&str>, &str), usize> = BTreeMap::new();
    for cluster in clusters {
        let reason = match cluster.stage {
            Stage::Placed => continue,
            Stage::Deleting => "being deleted",
            Stage::Considered => "not selected",
            Stage::Selected => "selected, but got no replicas",
            Stage::Filtered => cluster.reason.as_deref().unwrap_or_default(),
        };
        *counts
            .entry((cluster.stage, cluster.plugin.as_deref(), reason))
            .or_default() += 1;
    }
    let mut counts: Vec<StageCount> = counts
        .into_iter()
        .map(|((stage, plugin, reason), clusters)| StageCount {
            clusters,
            stage,
            plugin: plugin.map(str::to_owned),
            reason: reason.trim_start_matches("cluster(s) ").to_owned(),
        })
        .collect();
    counts.sort_by_key(|count| std::cmp::Reverse(count.clusters));
    counts
}

/// Returns one sentence about a successful decision.
pub(crate) fn placed(request: &Request, placement: &Placement, counts: &[StageCount]) -> String {
    let clusters = placement.targets.len();
    let fleet = clusters + total(counts);
    let replicas = if request.divides_replicas() {
        match request.replicas() {
            replicas if placement.waiting > 0 => {
                format!(
                    "{} of {replicas} replicas on ",
                    replicas - placement.waiting
                )
            }
            1 => "1 replica on ".to_owned(),
            replicas => format!("{replicas} replicas on "),
        }
    } else {
        String::new()
    };
    let each = if request.divides_replicas() && request.placement().duplicates() && clusters > 1 {
        ", all replicas on each"
    } else {
        ""
    };
    if clusters == 0 {
        return "scheduled, but no cluster has replicas".to_owned();
    }
    format!("{replicas}{clusters} of {}{each}", plural(fleet))
}

/// Returns one sentence about a failed decision.
pub(crate) fn failed(request: &Request, error: &ScheduleError, counts: &[StageCount]) -> String {
    match error.reason() {
        ScheduledReason::NoClusterFit if total(counts) == 0 => {
            "the control plane has no clusters".to_owned()
        }
        ScheduledReason::NoClusterFit => format!("none of {} fits", plural(total(counts))),
        ScheduledReason::Unschedulable => {
            let passing = passing(counts);
            let replicas = match request.replicas() {
                1 => "1 replica".to_owned(),
                replicas => format!("{replicas} replicas"),
            };
            format!(
                "{passing} of {} fit, but lack capacity for {replicas}",
                plural(total(counts)),
            )
        }
        _ => format!(
            "{} of {} fit, but the placement cannot be satisfied with them",
            passing(counts),
            plural(total(counts))
        ),
    }
}

fn total(counts: &[StageCount]) -> usize {
    counts.iter().map(|count| count.clusters).sum()
}

fn passing(counts: &[StageCount]) -> usize {
    let passing = counts
        .iter()
        .filter(|count| !matches!(count.stage, Stage::Filtered | Stage::Deleting));
    passing.map(|count| count.clusters).sum()
}

fn plural(clusters: usize) -> String {
    match clusters {
        1 => "1 cluster".to_owned(),
        clusters => format!("{clusters} clusters"),
    }
}
