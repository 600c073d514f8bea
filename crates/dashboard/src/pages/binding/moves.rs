//! The unfinished moves of a binding, and its history: the moves since the dashboard started, and the last decision of the
//! scheduler.

use berth_api::BindingKey;
use berth_diagnosis::{Eviction, Migration};
use berth_explain::{Report, SourceKind};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::binding_query::PAGE_SIZE;
use crate::html::Html;
use crate::pages::format::clock;
use crate::pages::live;
use crate::pages::parts::{self, Column, number, text};
use crate::store::{BindingRow, Cause, Move, Store};

/// Maximum number of clusters in a cell.
const MAX_CLUSTERS: usize = 8;
/// Precision of the time of a recorded decision.
const PRECISION: SignedDuration = SignedDuration::from_secs(1);
/// Maximum time between a decision and the move that it causes.
const MAX_DELAY: SignedDuration = SignedDuration::from_secs(10);
/// Kinds of `apps/v1` whose replicas `kubectl scale` sets.
const SCALABLE: [&str; 3] = ["Deployment", "ReplicaSet", "StatefulSet"];

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

/// Writes the moves of a binding since the dashboard started, with their causes and the commands that undo them, and the
/// decision that the scheduler has recorded.
pub(super) fn history(
    html: &mut Html,
    store: &Store,
    name: &BindingKey,
    row: &BindingRow,
    explained: Option<&Report>,
) {
    html.leaf("h2", &[], "History");
    let moves = store.moves.newest_first().filter(|of| of.binding == *name);
    let moves: Vec<&Move> = moves.take(PAGE_SIZE).collect();
    let decision = explained.and_then(Decision::of);
    let decided = decision
        .as_ref()
        .and_then(|decision| decision.caused(&moves));
    // A decision whose move is listed has no row of its own.
    let decision = decision.filter(|_| decided.is_none());
    if moves.is_empty() {
        let text = match store.synced_at {
            Some(since) => format!(
                "No moves since {} UTC, when the dashboard started.",
                clock(since)
            ),
            None => "No moves.".to_owned(),
        };
        html.leaf("p", &[("class", &"muted")], text);
    }
    if moves.is_empty() && decision.is_none() {
        return;
    }
    let columns: [Column; 6] = [
        text("Time (UTC)"),
        text("Change"),
        text("Before"),
        text("After"),
        text("Who and why"),
        text("Undo"),
    ];
    let [c_time, c_change, c_before, c_after, c_cause, c_undo] = &columns;
    parts::table(html, "History", &columns, |html| {
        let mut decision = decision;
        for of in &moves {
            if let Some(decision) = decision.take_if(|decision| decision.at > of.at) {
                decision.row(html, &columns);
            }
            html.el("tr", &[], |html| {
                parts::cell(html, c_time, |html| time(html, of.at));
                parts::cell(html, c_change, |html| {
                    html.text(live::describe(&of.before, &of.after));
                });
                parts::cell(html, c_before, |html| {
                    parts::targets(html, &of.before, MAX_CLUSTERS);
                });
                parts::cell(html, c_after, |html| {
                    parts::targets(html, &of.after, MAX_CLUSTERS);
                });
                parts::cell(html, c_cause, |html| {
                    html.text(of.cause.describe());
                    if let Some(decision) = decided.filter(|(at, _)| *at == of.at) {
                        html.leaf("span", &[("class", &"sub")], decision.1);
                    }
                });
                parts::cell(html, c_undo, |html| undo(html, of, row));
            });
        }
        if let Some(decision) = decision {
            decision.row(html, &columns);
        }
    });
}

fn time(html: &mut Html, at: Timestamp) {
    let title = format!("{at:.0}");
    html.leaf("time", &[("title", &title)], clock(at));
}

/// The decision that the scheduler has recorded.
struct Decision<'a> {
    at: Timestamp,
    scheduler: &'a str,
    trigger: &'a str,
    summary: &'a str,
}

impl<'a> Decision<'a> {
    fn of(report: &'a Report) -> Option<Self> {
        let source = report.source.as_ref();
        let source = source.filter(|source| source.origin == SourceKind::Record)?;
        Some(Self {
            at: source.time.as_deref()?.parse().ok()?,
            scheduler: source.scheduler_name.as_deref().unwrap_or_default(),
            trigger: source.trigger.as_deref().unwrap_or_default(),
            summary: &report.verdict.summary,
        })
    }

    /// Returns the time of the move that the decision caused, with the trigger of the decision. The dashboard sees the
    /// move a moment after the decision, whose time has a precision of a second.
    fn caused(&self, moves: &[&Move]) -> Option<(Timestamp, &'a str)> {
        let newest = moves.first()?;
        let is_decided = matches!(newest.cause, Cause::Scheduler(_) | Cause::Scaled { .. });
        let delay = newest.at.duration_since(self.at);
        let is_soon = (-PRECISION..=MAX_DELAY).contains(&delay);
        (is_decided && is_soon).then_some((newest.at, self.trigger))
    }

    fn row(&self, html: &mut Html, columns: &[Column; 6]) {
        let [c_time, c_change, c_before, c_after, c_cause, c_undo] = columns;
        html.el("tr", &[], |html| {
            parts::cell(html, c_time, |html| time(html, self.at));
            parts::cell(html, c_change, |html| html.text("Decision"));
            let dash = |html: &mut Html| html.leaf("span", &[("class", &"muted")], "-");
            parts::cell(html, c_before, dash);
            parts::cell(html, c_after, |html| html.text(self.summary));
            parts::cell(html, c_cause, |html| {
                html.text(format_args!("the scheduler {} decided", self.scheduler));
                html.leaf("span", &[("class", &"sub")], self.trigger);
            });
            parts::cell(html, c_undo, dash);
        });
    }
}

/// Writes the commands that undo a move: they bring the workload back to the clusters from which it was evicted, if it may
/// return, and restore its replicas. Other moves have no such command, because the scheduler decides again from the
/// present state.
fn undo(html: &mut Html, of: &Move, row: &BindingRow) {
    let migration = row.migration.as_deref();
    let may_return_to = migration.map_or(&[][..], |migration| &migration.may_return_to);
    let left =
        |cluster: &&String| of.before.get(cluster).is_some() && of.after.get(cluster).is_none();
    let returns = may_return_to.iter().filter(left).map(|cluster| {
        let command = format!("berth uncordon --bring-back {cluster}");
        let effect = format!(
            "for the whole cluster: ends its maintenance, and has all workloads drained from {cluster} placed again"
        );
        (command, Some(effect))
    });
    let mut commands: Vec<(String, Option<String>)> = returns.collect();
    let workload = &row.workload;
    if let Cause::Scaled { before, .. } = of.cause
        && row.is_in_apps_v1
        && SCALABLE.contains(&&*workload.kind)
    {
        let command = format!(
            "kubectl --namespace {} scale {} {} --replicas={before}",
            workload.namespace,
            workload.kind.to_lowercase(),
            workload.name
        );
        commands.push((command, None));
    }
    if commands.is_empty() {
        html.leaf("span", &[("class", &"muted")], "-");
    }
    for (command, effect) in commands {
        html.leaf("code", &[], command);
        if let Some(effect) = effect {
            html.leaf("span", &[("class", &"sub")], effect);
        }
    }
}
