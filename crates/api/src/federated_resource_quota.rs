//! FederatedResourceQuota, which limits the resources that the workloads of a namespace request in all member clusters
//! together.
//!
//! [`federated_quota`](crate::federated_quota) contains the arithmetic.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::cluster::ResourceList;

/// The limits.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "policy.karmada.io",
    version = "v1alpha1",
    kind = "FederatedResourceQuota",
    doc = "Limits the resources that the workloads of a namespace request in all member clusters together.",
    namespaced,
    category = "karmada-io",
    status = "FederatedResourceQuotaStatus",
    derive = "Default",
    derive = "PartialEq",
    printcolumn(name = "OVERALL", type_ = "string", json_path = ".status.overall"),
    printcolumn(
        name = "OVERALL_USED",
        type_ = "string",
        json_path = ".status.overallUsed"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct FederatedResourceQuotaSpec {
    /// The limit of each resource over all clusters.
    pub overall: ResourceList,
    /// The ResourceQuotas to create in member clusters. Other clusters get none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub static_assignments: Vec<StaticClusterAssignment>,
}

/// The limits in one cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StaticClusterAssignment {
    /// The name of the cluster.
    pub cluster_name: String,
    /// The limit of each resource.
    pub hard: ResourceList,
}

/// The limits in force, and the usage.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FederatedResourceQuotaStatus {
    /// The limit of each resource over all clusters.
    #[serde(default, skip_serializing_if = "ResourceList::is_empty")]
    pub overall: ResourceList,
    /// The usage of each resource over all clusters.
    #[serde(default, skip_serializing_if = "ResourceList::is_empty")]
    pub overall_used: ResourceList,
    /// The limits and the usage in each cluster with a ResourceQuota.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub aggregated_status: Vec<ClusterQuotaStatus>,
}

/// The limits and the usage in one cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterQuotaStatus {
    /// The name of the cluster.
    pub cluster_name: String,
    /// The limit of each resource.
    #[serde(default, skip_serializing_if = "ResourceList::is_empty")]
    pub hard: ResourceList,
    /// The usage of each resource.
    #[serde(default, skip_serializing_if = "ResourceList::is_empty")]
    pub used: ResourceList,
}

impl FederatedResourceQuotaSpec {
    /// Returns the limits that the quota assigns to a cluster, or `None` if the cluster gets no ResourceQuota. The first
    /// assignment of a cluster counts.
    pub fn assigned_to(&self, cluster: &str) -> Option<&ResourceList> {
        let mut assignments = self.static_assignments.iter();
        let assignment = assignments.find(|assignment| assignment.cluster_name == cluster)?;
        Some(&assignment.hard)
    }
}
