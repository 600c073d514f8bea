//! The report of a decision as HTML: the verdict, the table of clusters and stages, the division of replicas, and the
//! smallest changes.
//!
//! This module shows only the content of the report, and reads no objects.

use std::fmt::Display;

use berth_engine::Stage;
use berth_explain::{ClusterReport, DecisionSource, Fix, Report, Share, SourceKind};

use super::format::{count, thousands};
use super::parts::{self, Column, number, text};
use crate::binding_query::PAGE_SIZE;
use crate::html::Html;

const COLUMNS: [Column; 7] = [
    text("Cluster"),
    text("Filters"),
    number("Score"),
    number("Available"),
    text("Selected"),
    number("Replicas"),
    text("Why"),
];

/// Maximum number of clusters in the table. The clusters that reached the latest stage come first.
const MAX_CLUSTERS: usize = 200;

/// Maximum number of clusters in a sentence.
const MAX_SHARES: usize = 10;

/// Writes which decision the report explains: the recorded decision of the scheduler, or a decision for the present
/// clusters.
fn source(html: &mut Html, source: &DecisionSource) {
    if source.origin == SourceKind::Recomputed {
        let reason = source.reason.as_deref().unwrap_or_default();
        let text = format!("Recomputed for the present clusters: {reason}");
        html.leaf("p", &[("class", &"muted")], text);
        return;
    }
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    html.el("p", &[], |html| {
        html.text(format_args!(
            "Decided at {} by the scheduler {} ({}), from its record. ",
            text(&source.time),
            text(&source.scheduler_name),
            text(&source.trigger),
        ));
        match &source.now {
            None => html.text("It would make the same decision now."),
            Some(now) => {
                let result = if now.clusters.is_empty() {
                    now.message.as_ref().unwrap_or(&now.summary).clone()
                } else {
                    shares(&now.clusters)
                };
                let text = format!("It would decide otherwise now: {result}");
                html.leaf("span", &[("class", &"no")], text);
            }
        }
    });
}

/// Writes a report. `changes` writes the section of the smallest changes, or a link to this section.
pub(super) fn write(html: &mut Html, report: &Report, changes: impl FnOnce(&mut Html)) {
    if let Some(of) = &report.source {
        source(html, of);
    }
    let is_placed = report.is_placed();
    let class = if is_placed {
        "verdict"
    } else {
        "verdict failed"
    };
    html.el("div", &[("class", &class)], |html| {
        html.el("p", &[], |html| {
            html.leaf("b", &[], report.verdict.reason.as_str());
            html.text(format_args!(": {}", report.verdict.summary));
        });
        if let Some(message) = &report.verdict.message {
            html.leaf("p", &[("class", &"sub")], message);
        }
        if let Some(recorded) = &report.recorded
            && !recorded.agrees
        {
            let text = format!(
                "The binding records another result: {}.",
                shares(&recorded.clusters)
            );
            html.leaf("p", &[("class", &"no")], text);
        }
    });
    html.leaf("h2", &[], "Clusters by stage");
    matrix(html, report);
    if report
        .clusters
        .iter()
        .any(|of| of.replicas.is_some_and(|replicas| replicas > 0))
    {
        html.leaf("h2", &[], "Division of replicas");
        division(html, report);
    }
    notes(html, report);
    html.leaf("h2", &[], "What would change the decision");
    changes(html);
}

/// Writes the smallest changes that would alter the decision.
pub(super) fn changes(html: &mut Html, report: &Report) {
    let columns = [text("Cluster"), text("Smallest changes")];
    let [c_cluster, c_changes] = &columns;
    let found = || report.clusters.iter().filter(|of| !of.fixes.is_empty());
    if report.fixes.is_empty() && found().next().is_none() {
        let none = "The search found no change of up to four settings that alters the decision.";
        html.leaf("p", &[("class", &"muted")], none);
    }
    if !report.fixes.is_empty() {
        html.leaf(
            "p",
            &[],
            "The binding would be placed with one of these changes:",
        );
        fixes(html, &report.fixes);
    }
    if found().next().is_some() {
        html.leaf(
            "p",
            &[],
            "A cluster would get the workload with one of these changes:",
        );
        parts::table(html, "Smallest changes by cluster", &columns, |html| {
            for of in found().take(PAGE_SIZE) {
                html.el("tr", &[], |html| {
                    parts::cell(html, c_cluster, |html| {
                        html.leaf("span", &[("class", &"name")], &of.name);
                    });
                    parts::cell(html, c_changes, |html| fixes(html, &of.fixes));
                });
            }
        });
    }
    notes(html, report);
}

fn notes(html: &mut Html, report: &Report) {
    if !report.notes.is_empty() {
        html.el("ul", &[("class", &"muted")], |html| {
            for note in &report.notes {
                html.leaf("li", &[], note);
            }
        });
    }
}

fn shares(shares: &[Share]) -> String {
    if shares.is_empty() {
        return "no cluster".to_owned();
    }
    let texts = shares
        .iter()
        .take(MAX_SHARES)
        .map(|share| format!("{} {}", share.name, share.replicas));
    let text = texts.collect::<Vec<_>>().join(", ");
    match shares.len().saturating_sub(MAX_SHARES) {
        0 => text,
        more => format!("{text} and {more} more"),
    }
}

fn fixes(html: &mut Html, fixes: &[Fix]) {
    html.el("ul", &[], |html| {
        for fix in fixes {
            html.el("li", &[], |html| {
                html.text(&fix.summary);
                let result = format!(" Result: {}", shares(&fix.result));
                html.leaf("span", &[("class", &"muted")], result);
            });
        }
    });
}

