//! ResourceInterpreterWebhookConfiguration: the webhooks that interpret objects, with their addresses and the kinds
//! that they interpret.
//!
//! The module [`interpreter_context`](crate::interpreter_context) contains the requests to these webhooks and their
//! responses.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The content of a configuration. The kind has no `spec`: the field is beside the metadata.
#[derive(
    CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema,
)]
#[kube(
    group = "config.karmada.io",
    version = "v1alpha1",
    kind = "ResourceInterpreterWebhookConfiguration",
    doc = "Webhooks that interpret the objects of certain kinds. They take precedence over every built-in rule.",
    no_spec,
    category = "karmada-io",
    derive = "Default",
    derive = "PartialEq"
)]
pub struct InterpreterWebhooks {
    /// The webhooks.
    #[schemars(description = "")]
    pub webhooks: Vec<InterpreterWebhook>,
}

/// A webhook, and the operations and kinds that it interprets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InterpreterWebhook {
    /// The fully qualified name of the webhook, for example `workloads.example.com`.
    pub name: String,
    /// The address of the webhook, and the authorities of its certificate.
    pub client_config: WebhookClientConfig,
    /// The operations and kinds that the webhook interprets. One rule must match.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<RuleWithOperations>,
    /// The time limit of a call, between 1 and 30 seconds. Defaults to 10 seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<i32>,
    /// Accepted versions of ResourceInterpreterContext, in order of preference.
    pub interpreter_context_versions: Vec<String>,
}

/// The address of a webhook, which is a URL or a Service. If both are set, the Service is used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WebhookClientConfig {
    /// The URL, `https://HOST[:PORT][/PATH]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The Service in front of the webhook.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<ServiceReference>,
    /// Certificate authorities, as PEM in base64. Defaults to the system's authorities.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "byte"))]
    pub ca_bundle: Option<String>,
}

/// A port and path of a Service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServiceReference {
    /// The namespace of the Service.
    pub namespace: String,
    /// The name of the Service.
    pub name: String,
    /// The path of requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The port of the Service. Defaults to 443.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<i32>,
}

/// Operations and kinds. The item `*` matches all and must be alone in its list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RuleWithOperations {
    /// The operations, for example `InterpretReplica`.
    pub operations: Vec<String>,
    /// The API groups. The core group is the empty text.
    pub api_groups: Vec<String>,
    /// The API versions, for example `v1`.
    pub api_versions: Vec<String>,
    /// The kinds.
    pub kinds: Vec<String>,
}
