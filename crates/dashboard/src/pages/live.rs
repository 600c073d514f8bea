//! The live page: placements and moves of bindings since the dashboard started.

use axum::response::Html as Document;

use super::format::{clock, count, path};
use super::parts::{self, Column, text};
use super::{DataState, Tab, frame, still_reading};
use crate::binding_query::PAGE_SIZE;
use crate::html::Html;
use crate::store::{Move, Store, Targets};

const COLUMNS: [Column; 6] = [
    text("Time (UTC)"),
    text("Change"),
    text("Binding"),
    text("Before"),
    text("After"),
    text("Who and why"),
];

/// Maximum number of clusters in a cell.
const MAX_CLUSTERS: usize = 8;

/// Returns the page.
pub(crate) fn page(store: &Store) -> Document<String> {
    frame("Live", Tab::Live, &DataState::of(store), |html| {
        html.leaf("h1", &[], "Live");
        let lead = "Placements and moves since the dashboard started, the newest first.";
        html.leaf("p", &[("class", &"muted")], lead);
        html.el(
            "div",
            &[("data-live", &"live"), ("aria-live", &"polite")],
            |html| {
                still_reading(html, store);
                let kept = store.moves.newest_first().count();
                let mut moves = store.moves.newest_first().take(PAGE_SIZE).peekable();
                if moves.peek().is_none() {
                    html.leaf(
                        "p",
                        &[("class", &"muted")],
                        "No binding was placed or moved yet.",
                    );
                } else {
                    table(html, moves);
                }
                if kept > PAGE_SIZE {
                    let text = format_args!(
                        "The newest {PAGE_SIZE} of {} changes. The page of a workload lists its own.",
                        count(kept)
                    );
                    html.leaf("p", &[("class", &"muted")], text);
                }
            },
        );
    })
}

/// Writes a table of moves.
fn table<'a>(html: &mut Html, moves: impl Iterator<Item = &'a Move>) {
    let [c_time, c_change, c_binding, c_before, c_after, c_cause] = &COLUMNS;
    parts::table(html, "Moves", &COLUMNS, |html| {
        for of in moves {
            html.el("tr", &[], |html| {
                parts::cell(html, c_time, |html| html.leaf("time", &[], clock(of.at)));
                parts::cell(html, c_change, |html| {
                    html.text(describe(&of.before, &of.after));
                });
                parts::cell(html, c_binding, |html| {
                    let path = path(&of.binding);
                    html.leaf("a", &[("href", &path), ("class", &"name")], &of.binding);
                    html.leaf("span", &[("class", &"sub")], &of.workload);
                });
                parts::cell(html, c_before, |html| {
                    parts::targets(html, &of.before, MAX_CLUSTERS);
                });
                parts::cell(html, c_after, |html| {
                    parts::targets(html, &of.after, MAX_CLUSTERS);
                });
                parts::cell(html, c_cause, |html| html.text(of.cause.describe()));
            });
        }
    });
}

/// Describes a move by the numbers of clusters that gain and lose the workload.
pub(super) fn describe(before: &Targets, after: &Targets) -> String {
    if before.is_empty() {
        return "Placed".to_owned();
    }
    if after.is_empty() {
        return "Removed".to_owned();
    }
    let gained = after.iter().filter(|(name, _)| before.get(name).is_none());
    let lost = before.iter().filter(|(name, _)| after.get(name).is_none());
    match (gained.count(), lost.count()) {
        (0, 0) => "Replicas changed".to_owned(),
        (gained, 0) => format!("{gained} added"),
        (0, lost) => format!("{lost} removed"),
        (gained, lost) => format!("{lost} removed, {gained} added"),
    }
}
