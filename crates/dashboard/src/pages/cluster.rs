//! The page of a cluster: its state, conditions, taints and capacity, the workloads there, and what would leave if it
//! went.

use axum::response::Html as Document;
use berth_api::{BindingKey, Cluster};
use berth_diagnosis::{ClusterState, CopyRow, CopyState};
use jiff::Timestamp;

use super::fleet::location_text;
use super::format::{age, bytes, cores, count, counted, thousands};
use super::parts::{self, Column, Tone, number, text};
use super::{DataState, Tab, frame, not_found};
use crate::binding_query::{PAGE_SIZE, encode};
use crate::html::Html;
use crate::store::{BindingRow, ClusterHealth, ClusterRow, Store};

/// Returns the page. `cluster` is the object, whose conditions the page shows.
pub(crate) fn page(store: &Store, name: &str, cluster: Option<&Cluster>) -> Document<String> {
    let data = DataState::of(store);
    let Some(row) = store.clusters.get(name) else {
        return not_found(&data);
    };
    let now = Timestamp::now();
    frame(name, Tab::Fleet, &data, |html| {
        html.leaf("h1", &[], name);
        html.el("div", &[("data-live", &"cluster")], |html| {
            state(html, row, now);
            parts::evictions_paused(html, &store.evictions_paused(std::iter::once(name)));
            summary(html, store, name, row);
            what_if(html, store, name);
            html.leaf("h2", &[], "Capacity");
            capacity(html, row);
            html.leaf("h2", &[], "Conditions");
            conditions(html, cluster, now);
            html.leaf("h2", &[], "Workloads");
            workloads(html, store, name, now);
        });
    })
}

fn state(html: &mut Html, row: &ClusterRow, now: Timestamp) {
    let class = match row.health() {
        ClusterHealth::NotReady => "verdict broken",
        ClusterHealth::Impaired => "verdict degraded",
        ClusterHealth::Tainted | ClusterHealth::Ready => "verdict well",
    };
    html.el("div", &[("class", &class)], |html| {
        html.el("p", &[], |html| {
            parts::cluster_states(html, row);
            if let ClusterState::NotReady { since: Some(since) } = row.state {
                html.text(format_args!(" for {}", age(since, now)));
            }
        });
        if !row.is_ready() {
            html.leaf("p", &[], &row.message);
            let text = "Its last reports are outdated, and its free capacity does not count.";
            html.leaf("p", &[("class", &"sub")], text);
        }
    });
}

fn summary(html: &mut Html, store: &Store, name: &str, row: &ClusterRow) {
    let load = store.load(name);
    html.el("dl", &[], |html| {
        parts::entry(html, "Location", |html| html.text(location_text(row)));
        parts::entry(html, "Version", |html| {
            html.text(if row.version.is_empty() {
                "not reported"
            } else {
                &row.version
            });
        });
        parts::entry(html, "Workloads", |html| html.text(count(load.bindings)));
        parts::entry(html, "Replicas", |html| html.text(thousands(load.replicas)));
        parts::entry(html, "Taints", |html| {
            if row.taints.is_empty() {
                html.leaf("span", &[("class", &"muted")], "none");
            }
            for taint in &row.taints {
                html.leaf("code", &[], taint);
            }
        });
    });
}

/// Writes the links to simulations of changes of the cluster.
fn what_if(html: &mut Html, store: &Store, name: &str) {
    let encoded = encode(name);
    html.el("p", &[("class", &"choices")], |html| {
        if store.load(name).bindings > 0 {
            let path = format!("/what-if?change=lose&cluster={encoded}&run=1");
            html.leaf("a", &[("href", &path)], "What would leave if it went?");
        }
        let path = format!("/what-if?change=taint&cluster={encoded}");
        html.leaf("a", &[("href", &path)], "What if it gets a taint?");
        let path = format!("/bindings?cluster={encoded}");
        html.leaf("a", &[("href", &path)], "Its workloads as a list");
    });
}

fn capacity(html: &mut Html, row: &ClusterRow) {
    html.el("div", &[("class", &"tile")], |html| {
        for (name, of, text) in [
            ("CPU cores", row.cpu, cores as fn(i64) -> String),
            ("Memory", row.memory, bytes),
            ("Pods", row.pods, thousands),
        ] {
            html.el("div", &[("class", &"meter")], |html| {
                html.leaf("span", &[("class", &"label")], name);
                match of {
                    Some(of) => parts::capacity(html, of, text),
                    None => html.leaf("span", &[("class", &"muted")], "not reported"),
                }
            });
        }
        if !row.is_ready() {
            let note = "Last reported. It is not usable while the cluster is not ready.";
            html.leaf("p", &[("class", &"note")], note);
        }
    });
}

