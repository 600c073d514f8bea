//! Cluster: one member of the fleet, with what it offers and reports.

use std::collections::BTreeMap;

use k8s_openapi::ClusterResourceScope;
use k8s_openapi::api::core::v1::Taint;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::go_zero::{self, is_go_zero};
use crate::open_enum::open_enum;
use crate::quantity::QuantityText;
use crate::root_kind::root_kind;

root_kind! {
    /// One member of the fleet.
    Cluster {
        group: "cluster.karmada.io", version: "v1alpha1", plural: "clusters",
        scope: ClusterResourceScope, spec: ClusterSpec, status: ClusterStatus,
    }
}

/// Quantities by resource name, as written.
pub type ResourceList = BTreeMap<String, QuantityText>;

/// What is declared of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterSpec {
    /// An id that is unique in the world, collected from the member.
    #[serde(default, skip_serializing_if = "is_go_zero")]
    #[schemars(length(max = 128_000))]
    pub id: Option<String>,
    /// Who moves resources: the control plane (`Push`) or an agent in the member (`Pull`).
    pub sync_mode: SyncMode,
    /// The URL of the member's API server.
    #[serde(default, skip_serializing_if = "is_go_zero", rename = "apiEndpoint")]
    pub api_endpoint: Option<String>,
    /// The secret with the member's `token` and `caBundle`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<LocalSecretReference>,
    /// The secret with the `token` for impersonation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub impersonator_secret_ref: Option<LocalSecretReference>,
    /// Skips checking the member's certificate.
    #[serde(
        default,
        skip_serializing_if = "is_go_zero",
        rename = "insecureSkipTLSVerification"
    )]
    pub insecure_skip_tls_verification: Option<bool>,
    /// A proxy on the way to the member.
    #[serde(default, skip_serializing_if = "is_go_zero", rename = "proxyURL")]
    pub proxy_url: Option<String>,
    /// Headers for the proxy's CONNECT request.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub proxy_header: BTreeMap<String, String>,
    /// The cloud provider.
    #[serde(default, skip_serializing_if = "is_go_zero")]
    pub provider: Option<String>,
    /// The region.
    #[serde(default, skip_serializing_if = "is_go_zero")]
    pub region: Option<String>,
    /// Deprecated: see `zones`.
    #[serde(default, skip_serializing_if = "is_go_zero")]
    pub zone: Option<String>,
    /// The failure zones of the member.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub zones: Vec<String>,
    /// Repel workloads that do not tolerate them.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "go_zero::taints"
    )]
    #[schemars(with = "Vec<Taint>")]
    pub taints: Vec<Taint>,
    /// The grades in which the member's nodes are counted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resource_models: Vec<ResourceModel>,
}

open_enum! {
    /// Who moves resources to a member.
    #[derive(Default)]
    pub enum SyncMode {
        /// The control plane.
        #[default]
        Push = "Push",
        /// An agent in the member.
        Pull = "Pull",
    }
}

/// Names a secret.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LocalSecretReference {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// One grade of nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceModel {
    /// The index of the grade.
    #[schemars(schema_with = "integer")]
    pub grade: u64,
    /// The half-open range of each resource that a node of the grade has free.
    pub ranges: Vec<ResourceModelRange>,
}

/// The range `[min, max)` of a resource in a grade.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceModelRange {
    /// The resource.
    pub name: String,
    /// The least, inclusive.
    pub min: QuantityText,
    /// The most, exclusive.
    pub max: QuantityText,
}

/// What a cluster reports.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterStatus {
    /// The version of the member's API server.
    #[serde(default, skip_serializing_if = "is_go_zero")]
    pub kubernetes_version: Option<String>,
    /// The API resources that the member serves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub api_enablements: Vec<ApiEnablement>,
    /// `Ready`, `CompleteAPIEnablements` and others.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "go_zero::conditions"
    )]
    #[schemars(with = "Vec<Condition>")]
    pub conditions: Vec<Condition>,
    /// The number of nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_summary: Option<NodeSummary>,
    /// The capacity of the member, and how much of it is taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_summary: Option<ResourceSummary>,
    /// What the remedy controller asks for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remedy_actions: Vec<String>,
}

/// The resources of one group and version.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApiEnablement {
    /// For example `apps/v1`.
    pub group_version: String,
    /// The resources served.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<ApiResource>,
}

/// One API resource.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApiResource {
    /// Its plural name.
    pub name: String,
    /// Its kind.
    pub kind: String,
}

/// The number of nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeSummary {
    /// All of them.
    #[serde(default, skip_serializing_if = "is_go_zero")]
    pub total_num: Option<i32>,
    /// Those that are ready.
    #[serde(default, skip_serializing_if = "is_go_zero")]
    pub ready_num: Option<i32>,
}

/// The capacity of a member, and how much of it is taken.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceSummary {
    /// What the nodes offer.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub allocatable: ResourceList,
    /// What waiting pods ask for.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub allocating: ResourceList,
    /// What running pods ask for.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub allocated: ResourceList,
    /// The number of nodes in each grade.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allocatable_modelings: Vec<AllocatableModeling>,
}

/// The number of nodes in a grade.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AllocatableModeling {
    /// The index of the grade.
    #[schemars(schema_with = "integer")]
    pub grade: u64,
    /// The number of nodes.
    #[schemars(schema_with = "integer")]
    pub count: i64,
}

/// A Go `int` or `uint`: no format and no bounds in the schema.
fn integer(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({ "type": "integer" })
}
