//! Parts that several pages share: cells, badges, bars, tables and page links.

use std::fmt::Display;

use berth_api::BindingKey;
use berth_api::cluster::ResourceUsage;
use berth_diagnosis::{Health, HealthCounts, MigrationState, PausedEvictions};
use jiff::Timestamp;

use crate::binding_query::encode;
use crate::html::Html;
use crate::store::{BindingRow, ClusterHealth, ClusterRow, PolicyName, Targets};

use super::format::{age, cluster_path, count, path, policy_path};

/// Maximum number of clusters whose names a line lists.
const MAX_NAMES: usize = 8;

/// The meaning of a badge's colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    Good,
    Info,
    Warning,
    Bad,
    Worst,
    Neutral,
}

impl Tone {
    pub(crate) const fn of(health: Health) -> Self {
        match health {
            Health::Well => Self::Good,
            Health::Waiting => Self::Info,
            Health::Degraded => Self::Warning,
            Health::Stuck => Self::Bad,
            Health::Broken => Self::Worst,
        }
    }

    pub(crate) const fn of_cluster(health: ClusterHealth) -> Self {
        match health {
            ClusterHealth::NotReady => Self::Worst,
            ClusterHealth::Impaired => Self::Warning,
            ClusterHealth::Tainted => Self::Info,
            ClusterHealth::Ready => Self::Good,
        }
    }

    /// Returns the class of elements with this colour.
    pub(crate) const fn class(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Bad => "bad",
            Self::Worst => "worst",
            Self::Neutral => "neutral",
        }
    }
}

/// A column of a table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    pub(crate) name: &'static str,
    pub(crate) class: &'static str,
}

/// Returns a column of text.
pub(crate) const fn text(name: &'static str) -> Column {
    Column { name, class: "" }
}

/// Returns a column of numbers.
pub(crate) const fn number(name: &'static str) -> Column {
    Column { name, class: "num" }
}

/// Writes a table. On narrow screens each row is a card, with the column names as labels.
pub(crate) fn table(
    html: &mut Html,
    caption: &str,
    columns: &[Column],
    rows: impl FnOnce(&mut Html),
) {
    html.el("table", &[], |html| {
        html.leaf("caption", &[("class", &"hidden")], caption);
        html.el("thead", &[], |html| {
            html.el("tr", &[], |html| {
                for column in columns {
                    let attributes: [(&str, &dyn Display); 2] =
                        [("scope", &"col"), ("class", &column.class)];
                    html.leaf("th", &attributes, column.name);
                }
            });
        });
        html.el("tbody", &[], rows);
    });
}

/// Writes a cell of a column.
pub(crate) fn cell(html: &mut Html, column: &Column, content: impl FnOnce(&mut Html)) {
    let attributes: [(&str, &dyn Display); 2] =
        [("class", &column.class), ("data-label", &column.name)];
    html.el("td", &attributes, content);
}

/// Writes a badge: a short state with a colour.
pub(crate) fn badge(html: &mut Html, tone: Tone, label: &str) {
    let class = format_args!("badge {}", tone.class());
    html.leaf("span", &[("class", &class)], label);
}

/// Writes a badge with a longer text, which browsers show when the pointer is on the badge.
pub(crate) fn badge_with_title(html: &mut Html, tone: Tone, label: &str, title: &str) {
    let class = format_args!("badge {}", tone.class());
    let attributes: [(&str, &dyn Display); 2] = [("class", &class), ("title", &title)];
    html.leaf("span", &attributes, label);
}

/// Writes a line about clusters from which evictions are paused.
pub(crate) fn evictions_paused(html: &mut Html, groups: &[PausedEvictions]) {
    for group in groups {
        html.el("div", &[("class", &"verdict failed")], |html| {
            html.leaf(
                "p",
                &[],
                format_args!(
                    "Evictions from {} are paused: {}",
                    clusters(&group.clusters),
                    group.message
                ),
            );
        });
    }
}

/// Returns the names of clusters, or their number if there are many.
fn clusters(names: &[String]) -> String {
    if names.len() > MAX_NAMES {
        format!("{} clusters", count(names.len()))
    } else {
        names.join(", ")
    }
}

