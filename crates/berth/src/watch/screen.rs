//! Layout of the terminal screen: the numbers of workloads by health, and one pane each for clusters, bindings and recent
//! events. Panes are cut and scrolled to fit into the screen.

use std::collections::{BTreeMap, VecDeque};

use berth_diagnosis::ClusterState;
use jiff::Timestamp;

use super::fleet_state::{BindingRow, FleetState};
use super::lines::{self, Line, cut};
use super::view::{Pane, View};
use crate::columns::{align, cell, plain};

/// Maximum number of stored events.
const MAX_EVENTS: usize = 1000;
/// Minimum numbers of lines of the panes, with their headers. A small screen shows fewer events, or only one pane.
const MIN_CLUSTER_LINES: usize = 2;
const MIN_BINDING_LINES: usize = 3;
const MIN_EVENT_LINES: usize = 5;
/// Minimum number of rows of a screen that shows the numbers of workloads by health.
const MIN_ROWS_WITH_COUNTS: usize = 16;
/// Columns of the bindings table that a narrow terminal omits, in this order.
const OPTIONAL_COLUMNS: [&str; 3] = ["POLICY", "KIND", "WANTED"];
/// Divisor of the terminal width. On a narrow terminal, the name of a binding gets at most two fifths of the width.
const FIFTHS: usize = 5;

const HELP: [&str; 12] = [
    "arrows, j, k       scroll by a line",
    "PgUp, PgDn, space  scroll by a page",
    "Home, End, g, G    scroll to the beginning or the end",
    "Tab                scroll clusters, bindings or events",
    "/                  filter bindings and events by text; Enter keeps the filter",
    "Esc                remove the filter",
    "?                  this help; any key except q closes it",
    "q, Ctrl-C          quit",
    "",
    "m1 1/2: one of two replicas in cluster m1 is ready; m1 ?/2: m1 is not ready",
    "(moving): old replicas stay until new ones are ready",
    "broken: nothing works; stuck: you must act; degraded: a part works",
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
    now: Timestamp,
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
        let bindings = bindings(fleet, view, columns, now);
        let events: Vec<String> = events
            .0
            .iter()
            .filter(|line| view.admits(&line.to_string()))
            .map(|line| line.fit(columns))
            .collect();
        if rows >= MIN_ROWS_WITH_COUNTS {
            all.push(fleet.counts(now).to_string());
        }
        let heights = Heights::of(
            // One line is empty below the counts.
            height - 2 * all.len(),
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

/// Returns the table of bindings, the worst first. If the table is too wide, some columns are omitted, and then the names
/// of bindings are shortened. The cause is the last column, which is cut.
fn bindings(fleet: &FleetState, view: &View, columns: usize, now: Timestamp) -> Vec<String> {
    let mut header = vec![
        "BINDING", "HEALTH", "READY", "WANTED", "CLUSTERS", "KIND", "POLICY",
    ];
    let mut rows = binding_rows(fleet, now);
    rows.retain(|row| view.admits(&row.cells.join(" ")));
    let causes: Vec<Option<String>> = rows.iter_mut().map(|row| row.cause.take()).collect();
    let mut rows: Vec<Vec<String>> = rows.into_iter().map(|row| row.cells).collect();
    let fits = |lines: &[String]| lines.iter().all(|line| line.chars().count() <= columns);
    let mut lines = with_causes(&header, &rows, &causes);
    for column in OPTIONAL_COLUMNS {
        if fits(&lines) {
            break;
        }
        if let Some(index) = header.iter().position(|name| *name == column) {
            header.remove(index);
            for row in &mut rows {
                row.remove(index);
            }
        }
        lines = with_causes(&header, &rows, &causes);
    }
    if !fits(&table(&header, &rows)) {
        for name in rows.iter_mut().filter_map(|row| row.first_mut()) {
            *name = cut(name, columns * 2 / FIFTHS);
        }
        lines = with_causes(&header, &rows, &causes);
    }
    lines
}

/// Returns the table with a last column of causes, unless there are none.
fn with_causes(header: &[&str], rows: &[Vec<String>], causes: &[Option<String>]) -> Vec<String> {
    if causes.iter().all(Option::is_none) {
        return table(header, rows);
    }
    let header: Vec<&str> = header.iter().copied().chain(["REASON"]).collect();
    let rows = rows.iter().zip(causes).map(|(row, cause)| {
        let cause = cell(cause.as_ref());
        row.iter().cloned().chain([cause]).collect()
    });
    table(&header, &rows.collect::<Vec<_>>())
}

fn table(header: &[&str], rows: &[Vec<String>]) -> Vec<String> {
    align(header, rows).lines().map(str::to_owned).collect()
}

fn cluster_rows(fleet: &FleetState) -> Vec<Vec<String>> {
    let mut assigned: BTreeMap<&str, (usize, i64)> = BTreeMap::new();
    for row in fleet.rows.values() {
        for copy in &row.copies {
            let stays = (!row.leaves(copy)).then_some(copy.wanted);
            let (bindings, replicas) = assigned.entry(&copy.cluster).or_default();
            *bindings += 1;
            *replicas += stays.flatten().unwrap_or_default();
        }
        for name in row.without_report() {
            assigned.entry(name).or_default().0 += 1;
        }
    }
    let rows = fleet.clusters.iter().map(|(name, state)| {
        let ready = match state {
            ClusterState::Ready => "yes",
            ClusterState::NotReady { .. } | ClusterState::Missing => "NO",
        };
        let (bindings, replicas) = assigned.get(name.as_str()).copied().unwrap_or_default();
        vec![
            name.clone(),
            ready.to_owned(),
            bindings.to_string(),
            replicas.to_string(),
        ]
    });
    rows.collect()
}

/// A row of the table of bindings.
struct TableRow {
    cells: Vec<String>,
    /// The cause for which the workload needs attention.
    cause: Option<String>,
}

/// Returns the rows of bindings, the worst first, and those of the same health by name.
fn binding_rows(fleet: &FleetState, now: Timestamp) -> Vec<TableRow> {
    let mut rows: Vec<_> = fleet.rows.iter().collect();
    rows.sort_by_key(|(_, row)| std::cmp::Reverse(row.workload.health_at(now)));
    let rows = rows.into_iter().map(|(key, row)| {
        let health = row.workload.health_at(now);
        let non_empty = |text: String| (!text.is_empty()).then_some(text);
        TableRow {
            cells: vec![
                key.to_string(),
                health.to_string(),
                row.workload.ready(),
                cell(row.desired),
                cell(non_empty(clusters(row))),
                row.workload.kind.clone(),
                cell(non_empty(policy(row))),
            ],
            cause: health
                .needs_attention()
                .then(|| plain(&row.workload.verdict)),
        }
    });
    rows.collect()
}

fn clusters(row: &BindingRow) -> String {
    let clusters = lines::clusters(row);
    match &row.migration {
        Some((state, _)) => format!("{clusters} ({})", state.as_str()),
        None => clusters,
    }
}

fn policy(row: &BindingRow) -> String {
    if row.policy.is_empty() && !row.required_by.is_empty() {
        format!("follows {}", row.required_by.join(", "))
    } else {
        row.policy.clone()
    }
}

#[cfg(test)]
mod tests;
