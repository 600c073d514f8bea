//! WorkloadRebalancer: a one-time request to reschedule workloads.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::go_zero::is_go_zero;
use crate::open_enum::open_enum;

/// The workloads to reschedule.
#[derive(
    CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema,
)]
#[kube(
    group = "apps.karmada.io",
    version = "v1alpha1",
    kind = "WorkloadRebalancer",
    doc = "A one-time request to reschedule workloads.",
    status = "WorkloadRebalancerStatus",
    derive = "Default",
    derive = "PartialEq"
)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadRebalancerSpec {
    /// The workloads, at least one.
    #[schemars(length(min = 1))]
    pub workloads: Vec<WorkloadReference>,
    /// Seconds between completion and deletion of this object; absent means it is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_seconds_after_finished: Option<i32>,
}

/// A reference to a workload.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadReference {
    /// The API version, for example `apps/v1`.
    pub api_version: String,
    /// The kind.
    pub kind: String,
    /// The name.
    pub name: String,
    /// The namespace; empty for cluster-scoped resources.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
}

/// The progress of the request.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadRebalancerStatus {
    /// The result for each workload.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub observed_workloads: Vec<ObservedWorkload>,
    /// The generation that the status describes.
    #[serde(default, skip_serializing_if = "is_go_zero")]
    pub observed_generation: Option<i64>,
    /// The time at which all workloads had a result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finish_time: Option<Time>,
}

/// The result for one workload.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObservedWorkload {
    /// The workload.
    pub workload: WorkloadReference,
    /// The result; absent while the workload is pending.
    #[serde(default, skip_serializing_if = "is_go_zero")]
    #[schemars(with = "Option<String>")]
    pub result: Option<RebalanceResult>,
    /// The reason of a failure.
    #[serde(default, skip_serializing_if = "is_go_zero")]
    #[schemars(with = "Option<String>")]
    pub reason: Option<RebalanceFailedReason>,
}

open_enum! {
    /// The result of a request to reschedule a workload.
    pub enum RebalanceResult {
        /// The request was recorded in the binding.
        Successful = "Successful",
        /// The request failed permanently.
        Failed = "Failed",
    }
}

open_enum! {
    /// The reason of a failed request.
    pub enum RebalanceFailedReason {
        /// The workload has no binding.
        ReferencedBindingNotFound = "ReferencedBindingNotFound",
    }
}