/// Writes the badge of a health.
pub(crate) fn health(html: &mut Html, health: Health) {
    badge(html, Tone::of(health), health.as_str());
}

/// Writes the badges of a workload: its health, and whether it moves.
pub(crate) fn states(html: &mut Html, row: &BindingRow, now: Timestamp) {
    html.el("span", &[("class", &"badges")], |html| {
        health(html, row.workload.health_at(now));
        if let Some(migration) = &row.migration
            && let Some(state) = migration.state()
        {
            let (tone, label) = match state {
                MigrationState::Moving => (Tone::Neutral, "Moving"),
                MigrationState::LastCopy => (Tone::Warning, "Last copy"),
                MigrationState::Preempted => (Tone::Neutral, "Preempted"),
            };
            badge_with_title(html, tone, label, &migration.message());
        }
    });
}

/// Writes the badges of a cluster: its state, its problems and its paused evictions.
pub(crate) fn cluster_states(html: &mut Html, row: &ClusterRow) {
    html.el("span", &[("class", &"badges")], |html| {
        let health = row.health();
        if row.is_ready() {
            badge(html, Tone::Good, "Ready");
        } else {
            badge(html, Tone::of_cluster(health), "Not ready");
        }
        for problem in &row.problems {
            badge(html, Tone::Warning, problem);
        }
        if let Some(message) = &row.evictions_paused {
            badge_with_title(html, Tone::Warning, "Evictions paused", message);
        }
    });
}

/// Writes the link to a workload, with its kind, and with the workloads that need it if it is a dependency.
pub(crate) fn workload(html: &mut Html, name: &BindingKey, row: &BindingRow) {
    let attributes: [(&str, &dyn Display); 2] = [("href", &path(name)), ("class", &"name")];
    html.leaf("a", &attributes, name);
    html.leaf("span", &[("class", &"sub")], row.workload());
    if row.is_dependency() {
        let needed_by = row.needed_by();
        html.leaf("span", &[("class", &"sub")], dependency(needed_by));
    }
}

/// Returns what a dependency is there for, in words.
pub(crate) fn dependency(needed_by: &[Box<str>]) -> String {
    match needed_by {
        [] => "dependency that no workload needs now".to_owned(),
        [only] => format!("dependency of {only}"),
        [first, rest @ ..] => format!("dependency of {first} and {} more", count(rest.len())),
    }
}

/// Writes why a workload is not well: the cause in one word and in one sentence, and the next action.
pub(crate) fn reason(html: &mut Html, row: &BindingRow) {
    let workload = &row.workload;
    if let Some(reason) = workload.reason {
        html.leaf("span", &[], reason.as_str());
    }
    html.leaf("span", &[("class", &"sub message")], &workload.verdict);
    if let Some(fix) = &workload.fix {
        html.el("span", &[("class", &"sub message")], |html| {
            html.leaf("b", &[], "Next: ");
            commands(html, fix);
        });
    }
}

/// Writes a next action. The commands in it are set off from the text.
pub(crate) fn action(html: &mut Html, text: &str) {
    html.el("p", &[("class", &"next")], |html| {
        html.leaf("b", &[], "Next: ");
        commands(html, text);
    });
}

/// Writes text with commands: those in backticks, and `kubectl` to the end of the sentence.
pub(crate) fn commands(html: &mut Html, text: &str) {
    for (index, part) in text.split('`').enumerate() {
        if index % 2 == 1 {
            html.leaf("code", &[("class", &"inline")], part);
            continue;
        }
        let Some(at) = part.find("kubectl ") else {
            html.text(part);
            continue;
        };
        let (before, rest) = part.split_at(at);
        let (command, after) = rest.split_at(rest.find(';').unwrap_or(rest.len()));
        html.text(before);
        html.leaf("code", &[("class", &"inline")], command);
        html.text(after);
    }
}

/// Writes the time since which something is so.
pub(crate) fn since(html: &mut Html, since: Option<Timestamp>, now: Timestamp) {
    let Some(since) = since else {
        html.leaf("span", &[("class", &"muted")], "-");
        return;
    };
    let title = format!("{since:.0}");
    html.leaf("time", &[("title", &title)], age(since, now));
}

