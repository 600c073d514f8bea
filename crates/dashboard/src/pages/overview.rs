//! The front page: whether the fleet is well, what is wrong, what moves, and what changed in the last hour.

use axum::response::Html as Document;
use berth_api::BindingKey;
use berth_api::cluster::ResourceUsage;
use berth_diagnosis::{Health, HealthCounts};
use jiff::{SignedDuration, Timestamp};

use super::format::{age, bytes, clock, cores, count, counted, path, thousands};
use super::parts::{self, Column, Tone, number, text};
use super::{DataState, Tab, frame, live, still_reading};
use crate::html::Html;
use crate::store::{BindingRow, ClusterHealth, ClusterRow, Store};

/// Number of rows in each list of the page.
const ROWS: usize = 10;
/// The time whose changes the page counts.
const RECENT: SignedDuration = SignedDuration::from_hours(1);

/// Returns the page.
pub(crate) fn page(store: &Store) -> Document<String> {
    let now = Timestamp::now();
    frame("Overview", Tab::Overview, &DataState::of(store), |html| {
        html.leaf("h1", &[], "Overview");
        html.el("div", &[("data-live", &"overview")], |html| {
            if !store.has_synced {
                still_reading(html, store);
                return;
            }
            let counts = store.health(now);
            verdict(html, store, &counts);
            let names = store.clusters.keys().map(String::as_str);
            parts::evictions_paused(html, &store.evictions_paused(names));
            html.leaf("h2", &[], "Workloads");
            parts::health_tiles(html, &counts, |health| {
                format!("/bindings?health={}", health.as_str())
            });
            html.el("div", &[("class", &"columns")], |html| {
                html.el("section", &[], |html| clusters(html, store));
                html.el("section", &[], |html| capacity(html, store));
            });
            worst(html, store, &counts, now);
            html.el("div", &[("class", &"columns")], |html| {
                html.el("section", &[], |html| moving(html, store, now));
                html.el("section", &[], |html| changes(html, store, now));
            });
        });
    })
}

/// Writes in one sentence whether the fleet is well.
fn verdict(html: &mut Html, store: &Store, counts: &HealthCounts) {
    let bad: usize = Health::WORST_FIRST
        .into_iter()
        .filter(|health| health.needs_attention())
        .map(|health| counts.of(health))
        .sum();
    let lost = store.clusters_in(ClusterHealth::NotReady);
    let (all, clusters) = (store.bindings.len(), store.clusters.len());
    let headline = match (bad, lost) {
        (0, 0) => "The fleet is well".to_owned(),
        (0, lost) => format!("{} not ready", is_or_are(lost, "cluster")),
        (bad, 0) => needs_attention(bad),
        (bad, lost) => format!(
            "{}, and {} not ready",
            needs_attention(bad),
            is_or_are(lost, "cluster")
        ),
    };
    let class = match (bad, lost) {
        (0, 0) => "verdict well",
        _ if counts.broken > 0 || lost > 0 => "verdict broken",
        _ => "verdict degraded",
    };
    html.el("div", &[("class", &class)], |html| {
        html.leaf("p", &[("class", &"headline")], headline);
        html.el("p", &[("class", &"sub")], |html| {
            html.text(format_args!(
                "{}: {}; {} of {} ready",
                counted(all, "workload"),
                parts::health_counts(counts),
                count(clusters - lost),
                counted(clusters, "cluster"),
            ));
        });
    });
}

fn needs_attention(workloads: usize) -> String {
    match workloads {
        1 => "1 workload needs attention".to_owned(),
        many => format!("{} workloads need attention", count(many)),
    }
}

fn is_or_are(number: usize, noun: &str) -> String {
    let verb = if number == 1 { "is" } else { "are" };
    format!("{} {verb}", counted(number, noun))
}

fn clusters(html: &mut Html, store: &Store) {
    html.leaf("h2", &[], "Clusters");
    html.el("div", &[("class", &"tiles")], |html| {
        for health in ClusterHealth::WORST_FIRST {
            let (value, label) = health.names();
            let path = format!("/fleet?state={value}");
            let tone = Tone::of_cluster(health);
            parts::linked_tile(html, &path, tone, store.clusters_in(health), label);
        }
    });
}

