//! One row for each binding.

use berth_scheduler::binding::BindingKey;

use super::super::decide::Decision;
use super::super::moves::Move;
use super::fit::fit;
use super::listed;
use crate::columns::cell;

/// How many clusters a cell names; `-o wide` names them all.
const SHOWN: usize = 6;

/// Where each binding goes.
pub(super) fn decisions(decisions: &[Decision], width: Option<usize>) -> String {
    let rows: Vec<Vec<String>> = decisions
        .iter()
        .map(|decision| {
            vec![
                namespace(&decision.key),
                decision.key.name.to_string(),
                cell(decision.replicas),
                cell(decision.affinity.as_ref()),
                listed(&decision.clusters, decision.replicas.is_some(), SHOWN),
                why(decision),
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
    fit_but_empty(&header, rows, 3, width)
}

/// From where to where each binding moves.
pub(super) fn moves(moves: &[Move], width: Option<usize>) -> String {
    let rows: Vec<Vec<String>> = moves
        .iter()
        .map(|one| {
            let with_replicas = one.to.replicas.is_some();
            vec![
                namespace(&one.to.key),
                one.to.key.name.to_string(),
                listed(&one.from, with_replicas, SHOWN),
                listed(&one.to.clusters, with_replicas, SHOWN),
                cell(one.to.failure.as_ref().map(|failure| &failure.message)),
            ]
        })
        .collect();
    fit_but_empty(
        &["NAMESPACE", "NAME", "FROM", "TO", "REASON"],
        rows,
        4,
        width,
    )
}

/// The rows without one of the columns, if no row says anything there.
fn fit_but_empty(
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

/// Why nowhere; or why not elsewhere, in the manner of Karmada's message about what fits nowhere.
fn why(decision: &Decision) -> String {
    if let Some(failure) = &decision.failure {
        return failure.message.clone();
    }
    cell(decision.elsewhere.as_ref())
}
