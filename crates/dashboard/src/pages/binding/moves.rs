//! The unfinished moves of a binding, and its moves since the dashboard started.

use berth_api::BindingKey;
use berth_diagnosis::{Eviction, Migration};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::binding_query::PAGE_SIZE;
use crate::html::Html;
use crate::pages::format::clock;
use crate::pages::live;
use crate::pages::parts::{self, Column, number, text};
use crate::store::{BindingRow, Move, Store};

/// Maximum number of clusters in a cell.
const MAX_CLUSTERS: usize = 8;

/// Writes the reason for which old copies wait, the eviction tasks, and the clusters to which the binding may return.
pub(super) fn unfinished(html: &mut Html, migration: &Migration) {
    if migration.state().is_some() {
        html.leaf("h2", &[], "Unfinished moves");
    }
    if let Some(condition) = &migration.condition {
        html.el("div", &[("class", &"verdict")], |html| {
            let text = format_args!("{}: {}", condition.reason_in_words(), condition.message);
            html.leaf("p", &[], text);
            let since = format_args!("since {:.0} ({})", condition.since.0, condition.reason);
            html.leaf("span", &[("class", &"sub")], since);
        });
    }
    if !migration.evictions.is_empty() {
        eviction_table(html, &migration.evictions);
    }
    if !migration.may_return_to.is_empty() {
        let clusters = migration.may_return_to.join(", ");
        html.leaf("p", &[], format_args!("May return to: {clusters}"));
    }
}

fn eviction_table(html: &mut Html, evictions: &[Eviction]) {
    let columns: [Column; 6] = [
        text("Evicted from"),
        number("Replicas"),
        text("Reason"),
        text("Since"),
        text("Until"),
        text("Message"),
    ];
    let [c_from, c_replicas, c_reason, c_since, c_until, c_message] = &columns;
    parts::table(html, "Evictions", &columns, |html| {
        for eviction in evictions {
            html.el("tr", &[], |html| {
                parts::cell(html, c_from, |html| {
                    html.leaf("span", &[("class", &"name")], &eviction.from);
                });
                parts::cell(html, c_replicas, |html| {
                    let replicas = eviction.replicas.map(|replicas| replicas.to_string());
                    html.text(replicas.as_deref().unwrap_or("-"));
                });
                parts::cell(html, c_reason, |html| {
                    html.leaf("span", &[], &eviction.reason);
                    html.leaf("span", &[("class", &"sub")], &eviction.producer);
                });
                let time = |time: &Time| format!("{:.0}", time.0);
                parts::cell(html, c_since, |html| {
                    let since = eviction.since.as_ref().map(time);
                    html.text(since.as_deref().unwrap_or("-"));
                });
                parts::cell(html, c_until, |html| {
                    let until = eviction.until.as_ref().map(time);
                    html.text(match &until {
                        Some(until) => until,
                        None if eviction.suppress_deletion => "a user ends it",
                        None => "-",
                    });
                });
                parts::cell(html, c_message, |html| {
                    html.text(eviction.message.as_deref().unwrap_or("-"));
                });
            });
        }
    });
}

/// Writes the moves of a binding since the dashboard started, with the commands that undo them.
pub(super) fn history(html: &mut Html, store: &Store, name: &BindingKey, row: &BindingRow) {
    html.leaf("h2", &[], "History");
    let moves = || store.moves.iter().rev().filter(|of| of.binding == *name);
    if moves().next().is_none() {
        let text = match store.synced_at {
            Some(since) => format!(
                "No moves since {} UTC, when the dashboard started.",
                clock(since)
            ),
            None => "No moves.".to_owned(),
        };
        html.leaf("p", &[("class", &"muted")], text);
        return;
    }
    let columns: [Column; 5] = [
        text("Time (UTC)"),
        text("Change"),
        text("Before"),
        text("After"),
        text("Undo"),
    ];
    let [c_time, c_change, c_before, c_after, c_undo] = &columns;
    parts::table(html, "History", &columns, |html| {
        for of in moves().take(PAGE_SIZE) {
            html.el("tr", &[], |html| {
                parts::cell(html, c_time, |html| html.leaf("time", &[], clock(of.at)));
                parts::cell(html, c_change, |html| {
                    html.text(live::describe(&of.before, &of.after));
                });
                parts::cell(html, c_before, |html| {
                    parts::targets(html, &of.before, MAX_CLUSTERS);
                });
                parts::cell(html, c_after, |html| {
                    parts::targets(html, &of.after, MAX_CLUSTERS);
                });
                parts::cell(html, c_undo, |html| {
                    undo(html, of, row.migration.as_deref());
                });
            });
        }
    });
}

/// Writes the command that brings a workload back to the cluster that it left in a move. There is one if the workload was
/// evicted from that cluster, and may return.
fn undo(html: &mut Html, of: &Move, migration: Option<&Migration>) {
    let may_return_to = migration.map_or(&[][..], |migration| &migration.may_return_to);
    let left =
        |cluster: &&String| of.before.get(cluster).is_some() && of.after.get(cluster).is_none();
    let mut clusters = may_return_to.iter().filter(left).peekable();
    if clusters.peek().is_none() {
        html.leaf("span", &[("class", &"muted")], "-");
    }
    for cluster in clusters {
        html.leaf(
            "code",
            &[],
            format_args!("berth uncordon --bring-back {cluster}"),
        );
    }
}