fn conditions(html: &mut Html, cluster: Option<&Cluster>, now: Timestamp) {
    let status = cluster.and_then(|cluster| cluster.status.as_ref());
    let conditions = status.map(|status| &status.conditions[..]);
    let conditions = conditions.unwrap_or_default();
    if conditions.is_empty() {
        html.leaf(
            "p",
            &[("class", &"muted")],
            "The cluster has no conditions.",
        );
        return;
    }
    let columns: [Column; 4] = [
        text("Condition"),
        text("Status"),
        text("Reason"),
        number("Since"),
    ];
    let [c_type, c_status, c_reason, c_since] = &columns;
    parts::table(html, "Conditions", &columns, |html| {
        for of in conditions {
            html.el("tr", &[], |html| {
                parts::cell(html, c_type, |html| {
                    html.leaf("span", &[("class", &"name")], &of.type_);
                });
                parts::cell(html, c_status, |html| html.text(&of.status));
                parts::cell(html, c_reason, |html| {
                    html.leaf("span", &[], &of.reason);
                    html.leaf("span", &[("class", &"sub message")], &of.message);
                });
                parts::cell(html, c_since, |html| {
                    parts::since(html, Some(of.last_transition_time.0), now);
                });
            });
        }
    });
}

/// Writes the workloads with a copy in the cluster: the worst first.
fn workloads(html: &mut Html, store: &Store, name: &str, now: Timestamp) {
    let rows = store.bindings.iter();
    let mut rows: Vec<(&BindingKey, &BindingRow)> = rows
        .filter(|(_, row)| row.has_copy_in(|cluster| cluster == name))
        .collect();
    if rows.is_empty() {
        html.leaf("p", &[("class", &"muted")], "No workload has a copy here.");
        return;
    }
    rows.sort_by_key(|(_, row)| row.workload.rank(now));
    let columns: [Column; 6] = [
        text("Workload"),
        text("Copy here"),
        number("Ready here"),
        text("Health"),
        number("Ready"),
        text("Reason"),
    ];
    let [c_workload, c_copy, c_here, c_health, c_ready, c_reason] = &columns;
    parts::table(html, "Workloads in the cluster", &columns, |html| {
        for (key, row) in rows.iter().take(PAGE_SIZE) {
            let diagnosis = store.diagnosis(key, row, now);
            let mut copies = diagnosis.copies.iter();
            let copy = copies.find(|copy| copy.cluster == name);
            html.el("tr", &[], |html| {
                parts::cell(html, c_workload, |html| parts::workload(html, key, row));
                parts::cell(html, c_copy, |html| {
                    if let Some(copy) = copy {
                        copy_badge(html, copy);
                    }
                });
                parts::cell(html, c_here, |html| {
                    html.text(copy.map(CopyRow::replicas).unwrap_or_default());
                });
                parts::cell(html, c_health, |html| parts::states(html, row, now));
                parts::cell(html, c_ready, |html| html.text(row.workload.ready()));
                parts::cell(html, c_reason, |html| parts::reason(html, row));
            });
        }
    });
    if rows.len() > PAGE_SIZE {
        let path = format!("/bindings?cluster={}", encode(name));
        let label = format!("All {}", counted(rows.len(), "workload"));
        html.leaf("a", &[("href", &path)], label);
    }
}

/// Writes the state of a copy.
pub(super) fn copy_badge(html: &mut Html, copy: &CopyRow) {
    let tone = match copy.state {
        CopyState::Well => Tone::Good,
        CopyState::Partly | CopyState::Stale => Tone::Warning,
        CopyState::Pending | CopyState::ClusterMissing => Tone::Info,
        CopyState::NotApplied => Tone::Bad,
        CopyState::Down => Tone::Worst,
    };
    html.el("span", &[("class", &"badges")], |html| {
        parts::badge(html, tone, copy.state.as_str());
        if copy.leaving {
            parts::badge(html, Tone::Neutral, "leaving");
        }
    });
}
