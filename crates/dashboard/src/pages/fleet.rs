//! The page of the fleet: clusters by location, with capacity, taints, health and load.

use std::collections::BTreeMap;
use std::fmt::Display;

use axum::response::Html as Document;

use super::format::{bytes, cores, count, thousands};
use super::parts::{self, Column, Tone, number, text};
use super::{Tab, frame};
use crate::binding_query::{PAGE_SIZE, encode};
use crate::html::Html;
use crate::store::{Amounts, ClusterRow, Store};

const COLUMNS: [Column; 8] = [
    text("Cluster"),
    text("Health"),
    text("CPU"),
    text("Memory"),
    text("Pods"),
    number("Bindings"),
    number("Replicas"),
    text("Taints"),
];

/// The search text and the page number of a request.
#[derive(Debug)]
pub(crate) struct View {
    text: String,
    page: usize,
}

impl View {
    pub(crate) fn new(parameters: &BTreeMap<String, String>) -> Self {
        let value = |name: &str| parameters.get(name).map_or("", |value| value.trim());
        Self {
            text: value("q").to_owned(),
            page: value("page").parse().unwrap_or(1).max(1),
        }
    }

    fn path(&self, page: usize) -> String {
        format!("/?q={}&page={page}", encode(&self.text))
    }

    fn matches(&self, name: &str, row: &ClusterRow) -> bool {
        let mut texts = [name, &row.provider, &row.region, &row.zone].into_iter();
        texts.any(|text| text.contains(&self.text))
            || row.taints.iter().any(|taint| taint.contains(&self.text))
    }
}

/// Returns the page.
pub(crate) fn page(store: &Store, view: &View) -> Document<String> {
    frame("Fleet", Tab::Fleet, |html| {
        html.leaf("h1", &[], "Fleet");
        search(html, view);
        html.el("div", &[("data-live", &"fleet")], |html| {
            if !store.has_synced {
                html.leaf(
                    "p",
                    &[("class", &"muted")],
                    "The dashboard is still reading the clusters and bindings.",
                );
            }
            let names = store.clusters.keys().map(String::as_str);
            parts::evictions_paused(html, &store.evictions_paused(names));
            tiles(html, store);
            clusters(html, store, view);
        });
    })
}

fn search(html: &mut Html, view: &View) {
    html.el("form", &[("role", &"search"), ("action", &"/")], |html| {
        html.el("label", &[], |html| {
            html.leaf("span", &[], "Search");
            html.void(
                "input",
                &[
                    ("type", &"search"),
                    ("name", &"q"),
                    ("value", &view.text),
                    ("placeholder", &"cluster, provider, region, zone, taint"),
                ],
            );
        });
        html.leaf("button", &[], "Show");
    });
}

fn tiles(html: &mut Html, store: &Store) {
    let ready = store.clusters.values().filter(|row| row.ready).count();
    let total = |of: fn(&ClusterRow) -> Option<Amounts>| {
        let mut sum = Amounts::default();
        for amounts in store.clusters.values().filter_map(of) {
            sum.add(amounts);
        }
        sum
    };
    let (cpu, memory) = (total(|row| row.cpu), total(|row| row.memory));
    let totals = store.totals;
    html.el(
        "section",
        &[("class", &"tiles"), ("aria-label", &"Totals")],
        |html| {
            let clusters = format!("of {}", count(store.clusters.len()));
            parts::tile(html, "Clusters ready", &count(ready), &clusters);
            let all_cores = format!("of {} cores", cores(cpu.allocatable));
            parts::tile(html, "CPU free", &cores(cpu.free()), &all_cores);
            let all_memory = format!("of {}", bytes(memory.allocatable));
            parts::tile(html, "Memory free", &bytes(memory.free()), &all_memory);
            let bindings = format!("of {}", count(store.bindings.len()));
            parts::tile(
                html,
                "Bindings scheduled",
                &count(totals.scheduled),
                &bindings,
            );
            let waiting = format!("and {} waiting", count(totals.waiting));
            parts::tile(
                html,
                "Unschedulable",
                &count(totals.unschedulable),
                &waiting,
            );
        },
    );
}

