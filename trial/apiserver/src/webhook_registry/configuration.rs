//! The webhooks of a stored webhook configuration. The server parses each version of the configuration once.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use berth_apimachinery::label_selector::CompiledSelector;
use berth_https_client::{Target, WebhookClient, WebhookClientError};
use serde_json::Value;

use super::rule::Rule;
use crate::cel::Condition;
use crate::selector::compiled;

/// The effect of a failed webhook call on the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FailurePolicy {
    Fail,
    Ignore,
}

/// A parsed webhook of a stored configuration.
#[derive(Debug)]
pub(crate) struct Webhook {
    pub(crate) name: String,
    pub(super) rules: Vec<Rule>,
    /// True if the match policy is `Equivalent`. A rule then also matches a request if the rule names the requested
    /// resource in another version or group.
    pub(super) equivalent: bool,
    /// The selector of namespaces, or `None` for an invalid selector.
    pub(super) namespaces: Option<CompiledSelector>,
    /// The selector of objects, or `None` for an invalid selector.
    pub(super) objects: Option<CompiledSelector>,
    /// The match conditions. An error message replaces each invalid condition.
    pub(super) conditions: Vec<Result<Condition, String>>,
    pub(crate) failure_policy: FailurePolicy,
    pub(crate) timeout: Duration,
    /// True if the server calls the webhook again after a later webhook changes the object.
    pub(crate) reinvoke: bool,
    /// True if a call in a dry run has no side effects.
    pub(crate) supports_dry_run: bool,
    target: Target,
    client: OnceLock<Result<WebhookClient, WebhookClientError>>,
}

impl Webhook {
    /// Parses the webhooks of a stored configuration.
    pub(super) fn all(configuration: &Value) -> Vec<Arc<Self>> {
        let webhooks = configuration["webhooks"].as_array().into_iter().flatten();
        webhooks
            .map(|webhook| Arc::new(Self::parse(webhook)))
            .collect()
    }

    fn parse(webhook: &Value) -> Self {
        let text = |field: &str| webhook[field].as_str().unwrap_or_default();
        let list = |field: &str| webhook[field].as_array().into_iter().flatten();
        let seconds = webhook["timeoutSeconds"].as_u64().unwrap_or(10);
        Self {
            name: text("name").to_owned(),
            rules: list("rules").map(Rule::of).collect(),
            equivalent: text("matchPolicy") != "Exact",
            namespaces: compiled(&webhook["namespaceSelector"]),
            objects: compiled(&webhook["objectSelector"]),
            conditions: list("matchConditions")
                .map(|condition| {
                    Condition::parse(condition["expression"].as_str().unwrap_or_default())
                })
                .collect(),
            failure_policy: if text("failurePolicy") == "Ignore" {
                FailurePolicy::Ignore
            } else {
                FailurePolicy::Fail
            },
            timeout: Duration::from_secs(seconds),
            reinvoke: text("reinvocationPolicy") == "IfNeeded",
            supports_dry_run: matches!(text("sideEffects"), "None" | "NoneOnDryRun"),
            target: target(&webhook["clientConfig"]),
            client: OnceLock::new(),
        }
    }

    /// Returns the HTTP client of the webhook. The first call creates the client.
    pub(crate) fn client(
        &self,
        create: impl FnOnce(&Target) -> Result<WebhookClient, WebhookClientError>,
    ) -> Result<&WebhookClient, WebhookClientError> {
        let client = self.client.get_or_init(|| create(&self.target));
        client.as_ref().map_err(Clone::clone)
    }
}

/// Returns the address and the certificate authorities in a `clientConfig`.
fn target(config: &Value) -> Target {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let service = &config["service"];
    let target = if service.is_object() {
        let port = service["port"].as_u64().unwrap_or(443);
        Target::service(
            &text(&service["namespace"]),
            &text(&service["name"]),
            u16::try_from(port).unwrap_or(443),
            &text(&service["path"]),
        )
    } else {
        Target::url(&text(&config["url"]))
    };
    target.with_authorities(config["caBundle"].as_str())
}
