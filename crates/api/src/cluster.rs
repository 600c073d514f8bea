//! The kind Cluster, which describes a member cluster: the connection, the capacity and the health.

mod resource_usage;

use std::collections::BTreeMap;

pub use self::resource_usage::ResourceUsage;

use k8s_openapi::api::core::v1::Taint;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::go_zero::{self, is_go_zero};
use crate::open_enum::open_enum;
use crate::quantity::QuantityText;
use crate::{condition, field_schema};

/// Unparsed quantities by resource name.
pub type ResourceList = BTreeMap<String, QuantityText>;

/// The declared properties of a member cluster.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "cluster.karmada.io",
    version = "v1alpha1",
    kind = "Cluster",
    doc = "A member cluster of the control plane.",
    status = "ClusterStatus",
    derive = "Default",
    derive = "PartialEq",
    printcolumn(
        name = "Version",
        type_ = "string",
        json_path = ".status.kubernetesVersion",
        description = "The version of the member's API server."
    ),
    printcolumn(
        name = "Mode",
        type_ = "string",
        json_path = ".spec.syncMode",
        description = "The component that applies resources to the cluster."
    ),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].status"#,
        description = "The API server of the cluster responds."
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    ),
    printcolumn(
        name = "Zones",
        type_ = "string",
        json_path = ".spec.zones",
        priority = 1
    ),
    printcolumn(
        name = "Region",
        type_ = "string",
        json_path = ".spec.region",
        priority = 1
    ),
    printcolumn(
        name = "Provider",
        type_ = "string",
        json_path = ".spec.provider",
        priority = 1
    ),
    printcolumn(
        name = "API-Endpoint",
        type_ = "string",
        json_path = ".spec.apiEndpoint",
        priority = 1
    ),
    printcolumn(
        name = "Proxy-URL",
        type_ = "string",
        json_path = ".spec.proxyURL",
        priority = 1
    )
)]
#[serde(rename_all = "camelCase")]
pub struct ClusterSpec {
    /// A globally unique id, collected from the member cluster.
    #[serde(default, skip_serializing_if = "is_go_zero")]
    #[schemars(length(max = 128_000))]
    pub id: Option<String>,
    /// The component that applies resources: the control plane (`Push`) or an agent in the member cluster
    /// (`Pull`).
    pub sync_mode: SyncMode,
    /// The URL of the cluster's API server.
    #[serde(default, skip_serializing_if = "is_go_zero", rename = "apiEndpoint")]
    pub api_endpoint: Option<String>,
    /// The Secret with the `token` and `caBundle` for the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<LocalSecretReference>,
    /// The Secret with the `token` for impersonation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub impersonator_secret_ref: Option<LocalSecretReference>,
    /// Skips the verification of the API server's certificate.
    #[serde(
        default,
        skip_serializing_if = "is_go_zero",
        rename = "insecureSkipTLSVerification"
    )]
    pub insecure_skip_tls_verification: Option<bool>,
    /// The URL of a proxy for connections to the cluster.
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
    /// Deprecated: use `zones`.
    #[serde(default, skip_serializing_if = "is_go_zero")]
    pub zone: Option<String>,
    /// The failure zones of the cluster.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub zones: Vec<String>,
    /// Taints repel workloads that do not tolerate them.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "go_zero::taints"
    )]
    #[schemars(with = "Vec<Taint>")]
    pub taints: Vec<Taint>,
    /// The model grades into which the cluster's nodes are sorted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resource_models: Vec<ResourceModel>,
}

open_enum! {
    /// The component that applies resources to a member cluster.
    #[derive(Default)]
    pub enum SyncMode {
        /// The control plane.
        #[default]
        Push = "Push",
        /// An agent in the member cluster.
        Pull = "Pull",
    }
}

/// A reference to a Secret.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LocalSecretReference {
    /// The namespace of the Secret.
    pub namespace: String,
    /// The name of the Secret.
    pub name: String,
}

/// One grade of the resource model.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceModel {
    /// The number of the grade.
    #[schemars(schema_with = "field_schema::integer")]
    pub grade: u64,
    /// The half-open ranges of free resources that nodes of the grade have.
    pub ranges: Vec<ResourceModelRange>,
}

/// The half-open range `[min, max)` of a resource.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceModelRange {
    /// The resource name.
    pub name: String,
    /// The inclusive lower bound.
    pub min: QuantityText,
    /// The exclusive upper bound.
    pub max: QuantityText,
}

/// The observed state of a member cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterStatus {
    /// The Kubernetes version of the cluster's API server.
    #[serde(default, skip_serializing_if = "is_go_zero")]
    pub kubernetes_version: Option<String>,
    /// The API resources that the cluster serves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub api_enablements: Vec<ApiEnablement>,
    /// The conditions `Ready`, `CompleteAPIEnablements` and others.
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
    /// The total and requested resources of the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_summary: Option<ResourceSummary>,
    /// The actions that the remedy controller requests.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remedy_actions: Vec<String>,
}

impl ClusterStatus {
    /// Reports whether `api_enablements` are complete: the cluster is ready, and all of its API groups were discovered.
    pub fn has_complete_apis(&self) -> bool {
        ["Ready", "CompleteAPIEnablements"]
            .iter()
            .all(|kind| condition::is_true(&self.conditions, kind))
    }
}

/// The resources of one API group and version.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApiEnablement {
    /// The group and version, for example `apps/v1`.
    pub group_version: String,
    /// The resources that the group and version serves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<ApiResource>,
}

/// One API resource.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApiResource {
    /// The plural name.
    pub name: String,
    /// The kind.
    pub kind: String,
}

/// The number of nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeSummary {
    /// The number of all nodes.
    #[serde(default, skip_serializing_if = "is_go_zero")]
    pub total_num: Option<i32>,
    /// The number of ready nodes.
    #[serde(default, skip_serializing_if = "is_go_zero")]
    pub ready_num: Option<i32>,
}

/// The total and requested resources of a member cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceSummary {
    /// The allocatable resources of all nodes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub allocatable: ResourceList,
    /// The requests of pods that are not yet scheduled to a node.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub allocating: ResourceList,
    /// The requests of scheduled pods.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub allocated: ResourceList,
    /// The number of nodes of each model grade.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allocatable_modelings: Vec<AllocatableModeling>,
}

/// The number of nodes of a model grade.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AllocatableModeling {
    /// The number of the grade.
    #[schemars(schema_with = "field_schema::integer")]
    pub grade: u64,
    /// The number of nodes.
    #[schemars(schema_with = "field_schema::integer")]
    pub count: i64,
}