fn clusters(html: &mut Html, store: &Store, view: &View) {
    let mut rows: Vec<(&String, &ClusterRow)> = store
        .clusters
        .iter()
        .filter(|(name, row)| view.matches(name, row))
        .collect();
    rows.sort_by_key(|(_, row)| row.location());
    if rows.is_empty() {
        let hint = "No clusters match. Add one with `berth join`.";
        html.leaf("p", &[("class", &"muted")], hint);
        return;
    }
    let page = view.page.min(rows.len().div_ceil(PAGE_SIZE));
    let shown = rows.chunks(PAGE_SIZE).nth(page - 1).unwrap_or_default();
    parts::table(html, "Clusters by location", &COLUMNS, |html| {
        for group in shown.chunk_by(|(_, a), (_, b)| a.location() == b.location()) {
            if let Some((_, first)) = group.first() {
                html.el("tr", &[("class", &"group")], |html| {
                    let attributes: [(&str, &dyn Display); 2] =
                        [("colspan", &COLUMNS.len()), ("scope", &"rowgroup")];
                    html.leaf("th", &attributes, location_text(first));
                });
            }
            for (name, row) in group {
                cluster(html, store, name, row);
            }
        }
    });
    parts::pager(html, page, PAGE_SIZE, rows.len(), |page| view.path(page));
}

fn location_text(row: &ClusterRow) -> String {
    let (provider, region, zone) = row.location();
    let names = [provider, region, zone].into_iter();
    let names: Vec<&str> = names.filter(|name| !name.is_empty()).collect();
    if names.is_empty() {
        "No location".to_owned()
    } else {
        names.join(" / ")
    }
}

fn cluster(html: &mut Html, store: &Store, name: &str, row: &ClusterRow) {
    let [
        c_name,
        c_health,
        c_cpu,
        c_memory,
        c_pods,
        c_bindings,
        c_replicas,
        c_taints,
    ] = &COLUMNS;
    let load = store.load(name);
    html.el("tr", &[], |html| {
        parts::cell(html, c_name, |html| {
            let path = format!("/bindings?cluster={}", encode(name));
            html.leaf("a", &[("href", &path), ("class", &"name")], name);
            html.leaf("span", &[("class", &"sub")], &row.version);
            parts::what_if(html, "cluster", "lose", name);
        });
        parts::cell(html, c_health, |html| {
            html.el("span", &[("class", &"badges")], |html| {
                if row.ready {
                    parts::badge(html, Tone::Good, "Ready");
                } else {
                    parts::badge(html, Tone::Bad, "Not ready");
                }
                for problem in &row.problems {
                    parts::badge(html, Tone::Warning, problem);
                }
                if let Some(message) = &row.evictions_paused {
                    parts::badge_with_title(html, Tone::Warning, "Evictions paused", message);
                }
            });
            if !row.ready {
                html.leaf("span", &[("class", &"sub")], &row.message);
            }
        });
        amounts(html, c_cpu, row.cpu, cores);
        amounts(html, c_memory, row.memory, bytes);
        amounts(html, c_pods, row.pods, thousands);
        parts::cell(html, c_bindings, |html| html.text(count(load.bindings)));
        parts::cell(html, c_replicas, |html| html.text(thousands(load.replicas)));
        parts::cell(html, c_taints, |html| {
            if row.taints.is_empty() {
                html.leaf("span", &[("class", &"muted")], "none");
            }
            for taint in &row.taints {
                html.leaf("code", &[], taint);
            }
        });
    });
}

fn amounts(html: &mut Html, column: &Column, of: Option<Amounts>, text: fn(i64) -> String) {
    parts::cell(html, column, |html| {
        let Some(of) = of else {
            html.leaf("span", &[("class", &"muted")], "not reported");
            return;
        };
        let (used, all) = (text(of.used), text(of.allocatable));
        let label = format!("{used} of {all} allocated, {} free", text(of.free()));
        html.el(
            "span",
            &[("class", &"capacity"), ("title", &label)],
            |html| {
                parts::bar(html, of.permille(), &label);
                html.leaf(
                    "span",
                    &[],
                    format_args!("{} free of {all}", text(of.free())),
                );
            },
        );
    });
}
