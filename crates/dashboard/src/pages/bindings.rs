//! The page with the list of workloads: filters, search, order, and the reason of each state.

use std::collections::BTreeMap;

use axum::response::Html as Document;
use berth_api::BindingKey;
use berth_diagnosis::Reason;
use jiff::Timestamp;

use super::format::count;
use super::parts::{self, Column, Selected, number, text};
use super::{DataState, Tab, frame, still_reading};
use crate::binding_query::{HealthFilter, Order, PAGE_SIZE, Query};
use crate::html::Html;
use crate::store::{BindingRow, Store};

const COLUMNS: [Column; 7] = [
    text("Workload"),
    text("Health"),
    number("Ready"),
    text("Reason"),
    number("Since"),
    text("Clusters"),
    text("Policy"),
];

/// Maximum number of clusters in a row.
const MAX_CLUSTERS: usize = 4;

/// Returns the page.
pub(crate) fn page(store: &Store, query: &Query) -> Document<String> {
    let now = Timestamp::now();
    frame("Workloads", Tab::Workloads, &DataState::of(store), |html| {
        html.leaf("h1", &[], "Workloads");
        filters(html, store, query);
        html.el("div", &[("data-live", &"bindings")], |html| {
            still_reading(html, store);
            let selection = query.select(store, now);
            html.el("p", &[("class", &"summary")], |html| {
                html.leaf("b", &[], count(selection.total));
                html.text(format_args!(
                    " of {} workloads match; {} in total",
                    count(store.bindings.len()),
                    parts::health_counts(&store.health(now)),
                ));
            });
            if selection.rows.is_empty() {
                let hint =
                    "No workload matches. Create a PropagationPolicy, or change the filters.";
                html.leaf("p", &[("class", &"muted")], hint);
                return;
            }
            table(html, &selection.rows, now);
            let path = |page| query.path(page);
            parts::pager(html, selection.page, PAGE_SIZE, selection.total, path);
        });
    })
}

fn filters(html: &mut Html, store: &Store, query: &Query) {
    html.el(
        "form",
        &[("role", &"search"), ("action", &"/bindings")],
        |html| {
            let hint = "name, namespace, kind, reason";
            parts::field(html, "Search", "q", &query.text, hint);
            let healths = HealthFilter::ALL.map(|of| {
                let (value, label) = of.names();
                (
                    value,
                    label.to_owned(),
                    Selected::if_equal(&of, &query.health),
                )
            });
            parts::choice(html, "Health", "health", &healths);
            parts::choice(html, "Reason", "reason", &reasons(store, query));
            parts::field(html, "Cluster", "cluster", &query.cluster, "any");
            parts::field(html, "Policy", "policy", &query.policy, "any");
            let orders = Order::ALL.map(|of| {
                let (value, label) = of.names();
                (
                    value,
                    label.to_owned(),
                    Selected::if_equal(&of, &query.order),
                )
            });
            parts::choice(html, "Order", "sort", &orders);
            html.leaf("button", &[], "Show");
        },
    );
}

/// Returns the reasons that workloads have now, the most frequent first, and the selected one.
fn reasons(store: &Store, query: &Query) -> Vec<(&'static str, String, Selected)> {
    let mut counts: BTreeMap<Reason, usize> = BTreeMap::new();
    for reason in store
        .bindings
        .values()
        .filter_map(|row| row.workload.reason)
    {
        *counts.entry(reason).or_default() += 1;
    }
    if let Some(reason) = query.reason {
        counts.entry(reason).or_default();
    }
    let mut counts: Vec<(Reason, usize)> = counts.into_iter().collect();
    counts.sort_by_key(|(_, number)| std::cmp::Reverse(*number));
    let any = (
        "",
        "Any".to_owned(),
        Selected::if_equal(&query.reason, &None),
    );
    let options = counts.into_iter().map(|(reason, number)| {
        let label = format!("{} ({})", reason.as_str(), count(number));
        (
            reason.as_str(),
            label,
            Selected::if_equal(&query.reason, &Some(reason)),
        )
    });
    std::iter::once(any).chain(options).collect()
}

/// Writes a table of workloads.
pub(super) fn table(html: &mut Html, rows: &[(&BindingKey, &BindingRow)], now: Timestamp) {
    parts::table(html, "Workloads", &COLUMNS, |html| {
        for (name, row) in rows {
            binding(html, name, row, now);
        }
    });
}

fn binding(html: &mut Html, name: &BindingKey, row: &BindingRow, now: Timestamp) {
    let [
        c_workload,
        c_health,
        c_ready,
        c_reason,
        c_since,
        c_clusters,
        c_policy,
    ] = &COLUMNS;
    html.el("tr", &[], |html| {
        parts::cell(html, c_workload, |html| parts::workload(html, name, row));
        parts::cell(html, c_health, |html| parts::states(html, row, now));
        parts::cell(html, c_ready, |html| html.text(row.workload.ready()));
        parts::cell(html, c_reason, |html| parts::reason(html, row));
        parts::cell(html, c_since, |html| {
            parts::since(html, row.workload.since, now);
        });
        parts::cell(html, c_clusters, |html| {
            parts::targets(html, &row.targets, MAX_CLUSTERS);
        });
        parts::cell(html, c_policy, |html| {
            if row.is_dependency() {
                html.leaf("span", &[("class", &"muted")], "dependency");
            } else {
                parts::policy_link(html, row.policy.as_ref());
            }
        });
    });
}
