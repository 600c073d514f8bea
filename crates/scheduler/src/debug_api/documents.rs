//! The JSON documents of the debug endpoints, in the format `debug.berth.io/v1`.
//!
//! Later versions of Berth may add fields. Removing a field, or changing its meaning, requires another [`API_VERSION`].

use std::collections::BTreeMap;

use berth_api::feature_gates::EngineGates;
use berth_explain::Report;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::decision_log::format::{DecisionResult, Estimates, Peers, Workload};

/// The version of the format.
pub const API_VERSION: &str = "debug.berth.io/v1";
/// Path of the endpoint for decisions.
pub const DECISIONS_PATH: &str = "/debug/decisions";
/// Path of the endpoint for the queues.
pub const QUEUES_PATH: &str = "/debug/queues";
/// Path of the endpoint for the configuration.
pub const CONFIGURATION_PATH: &str = "/debug/configuration";

/// The last decision about each binding, without details.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DecisionList {
    /// `debug.berth.io/v1`.
    pub api_version: String,
    /// `DecisionList`.
    pub kind: String,
    /// True if this scheduler is the leader. A standby makes no decisions.
    pub leading: bool,
    /// The maximum number of bindings whose last decision is recorded.
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
    /// The generation of the binding at the time of the decision.
    pub generation: i64,
    /// The time of the decision.
    pub time: MicroTime,
    /// The reason for scheduling the binding: `ReconcileSchedule` or `ScaleSchedule`.
    pub trigger: String,
    /// The name of the profile that made the decision.
    pub scheduler_name: String,
    /// The result.
    pub result: DecisionResult,
    /// Text about preemption. The condition of the binding contains this text after the message of the result.
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
    /// True if the scheduler's configuration has not changed since the decision.
    pub current_configuration: bool,
    /// Clusters of the other workloads in the affinity groups of the binding.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peers: Option<Peers>,
    /// Workloads that were placed in a cluster and that the cluster did not report yet, by cluster.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub assumed: BTreeMap<String, Vec<Workload>>,
    /// The answers of accurate estimators.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimates: Option<Estimates>,
    /// The number of calls to extenders whose responses the decision used.
    #[serde(default)]
    pub extender_calls: usize,
    /// The explanation of the decision: stages, reasons, scores, cluster groups, estimates and division of replicas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<Report>,
    /// Notes about missing parts of this document.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// The ClusterQueues and namespaces that take turns in the scheduler.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QueueList {
    /// `debug.berth.io/v1`.
    pub api_version: String,
    /// `QueueList`.
    pub kind: String,
    /// True if this scheduler is the leader. The queue of a standby is empty.
    pub leading: bool,
    /// All ClusterQueues by name, and then the namespaces with most ready bindings, at most 100.
    pub queues: Vec<QueueSummary>,
    /// The position of the requested binding. Absent if the binding is not ready to be scheduled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<QueuePosition>,
}

/// A ClusterQueue, or a namespace without one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QueueSummary {
    /// The name of the ClusterQueue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_queue: Option<String>,
    /// The namespace, empty for ClusterResourceBindings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The number of bindings in one turn.
    pub weight: u32,
    /// The number of bindings that are ready to be scheduled.
    pub ready: usize,
    /// The number of bindings that wait, because a limit refuses them.
    #[serde(default)]
    pub held: usize,
    /// The number of bindings without clusters. Only of ClusterQueues.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pending: Option<usize>,
    /// The number of bindings with clusters. Only of ClusterQueues.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub admitted: Option<usize>,
    /// The time for which the first binding waits, in seconds.
    #[serde(default)]
    pub oldest_seconds: i64,
    /// The cohort of the ClusterQueue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cohort: Option<String>,
    /// True if the ClusterQueue admits no bindings.
    #[serde(default)]
    pub is_held: bool,
    /// The usage of the limited resources of the ClusterQueue.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub usage: Vec<ResourceUse>,
}

/// The usage of a resource by a ClusterQueue. Amounts are in the notation of Kubernetes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceUse {
    /// The resource.
    pub name: String,
    /// The usage, with the decisions that are not written yet.
    pub used: String,
    /// The nominal quota.
    pub nominal: String,
    /// The part of the usage beyond the nominal quota.
    pub borrowed: String,
}

/// The position of a binding that is ready to be scheduled.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QueuePosition {
    /// The ClusterQueue with which the binding takes turns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_queue: Option<String>,
    /// The namespace with which the binding takes turns, empty for ClusterResourceBindings. Absent without turns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The position among the ready bindings of the queue or namespace with the same priority, from 1.
    pub place: usize,
    /// The number of these bindings.
    pub of: usize,
    /// The number of queues and namespaces that take turns at this priority.
    pub tenants: usize,
    /// The approximate number of bindings that are scheduled first.
    pub before: usize,
}

/// The configuration that the scheduler uses now.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ActiveConfiguration {
    /// `debug.berth.io/v1`.
    pub api_version: String,
    /// `ActiveConfiguration`.
    pub kind: String,
    /// The effective settings of the flags and of the file or ConfigMap, in the format of the configuration file.
    /// Secrets are redacted.
    pub configuration: Value,
    /// The feature gates of the engine. Only a flag sets them.
    pub feature_gates: EngineGates,
    /// True if selected clusters with 0 replicas are part of the result.
    #[serde(rename = "enableEmptyWorkloadPropagation")]
    pub empty_workload_propagation: bool,
    /// True if the scheduler calls the accurate estimators of the member clusters.
    pub enable_scheduler_estimator: bool,
    /// True if the scheduler enforces FederatedResourceQuotas. Missing in the answers of older schedulers, which then
    /// count as enforcing.
    #[serde(default = "enforces_by_default")]
    pub enforces_quotas: bool,
}

/// Returns the value of a missing [`ActiveConfiguration::enforces_quotas`].
const fn enforces_by_default() -> bool {
    true
}
