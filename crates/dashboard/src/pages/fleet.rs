//! The page of the fleet: a map of all clusters, and a table with their capacity, taints, health and load.

mod map;
mod view;

use std::fmt::Display;

use axum::response::Html as Document;
use berth_api::cluster::ResourceUsage;

pub(crate) use self::view::View;

use self::map::Colour;
use self::view::Order;
use super::format::{bytes, cores, count, counted, thousands};
use super::parts::{self, Column, Selected, Tone, number, text};
use super::{DataState, Tab, frame, still_reading};
use crate::binding_query::PAGE_SIZE;
use crate::html::Html;
use crate::store::{ClusterHealth, ClusterRow, Store};

const COLUMNS: [Column; 8] = [
    text("Cluster"),
    text("Health"),
    text("CPU"),
    text("Memory"),
    text("Pods"),
    number("Workloads"),
    number("Replicas"),
    Column {
        name: "Taints",
        class: "taints",
    },
];

/// Returns the page.
pub(crate) fn page(store: &Store, view: &View) -> Document<String> {
    frame("Fleet", Tab::Fleet, &DataState::of(store), |html| {
        html.leaf("h1", &[], "Fleet");
        form(html, view);
        html.el("div", &[("data-live", &"fleet")], |html| {
            still_reading(html, store);
            let names = store.clusters.keys().map(String::as_str);
            parts::evictions_paused(html, &store.evictions_paused(names));
            let rows = view.select(store);
            summary(html, store, rows.len());
            if rows.is_empty() {
                let hint = "No clusters match. Add one with `berth join`.";
                html.leaf("p", &[("class", &"muted")], hint);
                return;
            }
            map::write(html, &rows, view);
            clusters(html, store, view, &rows);
        });
    })
}

fn form(html: &mut Html, view: &View) {
    let attributes: [(&str, &dyn Display); 2] = [("role", &"search"), ("action", &"/fleet")];
    html.el("form", &attributes, |html| {
        let hint = "cluster, provider, region, zone, version, taint";
        parts::field(html, "Search", "q", &view.text, hint);
        let mut states = vec![("", "All".to_owned(), Selected::if_equal(&view.state, &None))];
        for of in ClusterHealth::WORST_FIRST {
            let (value, label) = of.names();
            let selected = Selected::if_equal(&view.state, &Some(of));
            states.push((value, label.to_owned(), selected));
        }
        parts::choice(html, "State", "state", &states);
        let colours = Colour::ALL.map(|of| {
            let (value, label) = of.names();
            (
                value,
                label.to_owned(),
                Selected::if_equal(&of, &view.colour),
            )
        });
        parts::choice(html, "Colour of the map", "colour", &colours);
        let orders = Order::ALL.map(|of| {
            let (value, label) = of.names();
            (
                value,
                label.to_owned(),
                Selected::if_equal(&of, &view.order),
            )
        });
        parts::choice(html, "Order of the table", "sort", &orders);
        for (name, value) in view.exact() {
            let attributes: [(&str, &dyn Display); 3] =
                [("type", &"hidden"), ("name", &name), ("value", &value)];
            html.void("input", &attributes);
        }
        html.leaf("button", &[], "Show");
    });
    if view.exact().next().is_none() {
        return;
    }
    html.el("p", &[("class", &"choices")], |html| {
        for (name, value) in view.exact() {
            let value = if value.is_empty() { "none" } else { value };
            let title = format!("Show all clusters, not only those with {name} {value}");
            let attributes: [(&str, &dyn Display); 2] =
                [("href", &view.path_without(name)), ("title", &title)];
            html.leaf("a", &attributes, format_args!("{name}: {value} ✕"));
        }
    });
}

/// Writes the numbers of clusters, and the capacity of those that are ready.
fn summary(html: &mut Html, store: &Store, matching: usize) {
    let (cpu, lost) = store.usable(|row| row.cpu);
    let (memory, _) = store.usable(|row| row.memory);
    let all = store.clusters.len();
    html.el("p", &[("class", &"summary")], |html| {
        html.leaf("b", &[], count(matching));
        html.text(format_args!(
            " of {} match; {} of {} ready. Usable: {} of {} cores and {} of {} free",
            counted(all, "cluster"),
            count(all - lost),
            count(all),
            cores(cpu.free()),
            cores(cpu.allocatable),
            bytes(memory.free()),
            bytes(memory.allocatable),
        ));
        match lost {
            0 => html.text("."),
            lost => html.text(format_args!(
                "; the capacity of {} that {} not ready is not counted.",
                counted(lost, "cluster"),
                if lost == 1 { "is" } else { "are" },
            )),
        }
    });
}

fn clusters(html: &mut Html, store: &Store, view: &View, rows: &[(&String, &ClusterRow)]) {
    let page = view.page.min(rows.len().div_ceil(PAGE_SIZE));
    let shown = rows.chunks(PAGE_SIZE).nth(page - 1).unwrap_or_default();
    parts::table(html, "Clusters", &COLUMNS, |html| {
        let groups = shown.chunk_by(|(_, a), (_, b)| {
            view.order != Order::Location || a.location() == b.location()
        });
        for group in groups {
            if let Some((_, first)) = group.first().filter(|_| view.order == Order::Location) {
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

/// Returns provider, region and zone as text.
pub(super) fn location_text(row: &ClusterRow) -> String {
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
        c_workloads,
        c_replicas,
        c_taints,
    ] = &COLUMNS;
    let load = store.load(name);
    html.el("tr", &[], |html| {
        parts::cell(html, c_name, |html| {
            parts::cluster_link(html, name);
            html.leaf("span", &[("class", &"sub nowrap")], &row.version);
            let location = location_text(row);
            let attributes: [(&str, &dyn Display); 2] =
                [("class", &"sub nowrap"), ("title", &location)];
            let region = [&*row.provider, &*row.region].into_iter();
            let region: Vec<&str> = region.filter(|name| !name.is_empty()).collect();
            html.leaf("span", &attributes, region.join(" / "));
            parts::what_if(html, "cluster", "lose", name);
        });
        parts::cell(html, c_health, |html| {
            parts::cluster_states(html, row);
            if !row.is_ready() {
                html.leaf("span", &[("class", &"sub message")], &row.message);
            }
        });
        amounts(html, c_cpu, row, row.cpu, cores);
        amounts(html, c_memory, row, row.memory, bytes);
        amounts(html, c_pods, row, row.pods, thousands);
        parts::cell(html, c_workloads, |html| html.text(count(load.bindings)));
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

/// Writes the amounts of a resource. Those of a cluster that is not ready are outdated, so that they have no bar.
fn amounts(
    html: &mut Html,
    column: &Column,
    row: &ClusterRow,
    of: Option<ResourceUsage>,
    text: fn(i64) -> String,
) {
    parts::cell(html, column, |html| match of {
        None => html.leaf("span", &[("class", &"muted")], "not reported"),
        Some(of) if row.is_ready() => parts::capacity(html, of, text),
        Some(of) => {
            let last = format!("not usable; last {}", text(of.allocatable));
            html.leaf("span", &[("class", &"muted")], last);
        }
    });
}

/// Returns the tone of a used share in thousandths.
const fn load_tone(permille: Option<i64>) -> Tone {
    match permille {
        None => Tone::Neutral,
        Some(950..) => Tone::Worst,
        Some(800..) => Tone::Warning,
        Some(500..) => Tone::Info,
        Some(_) => Tone::Good,
    }
}
