//! The what-if page: the form for a change, and the diagram and table of the moves that a simulation predicts. The
//! simulation writes no object.

mod diagram;
mod form;

use std::fmt::Display;

use axum::response::Html as Document;

pub(crate) use self::form::Form;
use super::format::{clock, count, full_name, path, thousands};
use super::parts::{self, Column, number, text};
use super::{Tab, frame};
use crate::html::Html;
use crate::simulation::{MAX_MOVES, Placement, PredictedMove, Simulation};
use crate::simulation_runner::FinishedSimulation;
use crate::store::Store;

const COLUMNS: [Column; 5] = [
    text("Binding"),
    text("From"),
    text("To"),
    number("Replicas"),
    text("Reason"),
];

/// Number of moves per page.
const PAGE_SIZE: usize = 25;
/// Maximum number of clusters in a cell.
const MAX_CLUSTERS: usize = 6;

/// Returns the page. Without an outcome, the page has only the form.
pub(crate) fn page(
    store: &Store,
    form: &Form,
    outcome: Option<&Result<FinishedSimulation, String>>,
) -> Document<String> {
    frame("What if", Tab::WhatIf, |html| {
        html.leaf("h1", &[], "What if");
        let lead = "See which bindings a change would move. Nothing is written.";
        html.leaf("p", &[("class", &"muted")], lead);
        form.write(html, store);
        match outcome {
            None => {}
            Some(Err(reason)) => {
                let attributes: [(&str, &dyn Display); 2] =
                    [("class", &"verdict failed"), ("role", &"alert")];
                html.el("div", &attributes, |html| {
                    html.el("p", &[], |html| {
                        html.leaf("b", &[], "No result");
                        html.text(format_args!(": {reason}"));
                    });
                });
            }
            Some(Ok(finished)) => result(html, form, finished),
        }
    })
}

fn result(html: &mut Html, form: &Form, finished: &FinishedSimulation) {
    let simulation = &*finished.simulation;
    let section = [
        ("aria-labelledby", &"result" as &dyn Display),
        ("id", &"moves"),
    ];
    html.el("section", &section, |html| {
        html.leaf("h2", &[("id", &"result")], "Moves");
        html.el("p", &[("class", &"summary")], |html| {
            html.leaf("b", &[], summary(simulation));
            let at = format!(". State of {} UTC.", clock(finished.started_at));
            html.text(at);
        });
        if !simulation.moves.is_empty() {
            moves(html, form, simulation);
        }
        html.leaf("h2", &[], "Limits and remarks");
        html.el("ul", &[], |html| {
            for remark in &simulation.remarks {
                html.leaf("li", &[], sentence(remark));
            }
        });
        html.leaf("h2", &[], "On the command line");
        html.leaf("code", &[], form.command());
    });
}

fn moves(html: &mut Html, form: &Form, simulation: &Simulation) {
    let total = simulation.moves.len();
    let page = form.page().min(total.div_ceil(PAGE_SIZE)).max(1);
    let shown = simulation
        .moves
        .chunks(PAGE_SIZE)
        .nth(page - 1)
        .unwrap_or_default();
    diagram::write(html, shown);
    parts::table(html, "Moves", &COLUMNS, |html| {
        for of in shown {
            row(html, of);
        }
    });
    if simulation.changed > total {
        let text = format!(
            "The first {} of {} moves are listed; `berth simulate` prints all.",
            count(MAX_MOVES),
            count(simulation.changed)
        );
        html.leaf("p", &[("class", &"muted")], text);
    }
    parts::pager(html, page, PAGE_SIZE, total, |page| form.path(page));
}

/// Returns the totals in the wording of `berth simulate`.
fn summary(simulation: &Simulation) -> String {
    let bindings = match simulation.examined {
        1 => "1 binding".to_owned(),
        several => format!("{} bindings", count(several)),
    };
    format!(
        "{bindings} looked at, {} would move, {} would become unschedulable",
        count(simulation.changed - simulation.unschedulable),
        count(simulation.unschedulable)
    )
}

fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(char::to_uppercase);
    let mut sentence: String = first.into_iter().flatten().chain(letters).collect();
    sentence.push('.');
    sentence
}

fn row(html: &mut Html, of: &PredictedMove) {
    let [c_binding, c_from, c_to, c_replicas, c_reason] = &COLUMNS;
    html.el("tr", &[], |html| {
        parts::cell(html, c_binding, |html| {
            let path = path(&of.binding);
            let attributes: [(&str, &dyn Display); 2] = [("href", &path), ("class", &"name")];
            html.leaf("a", &attributes, full_name(&of.binding));
        });
        parts::cell(html, c_from, |html| {
            placement(html, &of.from, of.has_replicas);
        });
        parts::cell(html, c_to, |html| placement(html, &of.to, of.has_replicas));
        parts::cell(html, c_replicas, |html| {
            if !of.has_replicas {
                html.text("-");
            } else if of.from.replicas == of.to.replicas {
                html.text(thousands(of.to.replicas));
            } else {
                let (from, to) = (thousands(of.from.replicas), thousands(of.to.replicas));
                html.text(format_args!("{from} → {to}"));
            }
        });
        parts::cell(html, c_reason, |html| match &of.failure {
            Some(failure) => html.leaf("span", &[("class", &"no")], failure),
            None => html.text("-"),
        });
    });
}

fn placement(html: &mut Html, of: &Placement, has_replicas: bool) {
    if of.clusters.is_empty() {
        html.leaf("span", &[("class", &"muted")], "none");
        return;
    }
    html.el("span", &[("class", &"chips")], |html| {
        for (cluster, replicas) in of.clusters.iter().take(MAX_CLUSTERS) {
            html.el("span", &[("class", &"chip")], |html| {
                html.text(cluster);
                if has_replicas {
                    html.leaf("b", &[], format_args!(" {replicas}"));
                }
            });
        }
        if of.total > MAX_CLUSTERS {
            let more = format!("and {} more", count(of.total - MAX_CLUSTERS));
            html.leaf("span", &[("class", &"muted")], more);
        }
    });
}

#[cfg(test)]
mod tests;
