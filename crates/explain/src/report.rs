//! The format of a report.
//!
//! Fields are only added, never removed or changed in meaning, as long as [`API_VERSION`] stays.

use berth_core::{Basis, DivisionStep, SelectionExplanation, Stage};
use serde::{Deserialize, Serialize};

use crate::fix::{Fix, Share};

/// The version of the format.
pub const API_VERSION: &str = "explain.berth.io/v1";

/// The kind of the format.
pub const KIND: &str = "DecisionReport";

/// The explanation of one decision.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// `explain.berth.io/v1`.
    pub api_version: String,
    /// `DecisionReport`.
    pub kind: String,
    /// The binding and its workload.
    pub binding: BindingSummary,
    /// The result.
    pub verdict: Verdict,
    /// Origin of the report; absent for a decision that was made for the report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<Source>,
    /// The result that the binding records, and whether the decision agrees with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recorded: Option<Recorded>,
    /// The affinity terms in order; one without a name if the placement has no terms.
    pub terms: Vec<TermReport>,
    /// The choice among groups of clusters; absent if every passing cluster is selected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selection: Option<SelectionExplanation>,
    /// The steps that divide the replicas.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub division: Vec<DivisionStep>,
    /// The smallest fixes of a binding that is not placed, smallest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fixes: Vec<Fix>,
    /// All clusters of the fleet by name, in the deciding term.
    pub clusters: Vec<ClusterReport>,
    /// Remarks about the report.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// The binding and its workload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BindingSummary {
    /// `ResourceBinding` or `ClusterResourceBinding`.
    pub kind: String,
    /// The namespace of a ResourceBinding.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The name.
    pub name: String,
    /// The workload.
    pub resource: ResourceSummary,
    /// The requested replicas; absent for resources without replicas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i64>,
    /// The method of assigning replicas.
    pub strategy: StrategyName,
}

/// The workload of a binding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceSummary {
    /// The API version.
    pub api_version: String,
    /// The kind.
    pub kind: String,
    /// The namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The name; absent if the report was built without the binding.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// The method of assigning replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StrategyName {
    /// Every cluster gets all replicas.
    Duplicated,
    /// Divides by fixed weights.
    StaticWeights,
    /// Divides by the capacity of clusters.
    DynamicWeights,
    /// Uses as few clusters as possible.
    Aggregated,
    /// An unknown method.
    Unsupported,
}

impl StrategyName {
    /// Returns the name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Duplicated => "Duplicated",
            Self::StaticWeights => "StaticWeights",
            Self::DynamicWeights => "DynamicWeights",
            Self::Aggregated => "Aggregated",
            Self::Unsupported => "Unsupported",
        }
    }
}

/// The result of the decision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Verdict {
    /// The reason of the condition Scheduled.
    pub reason: VerdictReason,
    /// The clusters with their replicas, by name; empty after a failure.
    pub clusters: Vec<Share>,
    /// The affinity term in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub affinity: Option<String>,
    /// The failure in Karmada's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The cause in one sentence.
    pub summary: String,
    /// The number of clusters for each stage and reason, the most frequent first.
    pub counts: Vec<StageCount>,
}

/// The reason of the condition Scheduled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum VerdictReason {
    /// The binding is placed.
    Success,
    /// The fitting clusters lack capacity for the replicas.
    Unschedulable,
    /// No cluster fits.
    NoClusterFit,
    /// Any other failure.
    SchedulerError,
}

impl VerdictReason {
    /// Returns the reason as written to the API.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Success => "Success",
            Self::Unschedulable => "Unschedulable",
            Self::NoClusterFit => "NoClusterFit",
            Self::SchedulerError => "SchedulerError",
        }
    }
}

/// The number of clusters that one reason keeps out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StageCount {
    /// The number of clusters.
    pub clusters: usize,
    /// The stage that they reached.
    pub stage: Stage,
    /// The plugin that rejected them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plugin: Option<String>,
    /// The reason.
    pub reason: String,
}

/// The result that the binding records.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Recorded {
    /// The clusters of `spec.clusters`, by name.
    pub clusters: Vec<Share>,
    /// The affinity term that was in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub affinity: Option<String>,
    /// The condition Scheduled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub condition: Option<StoredCondition>,
    /// True if the decision of this report has the same clusters and replicas, or fails for the same reason.
    pub agrees: bool,
}

/// Origin of a report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Origin {
    /// The scheduler's record of the decision that it made.
    Record,
    /// A decision that was made again from the present clusters.
    #[default]
    Recomputed,
}

/// The decision that a report explains.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Source {
    /// Origin of the report.
    pub origin: Origin,
    /// The reason why there is no record of use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Time of the recorded decision, in RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<String>,
    /// The profile that decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduler_name: Option<String>,
    /// The rule by which the binding was scheduled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trigger: Option<String>,
    /// True if the same decision would be made now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub same_now: Option<bool>,
    /// The decision that would be made now, if it differs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub now: Option<Verdict>,
}

/// A condition of the binding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StoredCondition {
    /// `True` or `False`.
    pub status: String,
    /// The reason.
    pub reason: String,
    /// The message.
    pub message: String,
}

/// An affinity term.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TermReport {
    /// The name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Result of trying it.
    pub outcome: TermOutcome,
    /// The reason why it was not used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// The number of clusters that passed the filters.
    pub passing: usize,
}

/// Result of trying an affinity term.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum TermOutcome {
    /// Skipped, because a later term is in use and rescheduling was not requested.
    Skipped,
    /// Tried and infeasible.
    Failed,
    /// In use.
    Used,
    /// Not tried, because an earlier term is feasible.
    NotTried,
}

/// One cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterReport {
    /// The name.
    pub name: String,
    /// The last stage that it reached.
    pub stage: Stage,
    /// The reason in one sentence.
    pub why: String,
    /// The plugin that rejected it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plugin: Option<String>,
    /// The reason that the plugin gave.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The assigned replicas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i64>,
    /// The replicas held before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<i64>,
    /// The sum of the weighted scores; absent if it was not scored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score: Option<i64>,
    /// The scores of the plugins.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scores: Vec<ScoreReport>,
    /// The estimates of the estimators.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub estimates: Vec<EstimateReport>,
    /// The estimate that counts: the lowest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub minimum: Option<Minimum>,
    /// The free capacity plus the held replicas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub available: Option<i64>,
    /// The tier, above 0 only for overflow groups.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tier: Option<u32>,
    /// The smallest changes that would place the workload on it, smallest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fixes: Vec<Fix>,
}

/// The score of one plugin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ScoreReport {
    /// The plugin.
    pub plugin: String,
    /// Its weight.
    pub weight: i64,
    /// The score multiplied by the weight.
    pub weighted: i64,
}

/// The answer of one estimator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EstimateReport {
    /// The estimator.
    pub estimator: String,
    /// The replicas that fit; absent without an answer or a limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// The basis of the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub basis: Option<Basis>,
}

/// The lowest estimate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Minimum {
    /// The estimator with the lowest answer; the first of several.
    pub estimator: String,
    /// The replicas that fit.
    pub replicas: i32,
}

impl Report {
    /// Returns the report of a cluster.
    pub fn cluster(&self, name: &str) -> Option<&ClusterReport> {
        let index = self
            .clusters
            .binary_search_by(|cluster| (*cluster.name).cmp(name));
        index.ok().and_then(|index| self.clusters.get(index))
    }

    /// Reports whether the binding is placed.
    pub fn is_placed(&self) -> bool {
        self.verdict.reason == VerdictReason::Success
    }
}
