//! The webhooks of all ResourceInterpreterWebhookConfigurations, with the operations and kinds that each webhook
//! interprets.

use std::sync::Arc;

use berth_api::ResourceInterpreterWebhookConfiguration;
use berth_api::interpreter_webhook::{InterpreterWebhook, RuleWithOperations, WebhookClientConfig};

use crate::operation::Operation;

/// The time limit of a call in seconds if `timeoutSeconds` is unset.
const DEFAULT_TIMEOUT: i32 = 10;

/// A webhook of a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Webhook {
    /// The name in the form `CONFIGURATION/WEBHOOK`.
    name: String,
    spec: InterpreterWebhook,
}

impl Webhook {
    /// Returns the name in the form `CONFIGURATION/WEBHOOK`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the address of the webhook and the certificate authorities.
    pub fn client_config(&self) -> &WebhookClientConfig {
        &self.spec.client_config
    }

    /// Returns the time limit of a call.
    pub fn timeout(&self) -> std::time::Duration {
        let seconds = self.spec.timeout_seconds.unwrap_or(DEFAULT_TIMEOUT);
        std::time::Duration::from_secs(seconds.clamp(1, 30).unsigned_abs().into())
    }

    pub(super) fn versions(&self) -> &[String] {
        &self.spec.interpreter_context_versions
    }

    fn interprets(&self, api_version: &str, kind: &str, operation: Operation) -> bool {
        let mut rules = self.spec.rules.iter();
        rules.any(|rule| {
            matches(&rule.operations, operation.name()) && rule_names_kind(rule, api_version, kind)
        })
    }
}

/// Reports whether a rule of a webhook matches a kind, for any operation.
pub fn names_kind(webhook: &InterpreterWebhook, api_version: &str, kind: &str) -> bool {
    let mut rules = webhook.rules.iter();
    rules.any(|rule| rule_names_kind(rule, api_version, kind))
}

fn rule_names_kind(rule: &RuleWithOperations, api_version: &str, kind: &str) -> bool {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    matches(&rule.api_groups, group)
        && matches(&rule.api_versions, version)
        && matches(&rule.kinds, kind)
}

fn matches(items: &[String], value: &str) -> bool {
    items.iter().any(|item| item == "*" || item == value)
}

/// The webhooks of all configurations, in the order of their names.
#[derive(Debug, Default)]
pub(crate) struct Configurations {
    webhooks: Vec<Arc<Webhook>>,
}

impl Configurations {
    pub(crate) fn new(list: Vec<ResourceInterpreterWebhookConfiguration>) -> Self {
        let webhooks = list.into_iter().flat_map(|configuration| {
            let name = configuration.metadata.name.unwrap_or_default();
            let webhooks = configuration.spec.webhooks.into_iter();
            webhooks.map(move |spec| {
                Arc::new(Webhook {
                    name: format!("{name}/{}", spec.name),
                    spec,
                })
            })
        });
        let mut webhooks: Vec<_> = webhooks.collect();
        webhooks.sort_by(|a, b| a.name.cmp(&b.name));
        Self { webhooks }
    }

    /// Returns the webhook that performs an operation for a kind: the first webhook by name that matches.
    pub(crate) fn find(
        &self,
        api_version: &str,
        kind: &str,
        operation: Operation,
    ) -> Option<&Arc<Webhook>> {
        let mut webhooks = self.webhooks.iter();
        webhooks.find(|webhook| webhook.interprets(api_version, kind, operation))
    }

    pub(crate) fn all(&self) -> &[Arc<Webhook>] {
        &self.webhooks
    }
}