/// Writes the link to a cluster.
pub(crate) fn cluster_link(html: &mut Html, name: &str) {
    let attributes: [(&str, &dyn Display); 2] = [("href", &cluster_path(name)), ("class", &"name")];
    html.leaf("a", &attributes, name);
}

/// Writes the link to a policy, or a dash.
pub(crate) fn policy_link(html: &mut Html, policy: Option<&PolicyName>) {
    match policy {
        Some(policy) => html.leaf("a", &[("href", &policy_path(policy))], policy),
        None => html.leaf("span", &[("class", &"muted")], "-"),
    }
}

/// Returns the numbers of workloads by health as text, the worst first. Healths of none are left out.
pub(crate) fn health_counts(counts: &HealthCounts) -> String {
    let texts = Health::WORST_FIRST.into_iter().filter_map(|health| {
        let number = counts.of(health);
        (number > 0).then(|| format!("{} {health}", count(number)))
    });
    let texts: Vec<String> = texts.collect();
    if texts.is_empty() {
        return "none".to_owned();
    }
    texts.join(", ")
}

/// Writes one tile for each health. `link` returns the address of the workloads with this health.
pub(crate) fn health_tiles(
    html: &mut Html,
    counts: &HealthCounts,
    link: impl Fn(Health) -> String,
) {
    let section: [(&str, &dyn Display); 2] =
        [("class", &"tiles"), ("aria-label", &"Workloads by health")];
    html.el("section", &section, |html| {
        for health in Health::WORST_FIRST {
            let number = counts.of(health);
            linked_tile(
                html,
                &link(health),
                Tone::of(health),
                number,
                health.as_str(),
            );
        }
    });
}

/// Writes a tile with a number that links to the objects it counts. A tile of none has no colour.
pub(crate) fn linked_tile(html: &mut Html, path: &str, tone: Tone, number: usize, label: &str) {
    let tone = if number == 0 { Tone::Neutral } else { tone };
    let class = format_args!("tile linked {}", tone.class());
    let attributes: [(&str, &dyn Display); 2] = [("class", &class), ("href", &path)];
    html.el("a", &attributes, |html| {
        html.leaf("span", &[("class", &"value")], count(number));
        html.leaf("span", &[("class", &"label")], label);
    });
}

/// Writes the clusters of a binding with their replicas as chips. At most `max_chips` clusters have a chip.
pub(crate) fn targets(html: &mut Html, targets: &Targets, max_chips: usize) {
    if targets.is_empty() {
        html.leaf("span", &[("class", &"muted")], "none");
        return;
    }
    html.el("span", &[("class", &"chips")], |html| {
        for (cluster, replicas) in targets.iter().take(max_chips) {
            cluster_chip(
                html,
                cluster,
                Some(replicas).filter(|replicas| *replicas > 0),
            );
        }
        if targets.len() > max_chips {
            let more = targets.len() - max_chips;
            html.leaf(
                "span",
                &[("class", &"muted")],
                format_args!("and {more} more"),
            );
        }
    });
}

/// Writes a chip that links to a cluster, with the replicas there.
pub(crate) fn cluster_chip(html: &mut Html, cluster: &str, replicas: Option<i32>) {
    let attributes: [(&str, &dyn Display); 2] =
        [("class", &"chip"), ("href", &cluster_path(cluster))];
    html.el("a", &attributes, |html| {
        html.text(cluster);
        if let Some(replicas) = replicas {
            html.leaf("b", &[], format_args!(" {replicas}"));
        }
    });
}

/// Writes a bar. The filled part has `permille` thousandths of the length.
pub(crate) fn bar(html: &mut Html, permille: i64, label: &str) {
    let class = match permille {
        950.. => "fill full",
        800.. => "fill high",
        _ => "fill",
    };
    let attributes: [(&str, &dyn Display); 5] = [
        ("class", &"bar"),
        ("viewBox", &"0 0 1000 10"),
        ("preserveAspectRatio", &"none"),
        ("role", &"img"),
        ("aria-label", &label),
    ];
    html.el("svg", &attributes, |html| {
        let track: [(&str, &dyn Display); 3] =
            [("class", &"track"), ("width", &1000), ("height", &10)];
        html.void("rect", &track);
        let fill: [(&str, &dyn Display); 3] =
            [("class", &class), ("width", &permille), ("height", &10)];
        html.void("rect", &fill);
    });
}

