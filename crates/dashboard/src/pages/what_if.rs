//! The what-if page: the form for a change, and the diagram and table of the moves that a simulation predicts. The
//! simulation writes no object.

mod diagram;
mod form;

use std::fmt::Display;

use axum::response::Html as Document;
use berth_plan::what_if::{Move, Moves, Share};

pub(crate) use self::form::Form;
use super::format::{clock, count, path, thousands};
use super::parts::{self, Column, number, text};
use super::{DataState, Tab, frame};
use crate::html::Html;
use crate::simulation_runner::{FinishedSimulation, MAX_MOVES};
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
    frame("What if", Tab::WhatIf, &DataState::of(store), |html| {
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
    let section = [
        ("aria-labelledby", &"result" as &dyn Display),
        ("id", &"moves"),
    ];
    html.el("section", &section, |html| {
        html.leaf("h2", &[("id", &"result")], "Moves");
        html.el("p", &[("class", &"summary")], |html| {
            html.leaf("b", &[], finished.moves.summary(count));
            let at = format!(". State of {} UTC.", clock(finished.started_at));
            html.text(at);
        });
        if !finished.moves.moves.is_empty() {
            moves(html, form, &finished.moves);
        }
        html.leaf("h2", &[], "Limits and remarks");
        html.el("ul", &[], |html| {
            for remark in &*finished.remarks {
                html.leaf("li", &[], sentence(remark));
            }
        });
        html.leaf("h2", &[], "On the command line");
        html.leaf("code", &[], form.command());
    });
}

fn moves(html: &mut Html, form: &Form, predicted: &Moves) {
    let total = predicted.moves.len();
    let page = form.page().min(total.div_ceil(PAGE_SIZE)).max(1);
    let shown = predicted
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
    if predicted.changed() > total {
        let text = format!(
            "The first {} of {} moves are listed; `berth simulate` prints all.",
            count(MAX_MOVES),
            count(predicted.changed())
        );
        html.leaf("p", &[("class", &"muted")], text);
    }
    parts::pager(html, page, PAGE_SIZE, total, |page| form.path(page));
}

fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(char::to_uppercase);
    let mut sentence: String = first.into_iter().flatten().chain(letters).collect();
    sentence.push('.');
    sentence
}

fn row(html: &mut Html, of: &Move) {
    let [c_binding, c_from, c_to, c_replicas, c_reason] = &COLUMNS;
    let (key, from, to) = (&of.to.key, &of.from, &of.to.clusters);
    let has_replicas = of.to.replicas.is_some();
    html.el("tr", &[], |html| {
        parts::cell(html, c_binding, |html| {
            let path = path(key);
            let attributes: [(&str, &dyn Display); 2] = [("href", &path), ("class", &"name")];
            html.leaf("a", &attributes, key);
        });
        parts::cell(html, c_from, |html| placement(html, from, has_replicas));
        parts::cell(html, c_to, |html| placement(html, to, has_replicas));
        parts::cell(html, c_replicas, |html| {
            let (before, after) = (replicas(from), replicas(to));
            if !has_replicas {
                html.text("-");
            } else if before == after {
                html.text(thousands(after));
            } else {
                let (before, after) = (thousands(before), thousands(after));
                html.text(format_args!("{before} → {after}"));
            }
        });
        parts::cell(html, c_reason, |html| match &of.to.failure {
            Some(failure) => html.leaf("span", &[("class", &"no")], &failure.message),
            None => html.text("-"),
        });
    });
}

/// Returns the number of replicas on all clusters.
fn replicas(shares: &[Share]) -> i64 {
    shares.iter().map(|share| i64::from(share.replicas)).sum()
}

fn placement(html: &mut Html, shares: &[Share], has_replicas: bool) {
    if shares.is_empty() {
        html.leaf("span", &[("class", &"muted")], "none");
        return;
    }
    html.el("span", &[("class", &"chips")], |html| {
        for share in shares.iter().take(MAX_CLUSTERS) {
            html.el("span", &[("class", &"chip")], |html| {
                html.text(&share.name);
                if has_replicas {
                    html.leaf("b", &[], format_args!(" {}", share.replicas));
                }
            });
        }
        if shares.len() > MAX_CLUSTERS {
            let more = format!("and {} more", count(shares.len() - MAX_CLUSTERS));
            html.leaf("span", &[("class", &"muted")], more);
        }
    });
}

#[cfg(test)]
mod tests;
