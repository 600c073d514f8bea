//! ResourceInterpreterContext: the requests to interpreter webhooks, and the responses of these webhooks.

use serde::{Deserialize, Serialize};

use crate::binding::{AggregatedStatusItem, Component, ReplicaRequirements};
use crate::dependency::DependentObjectReference;

/// The API version of a [`ResourceInterpreterContext`].
pub const API_VERSION: &str = "config.karmada.io/v1alpha1";
/// The kind of a [`ResourceInterpreterContext`].
pub const KIND: &str = "ResourceInterpreterContext";
/// The version of [`ResourceInterpreterContext`] that webhooks have to accept.
pub const VERSION: &str = "v1alpha1";

/// A request to an interpreter webhook, or the response of the webhook.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceInterpreterContext {
    /// The version of the API.
    #[serde(default)]
    pub api_version: String,
    /// The kind of the message.
    #[serde(default)]
    pub kind: String,
    /// The request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<InterpreterRequest>,
    /// The response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response: Option<InterpreterResponse>,
}

/// The kind of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupVersionKind {
    /// The API group; empty for the core group.
    pub group: String,
    /// The API version.
    pub version: String,
    /// The kind.
    pub kind: String,
}

/// A request to interpret an object.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InterpreterRequest {
    /// The identifier of the request, which the response repeats.
    pub uid: String,
    /// The kind of the object.
    pub kind: GroupVersionKind,
    /// The name of the object.
    pub name: String,
    /// The namespace of the object.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// The operation.
    pub operation: String,
    /// The object.
    #[serde(default)]
    pub object: serde_json::Value,
    /// The object in the member cluster, for `Retain`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_object: Option<serde_json::Value>,
    /// The number of replicas to set, for `ReviseReplica`. Karmada sends zero for other operations.
    #[serde(default, rename = "replicas", skip_serializing_if = "Option::is_none")]
    pub desired_replicas: Option<i32>,
    /// The status that each member cluster reports, for `AggregateStatus`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub aggregated_status: Vec<AggregatedStatusItem>,
}

/// The result of a request.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InterpreterResponse {
    /// The identifier of the request.
    #[serde(default)]
    pub uid: String,
    /// The operation succeeded.
    #[serde(default)]
    pub successful: bool,
    /// The reason for a failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<RequestStatus>,
    /// The patch of the object as base64, for `ReviseReplica`, `Retain` and `AggregateStatus`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patch: Option<String>,
    /// The format of the patch: `JSONPatch`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patch_type: Option<String>,
    /// The requirements of each replica, for `InterpretReplica`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replica_requirements: Option<ReplicaRequirements>,
    /// The number of replicas, for `InterpretReplica`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// The components, for `InterpretComponent`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub components: Option<Vec<Component>>,
    /// The dependencies, for `InterpretDependency`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dependencies: Option<Vec<DependentObjectReference>>,
    /// The status to report to the control plane, for `InterpretStatus`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw_status: Option<serde_json::Value>,
    /// The health, for `InterpretHealth`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub healthy: Option<bool>,
}

/// The reason for a failed request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestStatus {
    /// A message for users.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The HTTP status code.
    #[serde(default)]
    pub code: i32,
}
