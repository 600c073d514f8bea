//! The diagnosis of a workload: the verdict and the next action, the way from the template to the members as a diagram,
//! and the copies that matter.

use std::fmt::Display;

use berth_diagnosis::{CopyRow, CopyState, Diagnosis, Finding, Health, Station};
use jiff::Timestamp;

use crate::html::Html;
use crate::pages::cluster::copy_badge;
use crate::pages::format::{age, counted};
use crate::pages::parts::{self, Column, Tone, number, text};
use crate::store::BindingRow;

/// Maximum number of rows of each table of copies.
const MAX_COPIES: usize = 200;

/// Writes whether the workload is well, why not, and what to do.
pub(super) fn verdict(html: &mut Html, found: &Diagnosis, now: Timestamp) {
    let class = format_args!("verdict {}", found.health.as_str());
    html.el("div", &[("class", &class)], |html| {
        html.el("p", &[("class", &"headline")], |html| {
            parts::health(html, found.health);
            html.text(" ");
            html.text(&found.verdict);
        });
        if let Some(fix) = &found.fix {
            parts::action(html, fix);
        }
        let reason = found.reason.map(|reason| reason.as_str().to_owned());
        let since = found.since.map(|since| format!("for {}", age(since, now)));
        let facts: Vec<String> = reason.into_iter().chain(since).collect();
        if !facts.is_empty() {
            html.leaf("p", &[("class", &"sub")], facts.join(", "));
        }
    });
}

/// Writes the stations as a row of boxes. The template and the policy are named, although they were not looked at.
pub(super) fn way(html: &mut Html, row: &BindingRow, found: &Diagnosis, now: Timestamp) {
    html.leaf("h2", &[], "Way");
    html.el("ol", &[("class", &"way")], |html| {
        let worst = found.findings.first().map(|of| of.station);
        for station in Station::ALL {
            let report = found.stations.iter().find(|of| of.station == station);
            match (report, station) {
                (Some(report), _) => {
                    let tone = Tone::of(report.health);
                    let held_up = worst == Some(station);
                    let summary = match report.since.filter(|_| report.health != Health::Well) {
                        Some(since) => format!("{}, for {}", report.summary, age(since, now)),
                        None => report.summary.clone(),
                    };
                    let position = if held_up {
                        Position::HeldUp
                    } else {
                        Position::Other
                    };
                    station_box(html, tone, position, station, |html| html.text(&summary));
                }
                (None, Station::Template) => {
                    station_box(html, Tone::Neutral, Position::Other, station, |html| {
                        html.text(row.workload());
                    });
                }
                (None, Station::Policy) => {
                    station_box(html, Tone::Neutral, Position::Other, station, |html| {
                        if row.is_dependency() {
                            html.text(parts::dependency(row.needed_by()));
                        } else {
                            parts::policy_link(html, row.policy.as_ref());
                        }
                    });
                }
                (None, _) => {}
            }
        }
    });
}

/// The position of a station: the place at which the workload is held up, or another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Position {
    HeldUp,
    Other,
}

fn station_box(
    html: &mut Html,
    tone: Tone,
    position: Position,
    station: Station,
    content: impl FnOnce(&mut Html),
) {
    let class = format_args!("station {}", tone.class());
    let mut attributes: Vec<(&'static str, &dyn Display)> = vec![("class", &class)];
    if position == Position::HeldUp {
        attributes.push(("aria-current", &"step"));
    }
    html.el("li", &attributes, |html| {
        html.leaf("b", &[], station.as_str());
        html.el("span", &[("class", &"sub")], content);
    });
}

/// Writes the copies that are not well or leave. The others are folded.
pub(super) fn copies(html: &mut Html, found: &Diagnosis, now: Timestamp) {
    html.leaf("h2", &[], "Clusters");
    if found.copies.is_empty() {
        html.leaf("p", &[("class", &"muted")], "It is in no cluster.");
        return;
    }
    let is_well = |copy: &&CopyRow| copy.state == CopyState::Well && !copy.leaving;
    let (well, other): (Vec<&CopyRow>, Vec<&CopyRow>) = found.copies.iter().partition(is_well);
    if !other.is_empty() {
        copy_table(html, &other, &found.findings, now);
    }
    if well.is_empty() {
        return;
    }
    let summary = match other.len() {
        0 => format!("{}, all well", counted(well.len(), "cluster")),
        _ => format!("and {} more, all well", well.len()),
    };
    html.el("details", &[("id", &"well-copies")], |html| {
        html.leaf("summary", &[], summary);
        copy_table(html, &well, &found.findings, now);
    });
}

fn copy_table(html: &mut Html, copies: &[&CopyRow], findings: &[Finding], now: Timestamp) {
    let columns: [Column; 5] = [
        text("Cluster"),
        text("Copy"),
        number("Ready"),
        text("Why, and what to do"),
        number("Since"),
    ];
    let [c_cluster, c_copy, c_ready, c_why, c_since] = &columns;
    parts::table(html, "Copies by cluster", &columns, |html| {
        for copy in copies.iter().take(MAX_COPIES) {
            let mut of_cluster = findings.iter();
            let finding = of_cluster.find(|of| of.cluster.as_ref() == Some(&copy.cluster));
            html.el("tr", &[], |html| {
                parts::cell(html, c_cluster, |html| {
                    parts::cluster_link(html, &copy.cluster);
                });
                parts::cell(html, c_copy, |html| copy_badge(html, copy));
                parts::cell(html, c_ready, |html| html.text(copy.replicas()));
                parts::cell(html, c_why, |html| match (finding, &copy.message) {
                    (Some(finding), _) => {
                        html.text(&finding.message);
                        if let Some(fix) = &finding.fix {
                            parts::action(html, fix);
                        }
                    }
                    (None, Some(message)) if copy.state != CopyState::Well => html.text(message),
                    (None, _) if copy.leaving => {
                        html.text("not a target any more: the copy leaves");
                    }
                    (None, _) => html.leaf("span", &[("class", &"muted")], "-"),
                });
                parts::cell(html, c_since, |html| {
                    let since = finding.and_then(|of| of.since).or(copy.stale_since);
                    parts::since(html, since, now);
                });
            });
        }
    });
    if let Some(more) = copies.len().checked_sub(MAX_COPIES + 1) {
        let text = format!("and {} more", more + 1);
        html.leaf("p", &[("class", &"muted")], text);
    }
}