/// Writes the free capacity of the clusters that are ready. The others could not use theirs.
fn capacity(html: &mut Html, store: &Store) {
    type Resource = (
        &'static str,
        fn(&ClusterRow) -> Option<ResourceUsage>,
        fn(i64) -> String,
    );
    html.leaf("h2", &[], "Usable capacity");
    let resources: [Resource; 3] = [
        ("CPU cores", |row| row.cpu, cores),
        ("Memory", |row| row.memory, bytes),
        ("Pods", |row| row.pods, thousands),
    ];
    html.el("div", &[("class", &"tile")], |html| {
        for (name, of, text) in resources {
            let (sum, _) = store.usable(of);
            html.el("div", &[("class", &"meter")], |html| {
                html.leaf("span", &[("class", &"label")], name);
                parts::capacity(html, sum, text);
            });
        }
        let lost = store.clusters_in(ClusterHealth::NotReady);
        let note = match lost {
            0 => "Of all clusters.".to_owned(),
            lost => format!(
                "Of the clusters that are ready; {} not counted.",
                is_or_are(lost, "lost cluster")
            ),
        };
        html.leaf("p", &[("class", &"note")], note);
    });
}

fn worst(html: &mut Html, store: &Store, counts: &HealthCounts, now: Timestamp) {
    html.leaf("h2", &[], "Needs attention");
    let rows = store.bindings.iter();
    let mut rows: Vec<(&BindingKey, &BindingRow)> = rows
        .filter(|(_, row)| row.workload.health_at(now).needs_attention())
        .collect();
    if rows.is_empty() {
        let text = match counts.waiting {
            0 => "Nothing: all workloads are well.".to_owned(),
            waiting => format!(
                "Nothing now; {} still waiting.",
                is_or_are(waiting, "workload")
            ),
        };
        html.leaf("p", &[("class", &"muted")], text);
        return;
    }
    rows.sort_by_key(|(_, row)| row.workload.rank(now));
    let columns: [Column; 5] = [
        text("Workload"),
        text("Health"),
        number("Ready"),
        text("Why, and what to do"),
        number("Since"),
    ];
    let [c_workload, c_health, c_ready, c_why, c_since] = &columns;
    parts::table(html, "Worst workloads", &columns, |html| {
        for (name, row) in rows.iter().take(ROWS) {
            html.el("tr", &[], |html| {
                parts::cell(html, c_workload, |html| parts::workload(html, name, row));
                parts::cell(html, c_health, |html| parts::states(html, row, now));
                parts::cell(html, c_ready, |html| html.text(row.workload.ready()));
                parts::cell(html, c_why, |html| {
                    html.text(&row.workload.verdict);
                    if let Some(fix) = &row.workload.fix {
                        parts::action(html, fix);
                    }
                });
                parts::cell(html, c_since, |html| {
                    parts::since(html, row.workload.since, now);
                });
            });
        }
    });
    if rows.len() > ROWS {
        let label = format!("All {} workloads that need attention", count(rows.len()));
        html.leaf("a", &[("href", &"/bindings?health=problems")], label);
    }
}

fn moving(html: &mut Html, store: &Store, now: Timestamp) {
    html.leaf("h2", &[], "Moves now");
    let moving: Vec<(&BindingKey, &BindingRow)> = store
        .bindings
        .iter()
        .filter(|(_, row)| row.migration_state().is_some())
        .collect();
    if moving.is_empty() {
        html.leaf("p", &[("class", &"muted")], "Nothing moves.");
        return;
    }
    html.el("ul", &[("class", &"list")], |html| {
        for (name, row) in moving.iter().take(ROWS) {
            html.el("li", &[], |html| {
                html.leaf("a", &[("href", &path(name)), ("class", &"name")], name);
                if let Some(migration) = &row.migration {
                    let since = migration.since().map(|time| age(time.0, now));
                    let since = since.map(|age| format!(", for {age}")).unwrap_or_default();
                    let text = format!("{}{since}", migration.message());
                    html.leaf("span", &[("class", &"sub")], text);
                }
            });
        }
    });
    let label = format!("All {} that move", counted(moving.len(), "workload"));
    html.leaf("a", &[("href", &"/bindings?health=moving")], label);
}

fn changes(html: &mut Html, store: &Store, now: Timestamp) {
    html.leaf("h2", &[], "Changed in the last hour");
    let counts = store.moves.of_last_hour(now);
    let started = store.synced_at.filter(|at| *at > now - RECENT);
    let mut summary = format!(
        "{} placed, {} moved or scaled, {} removed",
        count(counts.placed),
        count(counts.moved),
        count(counts.removed),
    );
    if let Some(started) = started {
        let since = format!(", since the dashboard started at {} UTC", clock(started));
        summary.push_str(&since);
    }
    html.leaf("p", &[("class", &"summary")], summary);
    html.el("ul", &[("class", &"list")], |html| {
        for of in store.moves.in_last_hour(now).take(ROWS) {
            html.el("li", &[], |html| {
                html.leaf("time", &[], clock(of.at));
                html.text(" ");
                html.leaf("a", &[("href", &path(&of.binding))], &of.binding);
                html.text(format_args!(
                    " {}",
                    live::describe(&of.before, &of.after).to_lowercase()
                ));
            });
        }
    });
    html.leaf("a", &[("href", &"/live")], "The newest changes");
}
