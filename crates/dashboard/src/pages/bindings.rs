//! The page with the list of bindings: filters, search, order, and the reason of each state.

use std::fmt::Display;

use axum::response::Html as Document;
use berth_api::BindingKey;
use jiff::Timestamp;

use super::format::{age, count, path};
use super::parts::{self, Column, number, text};
use super::{Tab, frame};
use crate::binding_query::{Order, PAGE_SIZE, Query, StateFilter};
use crate::html::Html;
use crate::store::{BindingRow, Store};

const COLUMNS: [Column; 7] = [
    text("Binding"),
    text("State"),
    number("Replicas"),
    text("Clusters"),
    text("Policy"),
    text("Reason"),
    number("Age"),
];

/// Maximum number of clusters in a row.
const MAX_CLUSTERS: usize = 4;

/// Returns the page.
pub(crate) fn page(store: &Store, query: &Query) -> Document<String> {
    frame("Bindings", Tab::Bindings, |html| {
        html.leaf("h1", &[], "Bindings");
        filters(html, query);
        html.el("div", &[("data-live", &"bindings")], |html| {
            let selection = query.select(store);
            let totals = store.totals;
            html.el("p", &[("class", &"summary")], |html| {
                let all = count(store.bindings.len());
                html.leaf("b", &[], count(selection.total));
                html.text(format_args!(
                    " of {all} bindings match; {} unschedulable, {} waiting, {} not applied, {} suspended, {} moving in total",
                    count(totals.unschedulable),
                    count(totals.waiting),
                    count(totals.not_applied),
                    count(totals.suspended),
                    count(totals.moving),
                ));
            });
            if selection.rows.is_empty() {
                let hint = "No binding matches. Create a PropagationPolicy, or change the filters.";
                html.leaf("p", &[("class", &"muted")], hint);
                return;
            }
            let now = Timestamp::now();
            parts::table(html, "Bindings", &COLUMNS, |html| {
                for (name, row) in &selection.rows {
                    binding(html, name, row, now);
                }
            });
            parts::pager(html, selection.page, PAGE_SIZE, selection.total, |page| query.path(page));
        });
    })
}

fn filters(html: &mut Html, query: &Query) {
    html.el(
        "form",
        &[("role", &"search"), ("action", &"/bindings")],
        |html| {
            field(
                html,
                "Search",
                "q",
                &query.text,
                "name, namespace, kind, reason",
            );
            let states = StateFilter::ALL.map(|state| (state.names(), state == query.state));
            choice(html, "State", "state", &states);
            field(html, "Cluster", "cluster", &query.cluster, "any");
            field(html, "Policy", "policy", &query.policy, "any");
            let orders = Order::ALL.map(|order| (order.names(), order == query.order));
            choice(html, "Order", "sort", &orders);
            html.leaf("button", &[], "Show");
        },
    );
}

fn field(html: &mut Html, label: &str, name: &str, value: &str, hint: &str) {
    html.el("label", &[], |html| {
        html.leaf("span", &[], label);
        let kind = if name == "q" { "search" } else { "text" };
        html.void(
            "input",
            &[
                ("type", &kind),
                ("name", &name),
                ("value", &value),
                ("placeholder", &hint),
            ],
        );
    });
}

fn choice(
    html: &mut Html,
    label: &str,
    name: &str,
    options: &[((&'static str, &'static str), bool)],
) {
    html.el("label", &[], |html| {
        html.leaf("span", &[], label);
        html.el("select", &[("name", &name)], |html| {
            for ((value, text), is_chosen) in options {
                let mut attributes: Vec<(&'static str, &dyn Display)> = vec![("value", value)];
                if *is_chosen {
                    attributes.push(("selected", &""));
                }
                html.leaf("option", &attributes, text);
            }
        });
    });
}

fn binding(html: &mut Html, name: &BindingKey, row: &BindingRow, now: Timestamp) {
    let [
        c_binding,
        c_state,
        c_replicas,
        c_clusters,
        c_policy,
        c_reason,
        c_age,
    ] = &COLUMNS;
    html.el("tr", &[], |html| {
        parts::cell(html, c_binding, |html| {
            let attributes: [(&str, &dyn Display); 2] = [("href", &path(name)), ("class", &"name")];
            html.leaf("a", &attributes, name);
            html.leaf("span", &[("class", &"sub")], row.workload());
        });
        parts::cell(html, c_state, |html| parts::states(html, row));
        parts::cell(html, c_replicas, |html| html.text(row.replicas));
        parts::cell(html, c_clusters, |html| {
            parts::targets(html, &row.targets, MAX_CLUSTERS);
        });
        parts::cell(html, c_policy, |html| {
            html.text(row.policy.as_deref().unwrap_or("-"));
        });
        parts::cell(html, c_reason, |html| reason(html, row));
        parts::cell(html, c_age, |html| {
            html.text(
                row.created
                    .map_or_else(|| "-".to_owned(), |at| age(at, now)),
            );
        });
    });
}

/// Writes the reason of a binding, or a dash if the binding has no reason. The message of the binding follows, unless
/// the reason is `Success`.
pub(crate) fn reason(html: &mut Html, row: &BindingRow) {
    html.leaf(
        "span",
        &[],
        if row.reason.is_empty() {
            "-"
        } else {
            &row.reason
        },
    );
    if !row.message.is_empty() && &*row.reason != "Success" {
        html.leaf("span", &[("class", &"sub message")], &row.message);
    }
}
