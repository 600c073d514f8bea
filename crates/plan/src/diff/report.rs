//! The report, which clients read as JSON. New fields may be added to a version of the format.

use berth_api::Binding;
use berth_apimachinery::field_changes::FieldChange;
use serde::Serialize;
use serde_json::Value;

/// The version of the format.
pub const API_VERSION: &str = "diff.berth.io/v1";

/// The kind of a report.
pub const KIND: &str = "DifferenceReport";

/// The differences of one binding.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DiffReport {
    /// The version of the format: `diff.berth.io/v1`.
    pub api_version: String,
    /// The kind: `DifferenceReport`.
    pub kind: String,
    /// The binding and its workload.
    pub binding: ComparedBinding,
    /// The differences in each cluster.
    pub clusters: Vec<ClusterDiff>,
    /// The fields whose wanted values differ between the clusters.
    pub between_clusters: Vec<Variation>,
    /// Remarks about the whole report.
    pub notes: Vec<String>,
}

/// The names of a binding and of its workload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ComparedBinding {
    /// The kind of the binding.
    pub kind: &'static str,
    /// The name of the binding, as `NAMESPACE/NAME` or `NAME`.
    pub name: String,
    /// The kind of the workload.
    pub resource_kind: String,
    /// The name of the workload.
    pub resource_name: String,
}

impl ComparedBinding {
    pub(crate) fn of(binding: &Binding) -> Self {
        Self {
            kind: binding.key.kind().name(),
            name: binding.key.to_string(),
            resource_kind: binding.spec.resource.kind.clone(),
            resource_name: binding.spec.resource.name.clone(),
        }
    }
}

/// The differences in one cluster.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterDiff {
    /// The name of the cluster.
    pub cluster: String,
    /// The object in the member, compared with the wanted object.
    pub member: MemberDiff,
    /// The wanted object, compared with the template.
    pub template: Vec<FieldDiff>,
    /// The override policies that were applied, with their kinds, such as `OverridePolicy web`.
    pub override_policies: Vec<String>,
    /// Remarks about the cluster.
    pub notes: Vec<String>,
}

/// The wanted objects of one binding, compared with the template and with each other.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WantedReport {
    /// The differences from the template in each cluster.
    pub clusters: Vec<WantedDiff>,
    /// The fields whose wanted values differ between the clusters.
    pub between_clusters: Vec<Variation>,
    /// Remarks about the whole report.
    pub notes: Vec<String>,
}

/// The wanted object of one cluster, compared with the template.
#[derive(Clone, Debug, PartialEq)]
pub struct WantedDiff {
    /// The name of the cluster.
    pub cluster: String,
    /// The fields that differ. `old` is the value in the template, and `new` the wanted value.
    pub template: Vec<FieldDiff>,
    /// The override policies that were applied, with their kinds, such as `OverridePolicy web`.
    pub override_policies: Vec<String>,
    /// Remarks about the cluster.
    pub notes: Vec<String>,
}

/// The object in a member, compared with the wanted object.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "state")]
pub enum MemberDiff {
    /// The object equals the wanted object.
    Equal,
    /// The object differs from the wanted object.
    Different {
        /// The fields that differ. `old` is the wanted value, and `new` that in the member.
        fields: Vec<FieldDiff>,
    },
    /// The member has no such object.
    Absent,
    /// There is no Work, so that nothing is wanted yet.
    NoWork,
    /// The member cannot be read.
    Unreadable {
        /// The error.
        reason: String,
    },
}

/// A field with two values.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FieldDiff {
    /// The path of the field.
    pub field: String,
    /// The value on the left side, or `None` if the field is absent.
    pub old: Option<Value>,
    /// The value on the right side, or `None` if the field is absent.
    pub new: Option<Value>,
    /// The origin of the difference, if it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
}

impl FieldDiff {
    pub(crate) fn new(change: FieldChange, origin: Option<Origin>) -> Self {
        Self {
            field: change.field,
            old: change.old,
            new: change.new,
            origin,
        }
    }
}

impl From<FieldDiff> for FieldChange {
    fn from(diff: FieldDiff) -> Self {
        Self {
            field: diff.field,
            old: diff.old,
            new: diff.new,
        }
    }
}

/// The origin of a difference between the template and a wanted object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Origin {
    /// The scheduler has divided the replicas.
    Share,
}

/// A field whose wanted values differ between clusters.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Variation {
    /// The path of the field.
    pub field: String,
    /// The values with their clusters.
    pub values: Vec<VariationValue>,
}

/// A value of a field, and the clusters that have it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct VariationValue {
    /// The value, or `None` if the field is absent.
    pub value: Option<Value>,
    /// The names of the clusters.
    pub clusters: Vec<String>,
}

/// The result of the comparison of the members with the wanted objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiffVerdict {
    /// No object differs.
    Equal,
    /// At least one object differs, and all members could be read.
    Different,
    /// At least one member could not be read.
    Incomplete,
}

impl DiffReport {
    /// Returns the result of the comparison with the members.
    pub fn verdict(&self) -> DiffVerdict {
        let mut verdict = DiffVerdict::Equal;
        for cluster in &self.clusters {
            match cluster.member {
                MemberDiff::Unreadable { .. } => return DiffVerdict::Incomplete,
                MemberDiff::Equal => {}
                MemberDiff::Different { .. } | MemberDiff::Absent | MemberDiff::NoWork => {
                    verdict = DiffVerdict::Different;
                }
            }
        }
        verdict
    }
}
