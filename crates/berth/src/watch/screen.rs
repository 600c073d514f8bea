//! Layout of the terminal screen: one pane each for clusters, bindings and recent events. Panes are cut and scrolled to
//! fit into the screen.

use std::collections::VecDeque;

use super::fleet_state::FleetState;
use super::lines::{self, Line, cut, plain};
use super::view::{Pane, View};
use crate::columns::{align, cell};

/// Maximum number of stored events.
const MAX_EVENTS: usize = 1000;
/// Minimum numbers of lines of the panes, with their headers. A small screen shows fewer events, or only one pane.
const MIN_CLUSTER_LINES: usize = 2;
const MIN_BINDING_LINES: usize = 3;
const MIN_EVENT_LINES: usize = 5;
/// Number of rightmost columns of the bindings table that a narrow terminal may omit.
const OPTIONAL_COLUMNS: usize = 2;
/// Divisor of the terminal width. On a narrow terminal, the name of a binding gets at most two fifths of the width.
const FIFTHS: usize = 5;

const HELP: [&str; 11] = [
    "arrows, j, k       scroll by a line",
    "PgUp, PgDn, space  scroll by a page",
    "Home, End, g, G    scroll to the beginning or the end",
    "Tab                scroll clusters, bindings or events",
    "/                  filter bindings and events by text; Enter keeps the filter",
    "Esc                remove the filter",
    "?                  this help; any key except q closes it",
    "q, Ctrl-C          quit",
    "",
    "m1 1/2: one of two replicas in cluster m1 is ready",
    "(moving): old replicas stay until new ones are ready",
];

/// Recent events, the newest last.
#[derive(Debug, Default)]
pub(super) struct Events(VecDeque<Line>);

impl Events {
    pub(super) fn push(&mut self, line: Line) {
        if self.0.len() == MAX_EVENTS {
            self.0.pop_front();
        }
        self.0.push_back(line);
    }
}

/// Returns the lines of the screen, cut to the size of the terminal. The last line shows the scroll position and the
/// main keys, or the filter while the user types it.
pub(super) fn render(
    fleet: &FleetState,
    events: &Events,
    view: &mut View,
    (rows, columns): (usize, usize),
) -> Vec<String> {
    let height = rows.saturating_sub(1);
    let mut all = Vec::with_capacity(rows);
    let mut status = String::new();
    if view.shows_help {
        all.extend(HELP.iter().take(height).map(|line| (*line).to_owned()));
    } else {
        let clusters = table(
            &["CLUSTER", "READY", "BINDINGS", "REPLICAS"],
            &cluster_rows(fleet),
        );
        let bindings = bindings(fleet, view, columns);
        let events: Vec<String> = events
            .0
            .iter()
            .filter(|line| view.admits(&line.to_string()))
            .map(|line| line.fit(columns))
            .collect();
        let heights = Heights::of(
            height,
            [clusters.len(), bindings.len(), events.len()],
            view.focus,
        );
        let mut pane = |pane, mut lines: Vec<String>, max_lines: usize, all: &mut Vec<String>| {
            if max_lines == 0 {
                return;
            }
            if !all.is_empty() {
                all.push(String::new());
            }
            let header = if pane == Pane::Events || lines.is_empty() {
                Vec::new()
            } else {
                vec![lines.remove(0)]
            };
            let max_lines = max_lines.saturating_sub(header.len());
            let first = view.first(pane, lines.len(), max_lines);
            if view.focus == pane {
                let last = lines.len().min(first + max_lines);
                let of = format!("{}-{last} of {}", (first + 1).min(last), lines.len());
                status = format!("{} {of}", pane_name(pane));
            }
            all.extend(header);
            all.extend(lines.into_iter().skip(first).take(max_lines));
        };
        pane(Pane::Clusters, clusters, heights.clusters, &mut all);
        pane(Pane::Bindings, bindings, heights.bindings, &mut all);
        pane(Pane::Events, events, heights.events, &mut all);
        all.truncate(height);
    }
    if rows > 0 {
        all.resize(height, String::new());
        all.push(footer(view, &status));
    }
    let fit = |line: &String| cut(&plain(line), columns);
    all.iter().map(fit).collect()
}

