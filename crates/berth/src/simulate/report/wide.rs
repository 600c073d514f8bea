//! The format `-o wide`: for each binding, a block with one row per cluster. A row shows the last stage of scheduling
//! that the cluster reached, and the reason for which a plugin rejected the cluster.

use std::fmt::Write as _;

use berth_engine::{Basis, ClusterExplanation, Stage, TermExplanation};
use berth_plan::what_if::{Decision, Move};
use berth_scheduler::estimator::AccurateEstimator;

use super::fit::fit;
use super::listed;
use crate::columns::cell;

const HEADER: [&str; 10] = [
    "  CLUSTER",
    "STAGE",
    "BEFORE",
    "REPLICAS",
    "SCORE",
    "ESTIMATE",
    "ESTIMATOR",
    "TIER",
    "PLUGIN",
    "REASON",
];

/// Returns a block for each decision.
pub(super) fn decisions(decisions: &[Decision], width: Option<usize>) -> String {
    let blocks: Vec<String> = decisions
        .iter()
        .map(|decision| {
            let clusters = listed(&decision.clusters, decision.replicas.is_some(), usize::MAX);
            block(decision, &clusters, width)
        })
        .collect();
    blocks.join("\n")
}

/// Returns the block of a move.
pub(super) fn moved(one: &Move, width: Option<usize>) -> String {
    let with_replicas = one.to.replicas.is_some();
    let from = listed(&one.from, with_replicas, usize::MAX);
    let to = listed(&one.to.clusters, with_replicas, usize::MAX);
    block(&one.to, &format!("{from} -> {to}"), width)
}

fn block(decision: &Decision, clusters: &str, width: Option<usize>) -> String {
    let mut text = decision.key.to_string();
    if let Some(replicas) = decision.replicas {
        let _ = write!(text, " ({replicas} replicas)");
    }
    let _ = write!(text, ": {clusters}");
    if let Some(failure) = &decision.failure {
        let _ = write!(text, "\n  {}: {}", failure.kind, failure.message);
    }
    text.push('\n');
    for term in &decision.explanation.terms {
        if let Some(name) = &term.affinity {
            let outcome = term.failure.as_deref().unwrap_or("chosen");
            let _ = writeln!(text, "  affinity {name}: {outcome}");
        }
        text.push_str(&clusters_of(term, width));
    }
    text
}

fn clusters_of(term: &TermExplanation, width: Option<usize>) -> String {
    let rows: Vec<Vec<String>> = term
        .clusters
        .iter()
        .map(|(name, cluster)| row(name, cluster))
        .collect();
    let has_values = |column: usize| rows.iter().any(|row| row[column] != "-");
    // Columns without values are omitted.
    let kept: Vec<usize> = (0..HEADER.len())
        .filter(|&column| column == 0 || has_values(column))
        .collect();
    let header: Vec<&str> = kept.iter().map(|&column| HEADER[column]).collect();
    let rows: Vec<Vec<String>> = rows
        .iter()
        .map(|row| kept.iter().map(|&column| row[column].clone()).collect())
        .collect();
    fit(&header, &rows, width)
}

fn row(name: &str, cluster: &ClusterExplanation) -> Vec<String> {
    let estimate = cluster.estimates.values().min().copied();
    let score: Option<i64> =
        (!cluster.scores.is_empty()).then(|| cluster.scores.values().sum::<i64>());
    vec![
        format!("  {name}"),
        stage(cluster.stage).to_owned(),
        cell(cluster.before),
        cell(cluster.replicas),
        cell(score),
        cell(estimate.map(estimate_text)),
        cell(accurate(cluster)),
        cell(cluster.tier.filter(|tier| *tier > 0)),
        cell(cluster.refusal.as_ref().map(|refusal| &refusal.plugin)),
        cell(cluster.refusal.as_ref().map(|refusal| &refusal.reason)),
    ]
}

/// Formats the estimate of the member's accurate estimator. Adds the age of an outdated estimate, or the reason for a
/// missing one. Returns `None` if the scheduler did not query the estimator.
fn accurate(cluster: &ClusterExplanation) -> Option<String> {
    let basis = cluster.bases.get(AccurateEstimator::NAME)?;
    let estimate = cluster.estimates.get(AccurateEstimator::NAME);
    let text = estimate.map_or_else(|| "-".to_owned(), |estimate| estimate_text(*estimate));
    Some(match basis {
        Basis::Fresh | Basis::Nodes { .. } => text,
        Basis::Stale { seconds, reason } => format!("{text}, {seconds} s old: {reason}"),
        Basis::Missing { reason } => format!("none: {reason}"),
    })
}

/// Formats an estimate. Estimators return `i32::MAX` for a cluster without a limit.
fn estimate_text(estimate: i32) -> String {
    if estimate == i32::MAX {
        "any".to_owned()
    } else {
        estimate.to_string()
    }
}

fn stage(stage: Stage) -> &'static str {
    match stage {
        Stage::Deleting => "deleting",
        Stage::Filtered => "filtered",
        Stage::Considered => "considered",
        Stage::Selected => "selected",
        Stage::Placed => "placed",
    }
}
