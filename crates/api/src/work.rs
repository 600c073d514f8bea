//! Work: what is to be in one member cluster, and what was seen there.

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::binding::ResourceHealth;
use crate::go_zero::{self, is_go_zero};
use crate::root_kind::root_kind;

root_kind! {
    /// Resources for the member cluster in whose execution namespace the Work lies.
    Work {
        group: "work.karmada.io", version: "v1alpha1", plural: "works",
        scope: NamespaceResourceScope, spec: WorkSpec, status: WorkStatus,
    }
}

/// What is to be in the member.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkSpec {
    /// The resources.
    #[serde(default)]
    #[schemars(extend("x-no-default" = true))]
    pub workload: WorkloadTemplate,
    /// Stops dispatching to the member; its status is still collected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspend_dispatching: Option<bool>,
    /// Whether the resources stay in the member when the Work is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preserve_resources_on_deletion: Option<bool>,
}

/// A list of resources.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadTemplate {
    /// The resources, whole.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "any_objects")]
    pub manifests: Vec<Value>,
}

/// What was seen in the member.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkStatus {
    /// `Applied`, `Dispatching`, and others that only readers of the API know.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "go_zero::conditions"
    )]
    #[schemars(with = "Vec<Condition>")]
    pub conditions: Vec<Condition>,
    /// What the member reports of each resource.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub manifest_statuses: Vec<ManifestStatus>,
}

/// What the member reports of a resource.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManifestStatus {
    /// The resource.
    pub identifier: ResourceIdentifier,
    /// Its status there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "any_object")]
    pub status: Option<Value>,
    /// Whether it is healthy there.
    #[serde(default, skip_serializing_if = "is_go_zero")]
    pub health: Option<ResourceHealth>,
}

/// Names a resource of a Work.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceIdentifier {
    /// Its index in the manifests.
    #[schemars(schema_with = "integer")]
    pub ordinal: i64,
    /// Its group, empty for the core group.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// Its version.
    pub version: String,
    /// Its kind.
    pub kind: String,
    /// Its plural name; Karmada leaves it empty.
    pub resource: String,
    /// Its namespace, empty for cluster-scoped resources.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Its name.
    pub name: String,
}

fn integer(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({ "type": "integer" })
}

fn any_object(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true })
}

fn any_objects(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({ "type": "array", "items": {
        "type": "object", "x-kubernetes-preserve-unknown-fields": true } })
}
