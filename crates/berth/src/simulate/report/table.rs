//! The format `-o table`: one row per binding.

use berth_api::BindingKey;
use berth_plan::what_if::{Decision, Move};

use super::fit::fit;
use super::listed;
use crate::columns::cell;

/// Maximum number of clusters in a cell. The format `-o wide` names all clusters.
const MAX_CLUSTERS: usize = 6;

/// Returns the table of decisions.
pub(super) fn decisions(decisions: &[Decision], width: Option<usize>) -> String {
    let rows: Vec<Vec<String>> = decisions
        .iter()
        .map(|decision| {
            vec![
                namespace(&decision.key),
                decision.key.name.to_string(),
                cell(decision.replicas),
                cell(decision.affinity.as_ref()),
                listed(
                    &decision.clusters,
                    decision.replicas.is_some(),
                    MAX_CLUSTERS,
                ),
                reason(decision),
            ]
        })
        .collect();
    let header = [
        "NAMESPACE",
        "NAME",
        "REPLICAS",
        "AFFINITY",
        "CLUSTERS",
        "REASON",
    ];
    fit_non_empty(&header, rows, 3, width)
}

/// Returns the table of moves.
pub(super) fn moves(moves: &[Move], width: Option<usize>) -> String {
    let rows: Vec<Vec<String>> = moves
        .iter()
        .map(|one| {
            let with_replicas = one.to.replicas.is_some();
            vec![
                namespace(&one.to.key),
                one.to.key.name.to_string(),
                listed(&one.from, with_replicas, MAX_CLUSTERS),
                listed(&one.to.clusters, with_replicas, MAX_CLUSTERS),
                cell(one.to.failure.as_ref().map(|failure| &failure.message)),
            ]
        })
        .collect();
    fit_non_empty(
        &["NAMESPACE", "NAME", "FROM", "TO", "REASON"],
        rows,
        4,
        width,
    )
}

/// Fits a table to the width. Removes `column` if all of its cells are empty.
fn fit_non_empty(
    header: &[&str],
    mut rows: Vec<Vec<String>>,
    column: usize,
    width: Option<usize>,
) -> String {
    let mut header = header.to_vec();
    if rows.iter().all(|row| row[column] == "-") {
        header.remove(column);
        for row in &mut rows {
            row.remove(column);
        }
    }
    fit(&header, &rows, width)
}

fn namespace(key: &BindingKey) -> String {
    cell(key.namespace.as_deref())
}

/// Returns the reason of a failure. For a successful decision, summarizes why the scheduler rejected the other
/// clusters.
fn reason(decision: &Decision) -> String {
    if let Some(failure) = &decision.failure {
        return failure.message.clone();
    }
    cell(decision.rejections.as_ref())
}
