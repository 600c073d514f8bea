//! Work: the resources for one member cluster, and the status of these resources in the cluster.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::binding::ResourceHealth;
use crate::field_schema;
use crate::go_zero::{self, is_go_zero};

/// The desired state in the member cluster.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "work.karmada.io",
    version = "v1alpha1",
    kind = "Work",
    doc = "Resources for one member cluster. The namespace of the Work identifies the cluster.",
    namespaced,
    shortname = "wk",
    category = "karmada-io",
    status = "WorkStatus",
    derive = "Default",
    derive = "PartialEq",
    printcolumn(
        name = "WORKLOAD-KIND",
        type_ = "string",
        json_path = ".spec.workload.manifests[*].kind"
    ),
    printcolumn(
        name = "APPLIED",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Applied")].status"#
    ),
    printcolumn(
        name = "AGE",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct WorkSpec {
    /// The resources.
    #[serde(default)]
    #[schemars(transform = field_schema::without_default)]
    pub workload: WorkloadTemplate,
    /// Suspends dispatching to the member cluster; status is still collected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspend_dispatching: Option<bool>,
    /// Keeps the resources in the member cluster when the Work is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preserve_resources_on_deletion: Option<bool>,
}

/// A list of resources.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadTemplate {
    /// The complete manifests of the resources.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "field_schema::any_objects")]
    pub manifests: Vec<Value>,
}

/// The observed state in the member cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkStatus {
    /// The conditions `Applied`, `Dispatching` and others.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "go_zero::conditions"
    )]
    #[schemars(schema_with = "field_schema::conditions")]
    pub conditions: Vec<Condition>,
    /// The status that the member cluster reports for each resource.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub manifest_statuses: Vec<ManifestStatus>,
}

/// The status that the member cluster reports for one resource.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManifestStatus {
    /// The resource.
    pub identifier: ResourceIdentifier,
    /// The status of the resource in the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "field_schema::any_object")]
    pub status: Option<Value>,
    /// The health of the resource in the cluster.
    #[serde(default, skip_serializing_if = "is_go_zero")]
    pub health: Option<ResourceHealth>,
}

/// The identity of a resource of a Work.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceIdentifier {
    /// The index in the list of manifests.
    #[schemars(schema_with = "field_schema::integer")]
    pub ordinal: i64,
    /// The API group; empty for the core group.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// The API version.
    pub version: String,
    /// The kind.
    pub kind: String,
    /// The plural resource name; Karmada leaves it empty.
    pub resource: String,
    /// The namespace; empty for cluster-scoped resources.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// The name.
    pub name: String,
}