fn matrix(html: &mut Html, report: &Report) {
    let mut clusters: Vec<&ClusterReport> = report.clusters.iter().collect();
    // The sort is stable: clusters at the same stage remain sorted by name.
    clusters.sort_by_key(|cluster| std::cmp::Reverse(rank(cluster.stage)));
    let hidden = clusters.len().saturating_sub(MAX_CLUSTERS);
    parts::table(html, "Clusters by stage", &COLUMNS, |html| {
        for of in clusters.into_iter().take(MAX_CLUSTERS) {
            cluster(html, of);
        }
    });
    if hidden > 0 {
        more(html, hidden);
    }
}

/// Writes the number of clusters that a table omits.
fn more(html: &mut Html, hidden: usize) {
    let text = format!(
        "{} more clusters: `berth explain` prints all",
        count(hidden)
    );
    html.leaf("p", &[("class", &"muted")], text);
}

/// Returns the position of a stage in the order of stages.
const fn rank(stage: Stage) -> u8 {
    match stage {
        Stage::Deleting => 0,
        Stage::Filtered => 1,
        Stage::Considered => 2,
        Stage::Selected => 3,
        Stage::Placed => 4,
    }
}

fn cluster(html: &mut Html, of: &ClusterReport) {
    let [
        c_name,
        c_filters,
        c_score,
        c_available,
        c_selected,
        c_replicas,
        c_why,
    ] = &COLUMNS;
    let rank = rank(of.stage);
    html.el("tr", &[], |html| {
        parts::cell(html, c_name, |html| {
            html.leaf("span", &[("class", &"name")], &of.name);
        });
        parts::cell(html, c_filters, |html| match &of.plugin {
            Some(plugin) if rank < 2 => html.leaf("span", &[("class", &"no")], plugin),
            _ if rank < 2 => html.leaf("span", &[("class", &"no")], "no"),
            _ => html.leaf("span", &[("class", &"yes")], "passed"),
        });
        parts::cell(html, c_score, |html| {
            let scores = of.scores.iter();
            let texts = scores.map(|of| format!("{} {}", of.plugin, of.weighted));
            let detail = texts.collect::<Vec<_>>().join(", ");
            html.el("span", &[("title", &detail)], |html| {
                optional(html, of.score);
            });
        });
        parts::cell(html, c_available, |html| {
            let estimates = of.estimates.iter();
            let texts = estimates.map(|of| {
                let replicas = of
                    .replicas
                    .map_or_else(|| "no limit".to_owned(), |it| it.to_string());
                format!("{} {replicas}", of.estimator)
            });
            let detail = texts.collect::<Vec<_>>().join(", ");
            let available = of
                .available
                .or_else(|| of.minimum.as_ref().map(|of| i64::from(of.replicas)));
            html.el("span", &[("title", &detail)], |html| {
                optional(html, available);
            });
        });
        parts::cell(html, c_selected, |html| match rank {
            3.. => html.leaf("span", &[("class", &"yes")], "yes"),
            2 => html.leaf("span", &[("class", &"no")], "no"),
            _ => html.text("-"),
        });
        parts::cell(html, c_replicas, |html| optional(html, of.replicas));
        parts::cell(html, c_why, |html| html.text(&of.why));
    });
}

fn optional(html: &mut Html, number: Option<i64>) {
    html.text(number.map_or_else(|| "-".to_owned(), thousands));
}

/// Writes a table of the clusters that get replicas. A bar shows each cluster's share of the replicas.
fn division(html: &mut Html, report: &Report) {
    let columns = [
        text("Cluster"),
        number("Before"),
        number("Assigned"),
        number("Available"),
        Column {
            name: "Share",
            class: "share",
        },
    ];
    let assigned = report.clusters.iter();
    let assigned: Vec<(&ClusterReport, i64)> = assigned
        .filter_map(|of| Some((of, of.replicas.filter(|replicas| *replicas > 0)?)))
        .collect();
    let total: i64 = assigned.iter().map(|(_, replicas)| replicas).sum();
    parts::table(html, "Division of replicas", &columns, |html| {
        let [c_name, c_before, c_assigned, c_available, c_share] = &columns;
        for &(of, replicas) in assigned.iter().take(MAX_CLUSTERS) {
            html.el("tr", &[], |html| {
                parts::cell(html, c_name, |html| {
                    html.leaf("span", &[("class", &"name")], &of.name);
                });
                parts::cell(html, c_before, |html| optional(html, of.before));
                parts::cell(html, c_assigned, |html| html.text(thousands(replicas)));
                parts::cell(html, c_available, |html| optional(html, of.available));
                parts::cell(html, c_share, |html| {
                    share(html, of.before.unwrap_or(0).min(replicas), replicas, total);
                });
            });
        }
    });
    let hidden = assigned.len().saturating_sub(MAX_CLUSTERS);
    if hidden > 0 {
        more(html, hidden);
    }
}

/// Writes a bar of a cluster's replicas. The bar shows separately the replicas that the cluster keeps.
fn share(html: &mut Html, kept: i64, replicas: i64, total: i64) {
    let width = |number: i64| number * 1000 / total.max(1);
    let label = format!("{replicas} of {total} replicas, {kept} of them kept");
    let attributes: [(&str, &dyn Display); 5] = [
        ("class", &"bar"),
        ("viewBox", &"0 0 1000 10"),
        ("preserveAspectRatio", &"none"),
        ("role", &"img"),
        ("aria-label", &label),
    ];
    html.el("svg", &attributes, |html| {
        for (class, number) in [("track", total), ("fill", replicas), ("fill kept", kept)] {
            let width = width(number);
            let attributes: [(&str, &dyn Display); 3] =
                [("class", &class), ("width", &width), ("height", &10)];
            html.void("rect", &attributes);
        }
    });
    html.leaf("span", &[("class", &"sub")], label);
}
