//! The report format, which clients read as JSON.
//!
//! New fields may be added to a version of the format. Removing a field or changing its meaning requires a new
//! [`API_VERSION`].

use berth_diagnosis::{Diagnosis, Migration, PausedEvictions};
use berth_engine::{Basis, DivisionStep, ScheduledReason, SelectionExplanation, Stage};
use serde::{Deserialize, Serialize};

use crate::fix::{Fix, Share};

/// The version of the format.
pub const API_VERSION: &str = "explain.berth.io/v1";

/// The kind of a report.
pub const KIND: &str = "DecisionReport";

/// A report, which explains one decision.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// The version of the format: `explain.berth.io/v1`.
    pub api_version: String,
    /// The kind: `DecisionReport`.
    pub kind: String,
    /// The binding and its workload.
    pub binding: BindingSummary,
    /// The result of the decision.
    pub verdict: Verdict,
    /// The state of the workload on its way from the template to the members. Absent if only the decision was looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diagnosis: Option<Diagnosis>,
    /// The source of the decision. Absent if the decision was made only for this report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<DecisionSource>,
    /// The result that the binding records, and whether the decision agrees with this result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recorded: Option<Recorded>,
    /// The unfinished moves of the binding. Absent if nothing moves and no return is possible.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub migration: Option<Migration>,
    /// The clusters of the binding from which evictions are paused.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evictions_paused: Vec<PausedEvictions>,
    /// The affinity terms, in order. For a placement without affinity terms, there is one entry without a name.
    pub terms: Vec<TermReport>,
    /// The choice among groups of clusters. Absent if no supported spread constraint applies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selection: Option<SelectionExplanation>,
    /// The steps in which the replicas were divided.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub division: Vec<DivisionStep>,
    /// The smallest fixes for a binding that is not placed, the smallest fix first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fixes: Vec<Fix>,
    /// The explanations of all clusters of the fleet, sorted by name. They refer to the affinity term in use or, if the
    /// decision failed, to the first tried affinity term.
    pub clusters: Vec<ClusterReport>,
    /// Remarks about the decision and the report, for example about an unmet `minGroups` or an incomplete search for
    /// fixes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// The binding and its workload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BindingSummary {
    /// `ResourceBinding` or `ClusterResourceBinding`.
    pub kind: String,
    /// The namespace of the binding. Absent for a ClusterResourceBinding.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The name of the binding.
    pub name: String,
    /// The workload of the binding.
    pub resource: ResourceSummary,
    /// The requested number of replicas. Absent for a resource without replicas.
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
    /// The namespace of the workload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The name of the workload. Absent if the report was built without the binding.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// The method of assigning replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StrategyName {
    /// Every cluster gets all replicas.
    Duplicated,
    /// Divides the replicas by static weights.
    StaticWeights,
    /// Divides the replicas by the capacity of clusters.
    DynamicWeights,
    /// Divides the replicas among as few clusters as possible.
    Aggregated,
    /// An unknown method.
    Unsupported,
}

impl StrategyName {
    /// Returns the name of the strategy.
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
    /// The reason that the decision sets in the condition Scheduled.
    pub reason: ScheduledReason,
    /// The clusters with their replicas, sorted by name. Empty if the decision failed.
    pub clusters: Vec<Share>,
    /// The name of the affinity term in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub affinity: Option<String>,
    /// The error message, with the same text as in Karmada. Absent if the binding is placed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// A summary of the result in one sentence.
    pub summary: String,
    /// The number of clusters without the workload for each stage and reason, the most frequent reason first.
    pub counts: Vec<StageCount>,
}

/// The number of clusters without the workload that have the same reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StageCount {
    /// The number of clusters.
    pub clusters: usize,
    /// The last stage that these clusters reached.
    pub stage: Stage,
    /// The plugin that rejected these clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plugin: Option<String>,
    /// The reason why these clusters do not have the workload.
    pub reason: String,
}

/// The result that the binding records.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Recorded {
    /// The clusters in `spec.clusters` of the binding, sorted by name.
    pub clusters: Vec<Share>,
    /// The name of the affinity term that the binding records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub affinity: Option<String>,
    /// The condition Scheduled of the binding.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub condition: Option<StoredCondition>,
    /// True if the decision of this report has the same clusters and replicas, or fails for the same reason.
    pub agrees: bool,
}

