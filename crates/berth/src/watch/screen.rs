//! The picture on a terminal: clusters, bindings, and the last of what happened, each cut and scrolled to what fits.

use std::collections::VecDeque;

use super::board::Board;
use super::lines::{self, Line, cut, plain};
use super::view::{Pane, View};
use crate::columns::{align, cell};

/// How much of what happened is remembered.
const REMEMBERED: usize = 1000;
/// The lines that events get where there is little room.
const AT_LEAST: usize = 5;
/// How many of the last columns of bindings may be left out.
const LEFT_OUT: usize = 2;
/// How much of the width the name of a binding gets where there is little room: two of these.
const FIFTHS: usize = 5;

const HELP: [&str; 10] = [
    "arrows, j, k       scroll by a line",
    "PgUp, PgDn, space  scroll by a page",
    "Home, End, g, G    go to the beginning, to the end",
    "Tab                scroll clusters, bindings or events",
    "/                  show only bindings and events with a text; Enter keeps it",
    "Esc                show all again",
    "?                  this help; any key leaves it",
    "q, Ctrl-C          quit",
    "",
    "m1 1/2: one of the two replicas that cluster m1 should have is ready",
];

/// Recent events, the newest last.
#[derive(Debug, Default)]
pub(super) struct Events(VecDeque<Line>);

impl Events {
    pub(super) fn push(&mut self, line: Line) {
        if self.0.len() == REMEMBERED {
            self.0.pop_front();
        }
        self.0.push_back(line);
    }
}

/// Returns the lines of the picture, as many and as long as fit; the last one says where the user is.
pub(super) fn picture(
    board: &Board,
    events: &Events,
    view: &mut View,
    (rows, columns): (usize, usize),
) -> Vec<String> {
    let room = rows.saturating_sub(1);
    let mut all = Vec::with_capacity(rows);
    let mut status = String::new();
    if view.shows_help {
        all.extend(HELP.iter().take(room).map(|line| (*line).to_owned()));
    } else {
        let clusters = table(
            &["CLUSTER", "READY", "BINDINGS", "REPLICAS"],
            &cluster_rows(board),
        );
        let bindings = bindings(board, view, columns);
        let events: Vec<String> = events
            .0
            .iter()
            .filter(|line| view.admits(&line.to_string()))
            .map(|line| line.fit(columns))
            .collect();
        let own_half = room / 2;
        let mut pane = |pane, mut lines: Vec<String>, most: usize, all: &mut Vec<String>| {
            let header = if pane == Pane::Events || lines.is_empty() || most == 0 {
                Vec::new()
            } else {
                vec![lines.remove(0)]
            };
            let most = most.saturating_sub(header.len());
            let first = view.first(pane, lines.len(), most);
            if view.focus == pane {
                let last = lines.len().min(first + most);
                let of = format!("{}-{last} of {}", (first + 1).min(last), lines.len());
                status = format!("{} {of}", name_of(pane));
            }
            all.extend(header);
            all.extend(lines.into_iter().skip(first).take(most));
        };
        pane(Pane::Clusters, clusters, own_half, &mut all);
        all.push(String::new());
        let left = room.saturating_sub(all.len());
        let most = left.saturating_sub(AT_LEAST.min(events.len()) + 1);
        pane(Pane::Bindings, bindings, most, &mut all);
        all.push(String::new());
        let left = room.saturating_sub(all.len());
        pane(Pane::Events, events, left, &mut all);
        all.truncate(room);
    }
    if rows > 0 {
        all.resize(room, String::new());
        all.push(foot(view, &status));
    }
    let fit = |line: &String| cut(&plain(line), columns);
    all.iter().map(fit).collect()
}

fn name_of(pane: Pane) -> &'static str {
    match pane {
        Pane::Clusters => "clusters",
        Pane::Bindings => "bindings",
        Pane::Events => "events",
    }
}

fn foot(view: &View, status: &str) -> String {
    let keys = "q quit  ? help  / filter";
    match (view.is_typing, view.filter.as_str()) {
        (true, filter) => format!("/{filter}"),
        (false, "") => format!("{status}   {keys}").trim_start().to_owned(),
        (false, filter) => format!("{status} with {filter:?}   Esc all  {keys}"),
    }
}

/// The table of bindings; where the terminal is narrow, without what is known anyway, and with shorter names.
fn bindings(board: &Board, view: &View, columns: usize) -> Vec<String> {
    let mut header = vec!["BINDING", "WANTED", "READY", "CLUSTERS", "KIND", "POLICY"];
    let mut rows = binding_rows(board);
    rows.retain(|row| view.admits(&row.join(" ")));
    let fits = |lines: &[String]| lines.iter().all(|line| line.chars().count() <= columns);
    let mut lines = table(&header, &rows);
    for _ in 0..LEFT_OUT {
        if fits(&lines) {
            break;
        }
        header.pop();
        for row in &mut rows {
            row.pop();
        }
        lines = table(&header, &rows);
    }
    if !fits(&lines) {
        for name in rows.iter_mut().filter_map(|row| row.first_mut()) {
            *name = cut(name, columns * 2 / FIFTHS);
        }
        lines = table(&header, &rows);
    }
    lines
}

fn table(header: &[&str], rows: &[Vec<String>]) -> Vec<String> {
    align(header, rows).lines().map(str::to_owned).collect()
}

fn cluster_rows(board: &Board) -> Vec<Vec<String>> {
    let rows = board.clusters.iter().map(|(name, ready)| {
        let there = board.rows.values().filter_map(|row| row.places.get(name));
        let (mut bindings, mut replicas) = (0, 0);
        for place in there {
            bindings += 1;
            replicas += place.replicas.unwrap_or_default();
        }
        let ready = if *ready { "yes" } else { "NO" };
        vec![
            name.clone(),
            ready.to_owned(),
            bindings.to_string(),
            replicas.to_string(),
        ]
    });
    rows.collect()
}

fn binding_rows(board: &Board) -> Vec<Vec<String>> {
    let rows = board.rows.iter().map(|(key, row)| {
        let places: Vec<String> = row
            .places
            .iter()
            .map(|(name, place)| lines::place(name, place, row))
            .collect();
        let place = match &row.failure {
            Some(failure) if places.is_empty() => plain(failure),
            _ => places.join(", "),
        };
        let policy = if row.policy.is_empty() && !row.follows.is_empty() {
            format!("follows {}", row.follows.join(", "))
        } else {
            row.policy.clone()
        };
        let given = |text: &String| (!text.is_empty()).then(|| text.clone());
        vec![
            key.to_string(),
            cell(row.wanted),
            cell(row.ready()),
            cell(given(&place)),
            row.kind.clone(),
            cell(given(&policy)),
        ]
    });
    rows.collect()
}

#[cfg(test)]
#[path = "screen_tests.rs"]
mod tests;
