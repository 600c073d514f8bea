//! The differences of a workload: what overrides change in each cluster, what differs between the clusters, and what the
//! members have against what is wanted. Clusters with the same difference share a row.

mod groups;

use std::collections::BTreeMap;

use berth_plan::diff::{DiffReport, WantedReport, shortened};
use jiff::Timestamp;

use self::groups::{Change, MemberGroups, overrides, shares};
use crate::html::Html;
use crate::pages::format::{clock, count, counted};
use crate::pages::parts::{self, Column, text};

/// Maximum number of rows of each table.
const MAX_ROWS: usize = 100;
/// Maximum number of clusters whose names a row lists.
const MAX_NAMES: usize = 6;
/// Maximum number of clusters in the folded list of a row.
const MAX_FOLDED: usize = 500;

/// Maximum number of characters of a text of a member.
const MAX_TEXT: usize = 500;

/// Writes how the wanted objects differ from the template and from each other.
pub(super) fn wanted(html: &mut Html, report: &WantedReport, members_path: &str) {
    html.leaf("h2", &[], "Differences");
    let all = report.clusters.len();
    let shares = shares(report);
    let changes = overrides(report);
    let columns = [
        text("Field"),
        text("Template"),
        text("Wanted"),
        text("By"),
        text("Clusters"),
    ];
    if shares.is_empty() && changes.is_empty() {
        let none = match all {
            0 => "No cluster has a copy, so nothing is compared.".to_owned(),
            all => format!(
                "The wanted objects in {} equal the template.",
                counted(all, "cluster")
            ),
        };
        html.leaf("p", &[("class", &"muted")], none);
    } else {
        html.leaf("h3", &[], "Template and wanted objects");
        let rows = shares.len() + changes.len();
        let [c_field, c_template, c_wanted, c_by, c_clusters] = &columns;
        parts::table(html, "Template and wanted objects", &columns, |html| {
            for (field, share) in shares.iter().take(MAX_ROWS) {
                html.el("tr", &[], |html| {
                    parts::cell(html, c_field, |html| html.leaf("code", &[], field));
                    parts::cell(html, c_template, |html| {
                        value(html, share.template.as_deref());
                    });
                    parts::cell(html, c_wanted, |html| html.text(share.range()));
                    parts::cell(html, c_by, |html| {
                        html.text("the scheduler: each cluster's share");
                    });
                    parts::cell(html, c_clusters, |html| {
                        clusters(html, &share.clusters, all);
                    });
                });
            }
            for change in changes.iter().take(MAX_ROWS) {
                html.el("tr", &[], |html| {
                    parts::cell(html, c_field, |html| html.leaf("code", &[], &change.field));
                    parts::cell(html, c_template, |html| value(html, change.old.as_deref()));
                    parts::cell(html, c_wanted, |html| value(html, change.new.as_deref()));
                    parts::cell(html, c_by, |html| html.text(change.by()));
                    parts::cell(html, c_clusters, |html| {
                        clusters(html, &change.clusters, all);
                    });
                });
            }
        });
        omitted(html, rows);
    }
    between_clusters(html, report);
    let notes = report.clusters.iter();
    let notes = notes.map(|of| (&*of.cluster, &of.notes[..]));
    notes_by_cluster(html, notes, &report.notes, all);
    html.el("p", &[], |html| {
        html.leaf("a", &[("href", &members_path)], "Compare with the members");
        let text = " asks each member in a dry run, and writes nothing.";
        html.leaf("span", &[("class", &"muted")], text);
    });
}

fn between_clusters(html: &mut Html, report: &WantedReport) {
    if report.between_clusters.is_empty() {
        if report.clusters.len() > 1 {
            let none = "The wanted objects do not differ between the clusters.";
            html.leaf("p", &[("class", &"muted")], none);
        }
        return;
    }
    html.leaf("h3", &[], "Differences between the clusters");
    let columns = [text("Field"), text("Wanted"), text("Clusters")];
    let [c_field, c_wanted, c_clusters] = &columns;
    let rows = report.between_clusters.iter();
    let rows: Vec<_> = rows
        .flat_map(|of| of.values.iter().map(move |value| (&of.field, value)))
        .collect();
    parts::table(html, "Differences between the clusters", &columns, |html| {
        for (field, of) in rows.iter().take(MAX_ROWS) {
            html.el("tr", &[], |html| {
                parts::cell(html, c_field, |html| html.leaf("code", &[], field));
                parts::cell(html, c_wanted, |html| {
                    value(html, of.value.as_ref().map(shortened).as_deref());
                });
                parts::cell(html, c_clusters, |html| {
                    clusters(html, &of.clusters, report.clusters.len());
                });
            });
        }
    });
    omitted(html, rows.len());
}