/// The numbers of lines of the panes, with their headers. A pane without lines is hidden.
#[derive(Debug, Default, PartialEq, Eq)]
struct Heights {
    clusters: usize,
    bindings: usize,
    events: usize,
}

impl Heights {
    /// Divides the lines of the screen between panes that have these numbers of lines. The pane of events shrinks
    /// before the pane of bindings. If the focused pane does not fit beside the others, it gets the whole screen.
    fn of(height: usize, [clusters, bindings, events]: [usize; 3], focus: Pane) -> Self {
        let alone = match focus {
            Pane::Clusters => Self {
                clusters: height,
                ..Self::default()
            },
            Pane::Bindings => Self {
                bindings: height,
                ..Self::default()
            },
            Pane::Events => Self {
                events: height,
                ..Self::default()
            },
        };
        let least_clusters = clusters.min(MIN_CLUSTER_LINES);
        let clusters = clusters.min(height / 2);
        // One line is empty between two panes.
        let left = height.saturating_sub(clusters + 1);
        let least = bindings.min(MIN_BINDING_LINES);
        let room = left.saturating_sub(least + 1);
        let event_lines = events.min(MIN_EVENT_LINES).min(room);
        let bindings = if event_lines == 0 {
            bindings.min(left)
        } else {
            bindings.min(left - event_lines - 1)
        };
        let hides_focus = focus == Pane::Events && event_lines == 0 && events > 0;
        if clusters < least_clusters || bindings < least || hides_focus {
            return alone;
        }
        Self {
            clusters,
            bindings,
            events: left.saturating_sub(bindings + 1),
        }
    }
}

fn pane_name(pane: Pane) -> &'static str {
    match pane {
        Pane::Clusters => "clusters",
        Pane::Bindings => "bindings",
        Pane::Events => "events",
    }
}

fn footer(view: &View, status: &str) -> String {
    let keys = "q quit  ? help  / filter";
    match (view.is_typing, view.filter.as_str()) {
        (true, filter) => format!("/{filter}"),
        (false, "") => format!("{status}   {keys}").trim_start().to_owned(),
        (false, filter) => format!("{status} with {filter:?}   Esc all  {keys}"),
    }
}

/// Returns the table of bindings. If the table is too wide, the last columns are omitted, and then the names of
/// bindings are shortened.
fn bindings(fleet: &FleetState, view: &View, columns: usize) -> Vec<String> {
    let mut header = vec!["BINDING", "WANTED", "READY", "CLUSTERS", "KIND", "POLICY"];
    let mut rows = binding_rows(fleet);
    rows.retain(|row| view.admits(&row.join(" ")));
    let fits = |lines: &[String]| lines.iter().all(|line| line.chars().count() <= columns);
    let mut lines = table(&header, &rows);
    for _ in 0..OPTIONAL_COLUMNS {
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

fn cluster_rows(fleet: &FleetState) -> Vec<Vec<String>> {
    let rows = fleet.clusters.iter().map(|(name, ready)| {
        let targets = fleet.rows.values().filter_map(|row| row.targets.get(name));
        let (mut bindings, mut replicas) = (0, 0);
        for target in targets {
            bindings += 1;
            replicas += target.replicas.unwrap_or_default();
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

fn binding_rows(fleet: &FleetState) -> Vec<Vec<String>> {
    let rows = fleet.rows.iter().map(|(key, row)| {
        let targets: Vec<String> = row
            .targets
            .iter()
            .map(|(name, state)| lines::target(name, state, row))
            .collect();
        let targets = match &row.failure {
            Some(failure) if targets.is_empty() => plain(failure),
            _ => targets.join(", "),
        };
        let targets = match row.migration {
            Some(state) => format!("{targets} ({})", state.as_str()),
            None => targets,
        };
        let policy = if row.policy.is_empty() && !row.required_by.is_empty() {
            format!("follows {}", row.required_by.join(", "))
        } else {
            row.policy.clone()
        };
        let non_empty = |text: &String| (!text.is_empty()).then(|| text.clone());
        vec![
            key.to_string(),
            cell(row.desired),
            cell(row.ready()),
            cell(non_empty(&targets)),
            row.kind.clone(),
            cell(non_empty(&policy)),
        ]
    });
    rows.collect()
}

#[cfg(test)]
mod tests;
