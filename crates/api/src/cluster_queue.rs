//! ClusterQueue, specific to Berth: the share of a team in the scheduler's turns, and the resources that its workloads
//! may request in all member clusters together. The queues of a cohort lend each other unused quota.
//!
//! The names are those of Kueue's kind. Flavors, preemption and admission checks do not exist here.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::go_zero::is_go_zero;
use crate::label_selector::LabelSelector;
use crate::open_enum::open_enum;
use crate::quantity::QuantityText;

/// Label of templates and bindings: the name of the ClusterQueue. It has an effect if the queue selects the namespace.
pub const QUEUE_NAME: &str = "scheduling.berth/queue-name";
/// Condition type: the queue admits bindings.
pub const ACTIVE: &str = "Active";

/// The bindings of a queue, its turns and its quotas.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "scheduling.berth",
    version = "v1alpha1",
    kind = "ClusterQueue",
    doc = "Limits what the workloads of a team request in all member clusters together, and gives the team its turns in the scheduler.",
    shortname = "cq",
    category = "berth",
    status = "ClusterQueueStatus",
    derive = "Default",
    derive = "PartialEq",
    printcolumn(
        name = "COHORT",
        type_ = "string",
        json_path = ".spec.cohortName",
        description = "The queues of a cohort lend each other unused quota."
    ),
    printcolumn(
        name = "PENDING",
        type_ = "integer",
        json_path = ".status.pendingBindings",
        description = "The number of bindings without clusters."
    ),
    printcolumn(
        name = "ADMITTED",
        type_ = "integer",
        json_path = ".status.admittedBindings",
        description = "The number of bindings with clusters."
    ),
    printcolumn(
        name = "AGE",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct ClusterQueueSpec {
    /// The namespaces whose bindings belong to the queue. An empty selector selects all namespaces; without a selector,
    /// the queue has no bindings. If several queues select a namespace, the label `scheduling.berth/queue-name` of a
    /// binding names one of them, and a binding without this label belongs to the first of them by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace_selector: Option<LabelSelector>,
    /// The number of bindings that the queue gets scheduled in one of its turns among bindings of equal priority.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1000), extend("default" = 1))]
    pub weight: Option<i32>,
    /// The cohort, whose queues lend each other unused quota. Without a name, the queue neither borrows nor lends.
    #[serde(default, skip_serializing_if = "is_go_zero")]
    pub cohort_name: Option<String>,
    /// The limited resources. Other resources are not limited.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub quotas: Vec<QueueQuota>,
    /// `Hold` stops the admission of bindings. Admitted bindings keep their clusters, and can shrink.
    #[serde(default, skip_serializing_if = "is_go_zero")]
    #[schemars(extend("default" = "None"))]
    pub stop_policy: Option<StopPolicy>,
}

/// The quota of one resource.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QueueQuota {
    /// The name of the resource, such as `cpu`.
    pub name: String,
    /// The amount that the queue may use without borrowing.
    pub nominal_quota: QuantityText,
    /// The largest amount to borrow from the cohort; absent means no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub borrowing_limit: Option<QuantityText>,
    /// The largest part of the nominal quota that other queues may borrow; absent means all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lending_limit: Option<QuantityText>,
}

open_enum! {
    /// The admission of bindings.
    pub enum StopPolicy {
        /// Bindings are admitted.
        None = "None",
        /// No binding is admitted.
        Hold = "Hold",
    }
}

/// The bindings and the usage of a queue.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterQueueStatus {
    /// The number of bindings without clusters.
    #[serde(default)]
    pub pending_bindings: i32,
    /// The number of bindings with clusters.
    #[serde(default)]
    pub admitted_bindings: i32,
    /// The usage of each limited resource.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub usage: Vec<QueueUsage>,
    /// The condition `Active`: whether the queue admits bindings.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// The usage of one resource.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QueueUsage {
    /// The name of the resource.
    pub name: String,
    /// The amount that the bindings of the queue use.
    pub total: QuantityText,
    /// The part of the total beyond the nominal quota.
    pub borrowed: QuantityText,
}

impl ClusterQueueSpec {
    /// Returns the number of bindings in one turn of the queue, at least 1.
    pub fn turn(&self) -> u32 {
        let weight = self.weight.and_then(|weight| u32::try_from(weight).ok());
        weight.unwrap_or(1).max(1)
    }

    /// Reports whether the queue admits no bindings.
    pub fn is_held(&self) -> bool {
        self.stop_policy == Some(StopPolicy::Hold)
    }
}