/// Writes how the objects in the members differ from the wanted objects.
pub(super) fn members(html: &mut Html, report: &DiffReport, at: Timestamp) {
    let all = report.clusters.len();
    if all == 0 {
        notes_of_all(html, &report.notes);
        return;
    }
    let groups = MemberGroups::of(report);
    let differ = groups.differ.len() + groups.absent.len() + groups.unwanted.len();
    let unreadable: usize = groups.unreadable.values().map(Vec::len).sum();
    let class = match (differ, unreadable) {
        (0, 0) => "verdict well",
        (_, 0) => "verdict degraded",
        _ => "verdict failed",
    };
    html.el("div", &[("class", &class)], |html| {
        html.el("p", &[("class", &"headline")], |html| {
            html.text(format_args!(
                "{} of {} equal the wanted object",
                count(groups.equal),
                copies(all)
            ));
            if differ > 0 {
                html.text(format_args!(", {} differ", count(differ)));
            }
            if unreadable > 0 {
                html.text(format_args!(", {} cannot be read", count(unreadable)));
            }
        });
        let text =
            "Defaults of the member's server, and fields that members own, are no difference.";
        let sub = format!("Compared at {} UTC in a dry run. {text}", clock(at));
        html.leaf("p", &[("class", &"sub")], sub);
    });
    if !groups.unreadable.is_empty() {
        html.leaf("h2", &[], "Cannot be read");
        reasons(html, "Members that cannot be read", &groups.unreadable, all);
    }
    if !groups.fields.is_empty() {
        html.leaf("h2", &[], "Wanted objects and members");
        let columns = [
            text("Field"),
            text("Wanted"),
            text("In the member"),
            text("Clusters"),
        ];
        member_fields(html, &columns, &groups.fields, all);
    }
    for (title, names) in [
        ("Members without the object", &groups.absent),
        ("No Work yet, so nothing is wanted", &groups.unwanted),
    ] {
        if !names.is_empty() {
            html.leaf("h2", &[], title);
            html.el("p", &[], |html| clusters(html, names, all));
        }
    }
    let notes = report.clusters.iter();
    let notes = notes.map(|of| (&*of.cluster, &of.notes[..]));
    notes_by_cluster(html, notes, &report.notes, all);
}

fn copies(number: usize) -> String {
    match number {
        1 => "1 copy".to_owned(),
        many => format!("{} copies", count(many)),
    }
}

fn member_fields(html: &mut Html, columns: &[Column; 4], fields: &[Change], all: usize) {
    let [c_field, c_wanted, c_member, c_clusters] = columns;
    parts::table(html, "Wanted objects and members", columns, |html| {
        for change in fields.iter().take(MAX_ROWS) {
            html.el("tr", &[], |html| {
                parts::cell(html, c_field, |html| html.leaf("code", &[], &change.field));
                parts::cell(html, c_wanted, |html| value(html, change.old.as_deref()));
                parts::cell(html, c_member, |html| value(html, change.new.as_deref()));
                parts::cell(html, c_clusters, |html| {
                    clusters(html, &change.clusters, all);
                });
            });
        }
    });
    omitted(html, fields.len());
}

fn notes_by_cluster<'a>(
    html: &mut Html,
    of_clusters: impl Iterator<Item = (&'a str, &'a [String])>,
    of_all: &[String],
    all: usize,
) {
    let mut notes: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (cluster, of_cluster) in of_clusters {
        for note in of_cluster {
            notes.entry(cut(note)).or_default().push(cluster.to_owned());
        }
    }
    if !notes.is_empty() {
        html.leaf("h3", &[], "Remarks");
        reasons(html, "Remarks by cluster", &notes, all);
    }
    notes_of_all(html, of_all);
}

fn notes_of_all(html: &mut Html, notes: &[String]) {
    if !notes.is_empty() {
        html.el("ul", &[("class", &"muted")], |html| {
            for note in notes {
                html.leaf("li", &[], note);
            }
        });
    }
}

/// Returns the start of a text. Members choose some of the texts, so that these may be long.
fn cut(text: &str) -> String {
    match text.char_indices().nth(MAX_TEXT) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

/// Writes texts with their clusters.
fn reasons(html: &mut Html, caption: &str, reasons: &BTreeMap<String, Vec<String>>, all: usize) {
    let columns = [text("Reason"), text("Clusters")];
    let [c_reason, c_clusters] = &columns;
    parts::table(html, caption, &columns, |html| {
        for (reason, names) in reasons.iter().take(MAX_ROWS) {
            html.el("tr", &[], |html| {
                parts::cell(html, c_reason, |html| html.text(reason));
                parts::cell(html, c_clusters, |html| clusters(html, names, all));
            });
        }
    });
    omitted(html, reasons.len());
}

fn omitted(html: &mut Html, rows: usize) {
    if let Some(more) = rows.checked_sub(MAX_ROWS + 1) {
        let text = format!(
            "and {} more; `berth diff` prints all",
            counted(more + 1, "row")
        );
        html.leaf("p", &[("class", &"muted")], text);
    }
}

/// Writes a value as JSON, or a dash if the field is absent.
fn value(html: &mut Html, value: Option<&str>) {
    match value {
        Some(value) => html.leaf("code", &[], value),
        None => html.leaf("span", &[("class", &"muted")], "-"),
    }
}

/// Writes the names of a few clusters, or their number with the names folded.
fn clusters(html: &mut Html, names: &[String], all: usize) {
    if names.len() <= MAX_NAMES {
        html.el("span", &[("class", &"chips")], |html| {
            for name in names {
                parts::cluster_chip(html, name, None);
            }
        });
        return;
    }
    let summary = if names.len() == all {
        format!("all {} clusters", count(all))
    } else {
        format!("{} of {} clusters", count(names.len()), count(all))
    };
    html.el("details", &[], |html| {
        html.leaf("summary", &[], summary);
        let shown: Vec<&str> = names.iter().take(MAX_FOLDED).map(String::as_str).collect();
        html.leaf("span", &[("class", &"sub")], shown.join(", "));
        if let Some(more) = names.len().checked_sub(MAX_FOLDED + 1) {
            let text = format!("and {} more", count(more + 1));
            html.leaf("span", &[("class", &"sub")], text);
        }
    });
}

#[cfg(test)]
mod tests;
