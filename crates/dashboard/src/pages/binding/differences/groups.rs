//! Clusters with the same difference, in groups.

use std::collections::BTreeMap;

use berth_plan::diff::{
    DiffReport, FieldDiff, MemberDiff, Origin, WantedReport, shortened, shortened_pair,
};
use serde_json::Value;

use super::cut;

/// A change of a field, with the clusters that have it.
pub(super) struct Change {
    pub(super) field: String,
    /// The values, shortened.
    pub(super) old: Option<String>,
    pub(super) new: Option<String>,
    pub(super) clusters: Vec<String>,
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
    pub(super) fn by(&self) -> String {
        match (&self.common_policies[..], &self.policies[..]) {
            ([], []) => "no override policy".to_owned(),
            ([], policies) => format!("one of {}", policies.join(", ")),
            (common, _) => common.join(", "),
        }
    }
}

/// Groups changes with their clusters, the most frequent first.
pub(super) fn group<'a>(
    diffs: impl Iterator<Item = (&'a str, &'a FieldDiff, &'a [String])>,
) -> Vec<Change> {
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
pub(super) fn overrides(report: &WantedReport) -> Vec<Change> {
    group(report.clusters.iter().flat_map(|of| {
        let changes = of.template.iter().filter(|diff| diff.origin.is_none());
        changes.map(|diff| (&*of.cluster, diff, &of.override_policies[..]))
    }))
}

/// The replicas that the scheduler divided among clusters.
#[derive(Debug, Default)]
pub(super) struct Shares {
    pub(super) template: Option<String>,
    least: Option<i64>,
    most: Option<i64>,
    pub(super) clusters: Vec<String>,
}

impl Shares {
    /// Returns the smallest and the largest share as text.
    pub(super) fn range(&self) -> String {
        match (self.least, self.most) {
            (Some(least), Some(most)) if least == most => least.to_string(),
            (Some(least), Some(most)) => format!("{least} to {most}"),
            _ => "-".to_owned(),
        }
    }
}

/// Returns the fields that contain the share of a cluster. Each field has one row, also if the shares differ.
pub(super) fn shares(report: &WantedReport) -> BTreeMap<&str, Shares> {
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
pub(super) struct MemberGroups {
    pub(super) equal: usize,
    pub(super) differ: Vec<String>,
    pub(super) absent: Vec<String>,
    pub(super) unwanted: Vec<String>,
    pub(super) unreadable: BTreeMap<String, Vec<String>>,
    pub(super) fields: Vec<Change>,
}

impl MemberGroups {
    pub(super) fn of(report: &DiffReport) -> Self {
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
                    groups
                        .unreadable
                        .entry(cut(&reason))
                        .or_default()
                        .push(name);
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
