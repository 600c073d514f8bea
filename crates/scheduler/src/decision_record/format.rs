//! Documents of the debug endpoints, in the format `debug.berth.io/v1`.
//!
//! Fields are only added, never removed or changed in meaning, as long as [`API_VERSION`] stays.

use std::collections::BTreeMap;

use berth_core::Gates;
use berth_explain::Report;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::decision_log::format::{DecisionResult, Estimates, Peers, Workload};

/// The version of the format.
pub const API_VERSION: &str = "debug.berth.io/v1";
/// Path of the decisions.
pub const DECISIONS_PATH: &str = "/debug/decisions";
/// Path of the configuration.
pub const CONFIGURATION_PATH: &str = "/debug/configuration";

/// The last decision about each binding, without details.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DecisionList {
    /// `debug.berth.io/v1`.
    pub api_version: String,
    /// `DecisionList`.
    pub kind: String,
    /// True if this scheduler leads. A standby decides nothing.
    pub leading: bool,
    /// The maximum of bindings in the record.
    pub limit: usize,
    /// The decisions, the newest first.
    pub decisions: Vec<DecisionSummary>,
}

/// A decision without details.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DecisionSummary {
    /// `NAMESPACE/NAME` of a ResourceBinding, or `NAME` of a ClusterResourceBinding.
    pub binding: String,
    /// The UID of the binding.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// The generation of the binding that was decided about.
    pub generation: i64,
    /// The time of the decision.
    pub time: MicroTime,
    /// The rule by which the binding was scheduled: `ReconcileSchedule` or `ScaleSchedule`.
    pub trigger: String,
    /// The profile that decided.
    pub scheduler_name: String,
    /// The result.
    pub result: DecisionResult,
    /// Addition of preemption to the message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remark: Option<String>,
}

/// A decision with its inputs and its explanation.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DecisionDetails {
    /// `debug.berth.io/v1`.
    pub api_version: String,
    /// `Decision`.
    pub kind: String,
    /// Binding, time and result.
    #[serde(flatten)]
    pub summary: DecisionSummary,
    /// True if the scheduler still has the configuration that decided.
    pub current_configuration: bool,
    /// Clusters of workloads in the same affinity groups.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peers: Option<Peers>,
    /// Workloads that clusters did not report yet.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub assumed: BTreeMap<String, Vec<Workload>>,
    /// The answers of accurate estimators.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimates: Option<Estimates>,
    /// The number of calls to extenders that contributed.
    #[serde(default)]
    pub extender_calls: usize,
    /// The explanation: stages, reasons, scores, groups, estimates and division.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<Report>,
    /// Remarks about the record.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// The configuration of further decisions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ActiveConfiguration {
    /// `debug.berth.io/v1`.
    pub api_version: String,
    /// `ActiveConfiguration`.
    pub kind: String,
    /// All settings of file and flags in the form of the file of `--config`. Secrets are redacted.
    pub configuration: Value,
    /// The feature gates of the engine, which are flags only.
    pub feature_gates: Gates,
    /// True if selected clusters without replicas are part of the result.
    pub enable_empty_workload_propagation: bool,
    /// True if the members' accurate estimators are asked.
    pub enable_scheduler_estimator: bool,
}
