//! Parts that several pages share: cells, badges, bars, tables and page links.

use std::fmt::Display;

use berth_explain::{MigrationState, PausedEvictions};

use crate::binding_query::encode;
use crate::html::Html;
use crate::store::{Applied, BindingRow, Scheduling, Suspension, Targets};

use super::format::count;

/// Maximum number of clusters whose names a line lists.
const MAX_NAMES: usize = 8;

/// The meaning of a badge's colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    Good,
    Bad,
    Warning,
    Neutral,
}

impl Tone {
    pub(crate) const fn class(self) -> &'static str {
        match self {
            Self::Good => "badge good",
            Self::Bad => "badge bad",
            Self::Warning => "badge warning",
            Self::Neutral => "badge",
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
    html.leaf("span", &[("class", &tone.class())], label);
}

/// Writes a badge with a longer text, which browsers show when the pointer is on the badge.
pub(crate) fn badge_with_title(html: &mut Html, tone: Tone, label: &str, title: &str) {
    let attributes: [(&str, &dyn Display); 2] = [("class", &tone.class()), ("title", &title)];
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

/// Writes the badges for the states of a binding.
pub(crate) fn states(html: &mut Html, row: &BindingRow) {
    html.el("span", &[("class", &"badges")], |html| {
        match row.scheduling {
            Scheduling::Scheduled => badge(html, Tone::Good, "Scheduled"),
            Scheduling::Unschedulable => badge(html, Tone::Bad, "Unschedulable"),
            Scheduling::Waiting => badge(html, Tone::Neutral, "Waiting"),
        }
        match row.applied {
            Applied::Yes => badge(html, Tone::Good, "Applied"),
            Applied::No => badge(html, Tone::Bad, "Not applied"),
            Applied::Unknown => {}
        }
        match row.suspension {
            Suspension::None => {}
            Suspension::Scheduling => badge(html, Tone::Warning, "Scheduling suspended"),
            Suspension::Dispatching => badge(html, Tone::Warning, "Dispatching suspended"),
        }
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

/// Writes the clusters of a binding with their replicas as chips. At most `max_chips` clusters have a chip.
pub(crate) fn targets(html: &mut Html, targets: &Targets, max_chips: usize) {
    if targets.is_empty() {
        html.leaf("span", &[("class", &"muted")], "none");
        return;
    }
    html.el("span", &[("class", &"chips")], |html| {
        for (cluster, replicas) in targets.iter().take(max_chips) {
            html.el("span", &[("class", &"chip")], |html| {
                html.text(cluster);
                if replicas > 0 {
                    html.leaf("b", &[], format_args!(" {replicas}"));
                }
            });
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

/// Writes a tile with a headline number.
pub(crate) fn tile(html: &mut Html, label: &str, value: &str, note: &str) {
    html.el("div", &[("class", &"tile")], |html| {
        html.leaf("span", &[("class", &"label")], label);
        html.leaf("span", &[("class", &"value")], value);
        html.leaf("span", &[("class", &"note")], note);
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
