//! WorkloadRebalancer: asks once for workloads to be placed afresh, and tells how that went.

use k8s_openapi::ClusterResourceScope;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::go_zero::is_go_zero;
use crate::open_enum::open_enum;
use crate::root_kind::root_kind;

root_kind! {
    /// Asks for workloads to be placed afresh.
    WorkloadRebalancer {
        group: "apps.karmada.io", version: "v1alpha1", plural: "workloadrebalancers",
        scope: ClusterResourceScope, spec: WorkloadRebalancerSpec, status: WorkloadRebalancerStatus,
    }
}

/// Which workloads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadRebalancerSpec {
    /// The workloads, at least one.
    #[schemars(length(min = 1))]
    pub workloads: Vec<WorkloadReference>,
    /// Seconds after which it is deleted when it has finished; absent means never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_seconds_after_finished: Option<i32>,
}

/// Names a workload.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadReference {
    /// For example `apps/v1`.
    pub api_version: String,
    /// The kind.
    pub kind: String,
    /// The name.
    pub name: String,
    /// The namespace; empty for cluster-scoped resources.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(extend("x-no-default" = true))]
    pub namespace: String,
}

/// How it went.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadRebalancerStatus {
    /// How it went with each workload.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub observed_workloads: Vec<ObservedWorkload>,
    /// The generation that this is about.
    #[serde(default, skip_serializing_if = "is_go_zero")]
    pub observed_generation: Option<i64>,
    /// When all workloads had a result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finish_time: Option<Time>,
}

/// How it went with a workload.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObservedWorkload {
    /// The workload.
    pub workload: WorkloadReference,
    /// Whether its binding was asked to be scheduled afresh; absent until that is known.
    #[serde(default, skip_serializing_if = "is_go_zero")]
    #[schemars(with = "Option<String>")]
    pub result: Option<RebalanceResult>,
    /// Why not.
    #[serde(default, skip_serializing_if = "is_go_zero")]
    #[schemars(with = "Option<String>")]
    pub reason: Option<RebalanceFailedReason>,
}

open_enum! {
    /// Whether a binding was asked to be scheduled afresh.
    pub enum RebalanceResult {
        /// It was.
        Successful = "Successful",
        /// It was not, and will not be.
        Failed = "Failed",
    }
}

open_enum! {
    /// Why a binding was not asked.
    pub enum RebalanceFailedReason {
        /// There is none.
        ReferencedBindingNotFound = "ReferencedBindingNotFound",
    }
}
