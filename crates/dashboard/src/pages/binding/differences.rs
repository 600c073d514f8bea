//! The differences of a workload: what overrides change in each cluster, what differs between the clusters, and what the
//! members have against what is wanted. Clusters with the same difference share a row.

use std::collections::BTreeMap;

use berth_plan::diff::{
    DiffReport, FieldDiff, MemberDiff, Origin, WantedReport, shortened, shortened_pair,
};
use jiff::Timestamp;
use serde_json::Value;

use crate::html::Html;
use crate::pages::format::{clock, count, counted};
use crate::pages::parts::{self, Column, text};

/// Maximum number of rows of each table.
const MAX_ROWS: usize = 100;
/// Maximum number of clusters whose names a row lists.
const MAX_NAMES: usize = 6;
/// Maximum number of clusters in the folded list of a row.
const MAX_FOLDED: usize = 500;

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

/// A change of a field, with the clusters that have it.
struct Change {
    field: String,
    /// The values, shortened.
    old: Option<String>,
    new: Option<String>,
    clusters: Vec<String>,
    /// The override policies that were applied in each of the clusters.
    common_policies: Vec<String>,
    /// The override policies that were applied in at least one of the clusters.
    policies: Vec<String>,
}

impl Change {
    fn new(diff: &FieldDiff, policies: &[String]) -> Self {
        let (old, new) = shortened_pair(diff.old.as_ref(), diff.new.as_ref());
        Self {
            field: diff.field.clone(),
            old,
            new,
            clusters: Vec::new(),
            common_policies: policies.to_vec(),
            policies: policies.to_vec(),
        }
    }

    /// Returns the policies that may cause the change, in words.
    fn by(&self) -> String {
        match (&self.common_policies[..], &self.policies[..]) {
            ([], []) => "no override policy".to_owned(),
            ([], policies) => format!("one of {}", policies.join(", ")),
            (common, _) => common.join(", "),
        }
    }
}

/// Groups changes with their clusters, the most frequent first.
fn group<'a>(diffs: impl Iterator<Item = (&'a str, &'a FieldDiff, &'a [String])>) -> Vec<Change> {
    let json = |value: &Option<Value>| value.as_ref().map(ToString::to_string);
    let mut groups: BTreeMap<_, Change> = BTreeMap::new();
    for (cluster, diff, policies) in diffs {
        let group = groups.entry((&*diff.field, json(&diff.old), json(&diff.new)));
        let change = group.or_insert_with(|| Change::new(diff, policies));
        change.clusters.push(cluster.to_owned());
        change.common_policies.retain(|of| policies.contains(of));
        for policy in policies {
            if !change.policies.contains(policy) {
                change.policies.push(policy.clone());
            }
        }
    }
    let mut changes: Vec<Change> = groups.into_values().collect();
    changes.sort_by_key(|change| std::cmp::Reverse(change.clusters.len()));
    changes
}

/// Returns the changes by override policies.
fn overrides(report: &WantedReport) -> Vec<Change> {
    group(report.clusters.iter().flat_map(|of| {
        let changes = of.template.iter().filter(|diff| diff.origin.is_none());
        changes.map(|diff| (&*of.cluster, diff, &of.override_policies[..]))
    }))
}

/// The replicas that the scheduler divided among clusters.
#[derive(Debug, Default)]
struct Shares {
    template: Option<String>,
    least: Option<i64>,
    most: Option<i64>,
    clusters: Vec<String>,
}

impl Shares {
    /// Returns the smallest and the largest share as text.
    fn range(&self) -> String {
        match (self.least, self.most) {
            (Some(least), Some(most)) if least == most => least.to_string(),
            (Some(least), Some(most)) => format!("{least} to {most}"),
            _ => "-".to_owned(),
        }
    }
}

/// Returns the fields that contain the share of a cluster. Each field has one row, also if the shares differ.
fn shares(report: &WantedReport) -> BTreeMap<&str, Shares> {
    let mut fields: BTreeMap<&str, Shares> = BTreeMap::new();
    for of in &report.clusters {
        for diff in &of.template {
            if diff.origin != Some(Origin::Share) {
                continue;
            }
            let share = fields.entry(&diff.field).or_default();
            share.template = diff.old.as_ref().map(shortened);
            if let Some(replicas) = diff.new.as_ref().and_then(Value::as_i64) {
                let least = share.least.map_or(replicas, |least| least.min(replicas));
                share.least = Some(least);
                share.most = share.most.max(Some(replicas));
            }
            share.clusters.push(of.cluster.clone());
        }
    }
    fields
}

/// The clusters of a comparison by their result.
#[derive(Default)]
struct MemberGroups {
    equal: usize,
    differ: Vec<String>,
    absent: Vec<String>,
    unwanted: Vec<String>,
    unreadable: BTreeMap<String, Vec<String>>,
    fields: Vec<Change>,
}

impl MemberGroups {
    fn of(report: &DiffReport) -> Self {
        let mut groups = Self::default();
        for of in &report.clusters {
            let name = of.cluster.clone();
            match &of.member {
                MemberDiff::Equal => groups.equal += 1,
                MemberDiff::Different { .. } => groups.differ.push(name),
                MemberDiff::Absent => groups.absent.push(name),
                MemberDiff::NoWork => groups.unwanted.push(name),
                MemberDiff::Unreadable { reason } => {
                    // Without the name of the cluster, equal reasons have equal texts.
                    let reason = reason.replace(&format!("cluster {name}"), "the cluster");
                    groups.unreadable.entry(reason).or_default().push(name);
                }
            }
        }
        groups.fields = group(report.clusters.iter().flat_map(|of| {
            let fields = match &of.member {
                MemberDiff::Different { fields } => &fields[..],
                _ => &[],
            };
            fields.iter().map(|diff| (&*of.cluster, diff, &[][..]))
        }));
        groups
    }
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
            notes
                .entry(note.clone())
                .or_default()
                .push(cluster.to_owned());
        }
    }
    if !notes.is_empty() {
        html.leaf("h3", &[], "Remarks");
        reasons(html, "Remarks by cluster", &notes, all);
    }
    if !of_all.is_empty() {
        html.el("ul", &[("class", &"muted")], |html| {
            for note in of_all {
                html.leaf("li", &[], note);
            }
        });
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