/// Writes a bar of the used share of a resource, and the free amount.
pub(crate) fn capacity(html: &mut Html, of: ResourceUsage, text: fn(i64) -> String) {
    let (used, all) = (text(of.used), text(of.allocatable));
    let label = format!("{used} of {all} allocated, {} free", text(of.free()));
    let attributes: [(&str, &dyn Display); 2] = [("class", &"capacity"), ("title", &label)];
    html.el("span", &attributes, |html| {
        bar(html, of.permille(), &label);
        html.leaf(
            "span",
            &[],
            format_args!("{} free of {all}", text(of.free())),
        );
    });
}

/// Writes a link to another page. The dashboard's script replaces the link with the content of that page, and loads the
/// content again when `fingerprint` changes.
pub(crate) fn deferred_link(html: &mut Html, path: &str, fingerprint: u64, label: &str) {
    let source = format!("{path}?of={fingerprint:x}");
    html.el("div", &[("data-later", &source)], |html| {
        html.el("p", &[], |html| {
            html.leaf("a", &[("href", &path)], label);
        });
    });
}

/// Writes a link to the what-if form. The form shows the selected kind of change, and the cluster or binding.
pub(crate) fn what_if(html: &mut Html, field: &str, change: &str, name: &str) {
    let path = format!("/what-if?change={change}&{field}={}", encode(name));
    let label = format!("What if {name} changes?");
    let attributes: [(&str, &dyn Display); 3] =
        [("href", &path), ("class", &"sub"), ("aria-label", &label)];
    html.leaf("a", &attributes, "What if …?");
}

/// Writes a select of a form.
pub(crate) fn choice(
    html: &mut Html,
    label: &str,
    name: &str,
    options: &[(&str, String, Selected)],
) {
    html.el("label", &[], |html| {
        html.leaf("span", &[], label);
        html.el("select", &[("name", &name)], |html| {
            for (value, text, selected) in options {
                let mut attributes: Vec<(&'static str, &dyn Display)> = vec![("value", value)];
                if *selected == Selected::Yes {
                    attributes.push(("selected", &""));
                }
                html.leaf("option", &attributes, text);
            }
        });
    });
}

/// The state of an option of a select.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Selected {
    Yes,
    No,
}

impl Selected {
    pub(crate) fn if_equal<T: PartialEq>(one: &T, other: &T) -> Self {
        if one == other { Self::Yes } else { Self::No }
    }
}

/// Writes a text field of a form.
pub(crate) fn field(html: &mut Html, label: &str, name: &str, value: &str, hint: &str) {
    html.el("label", &[], |html| {
        html.leaf("span", &[], label);
        let kind = if name == "q" { "search" } else { "text" };
        let attributes: [(&str, &dyn Display); 4] = [
            ("type", &kind),
            ("name", &name),
            ("value", &value),
            ("placeholder", &hint),
        ];
        html.void("input", &attributes);
    });
}

/// Writes an entry of a list of properties.
pub(crate) fn entry(html: &mut Html, name: &str, content: impl FnOnce(&mut Html)) {
    html.el("div", &[], |html| {
        html.leaf("dt", &[], name);
        html.el("dd", &[], content);
    });
}

/// Writes links to the previous and the next page of a list with `size` rows per page.
pub(crate) fn pager(
    html: &mut Html,
    page: usize,
    size: usize,
    total: usize,
    path: impl Fn(usize) -> String,
) {
    if total <= size {
        return;
    }
    let pages = total.div_ceil(size);
    html.el(
        "nav",
        &[("class", &"pager"), ("aria-label", &"Pages")],
        |html| {
            if page > 1 {
                html.leaf(
                    "a",
                    &[("href", &path(page - 1)), ("rel", &"prev")],
                    "Previous",
                );
            }
            let (from, to) = ((page - 1) * size + 1, (page * size).min(total));
            let label = format!("{} to {} of {}", count(from), count(to), count(total));
            html.leaf("span", &[], label);
            if page < pages {
                html.leaf("a", &[("href", &path(page + 1)), ("rel", &"next")], "Next");
            }
        },
    );
}