/// The kind of the source of a decision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum SourceKind {
    /// The scheduler made the decision and recorded it.
    Record,
    /// The decision was made again, from the present clusters.
    #[default]
    Recomputed,
}

/// The source of the decision that a report explains.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DecisionSource {
    /// The kind of the source.
    pub origin: SourceKind,
    /// The reason why no record of the scheduler is used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The time of the recorded decision, in the format of RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<String>,
    /// The name of the scheduler profile that made the decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduler_name: Option<String>,
    /// The rule that triggered the decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trigger: Option<String>,
    /// True if the scheduler would make the same decision now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub same_now: Option<bool>,
    /// The decision that the scheduler would make now. Absent if it is the same decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub now: Option<Verdict>,
}

/// The condition Scheduled, as the binding stores it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StoredCondition {
    /// `True` or `False`.
    pub status: String,
    /// The reason of the condition.
    pub reason: String,
    /// The message of the condition.
    pub message: String,
}

/// The result of an affinity term.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TermReport {
    /// The name of the affinity term. Absent if the placement has no affinity terms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The outcome of the affinity term.
    pub outcome: TermOutcome,
    /// The error that makes the affinity term infeasible.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// The number of clusters that passed the filters.
    pub passing: usize,
}

/// The outcome of an affinity term.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum TermOutcome {
    /// The decision skipped the term, because a later term is in use and rescheduling was not requested.
    Skipped,
    /// The term was tried and is infeasible.
    Failed,
    /// The term is in use.
    Used,
    /// The term was not tried, because an earlier term is feasible.
    NotTried,
}

/// The explanation of one cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterReport {
    /// The name of the cluster.
    pub name: String,
    /// The last stage that the cluster reached.
    pub stage: Stage,
    /// One sentence that states the reason for this stage.
    pub why: String,
    /// The plugin that rejected the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plugin: Option<String>,
    /// The reason for the rejection, as the plugin returned it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The assigned replicas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i64>,
    /// The replicas that the cluster had before the decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<i64>,
    /// The sum of the weighted scores. Absent if the cluster was not scored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score: Option<i64>,
    /// The scores of the plugins.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scores: Vec<ScoreReport>,
    /// The inputs of plugins that are not in the Cluster object, such as scores of ClusterScores.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inputs: Vec<PluginInput>,
    /// The estimates of all estimators.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub estimates: Vec<EstimateReport>,
    /// The lowest estimate, which the decision used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub minimum: Option<Minimum>,
    /// The number of replicas that the cluster can have in total: the further replicas that fit, plus the current
    /// replicas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub available: Option<i64>,
    /// The tier of the cluster. Tiers above 0 contain overflow groups.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tier: Option<u32>,
    /// The smallest fixes that would place the workload on this cluster, the smallest fix first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fixes: Vec<Fix>,
}

/// The score of one plugin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ScoreReport {
    /// The name of the plugin.
    pub plugin: String,
    /// The weight of the plugin.
    pub weight: i64,
    /// The score multiplied by the weight.
    pub weighted: i64,
}

/// An input of a plugin that is not in the Cluster object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PluginInput {
    /// The name of the plugin.
    pub plugin: String,
    /// The description of the input.
    pub description: String,
}

/// The estimate of one estimator for one cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EstimateReport {
    /// The name of the estimator.
    pub estimator: String,
    /// The number of further replicas that fit. Absent if the estimator has no answer or no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// The basis of the estimate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub basis: Option<Basis>,
}

/// The lowest estimate for one cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Minimum {
    /// The name of the estimator with the lowest estimate, the first name if several estimates are equal.
    pub estimator: String,
    /// The number of further replicas that fit.
    pub replicas: i32,
    /// The basis of the estimate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub basis: Option<Basis>,
}

impl Report {
    /// Returns the explanation of the cluster with this name.
    pub fn cluster(&self, name: &str) -> Option<&ClusterReport> {
        let index = self
            .clusters
            .binary_search_by(|cluster| (*cluster.name).cmp(name));
        index.ok().and_then(|index| self.clusters.get(index))
    }

    /// Reports whether the binding is placed.
    pub fn is_placed(&self) -> bool {
        self.verdict.reason == ScheduledReason::Success
    }
}
