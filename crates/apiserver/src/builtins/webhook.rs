//! Defaults of webhook configurations.

use serde_json::{Value, json};

use super::{items, set};
use crate::resource::Resource;

/// Sets the defaults of each webhook of a configuration.
pub(super) fn default(resource: &Resource, configuration: &mut Value) {
    let mutating = resource.plural == "mutatingwebhookconfigurations";
    for webhook in items(configuration, "webhooks") {
        set(webhook, "failurePolicy", json!("Fail"));
        set(webhook, "matchPolicy", json!("Equivalent"));
        set(webhook, "namespaceSelector", json!({}));
        set(webhook, "objectSelector", json!({}));
        set(webhook, "timeoutSeconds", json!(10));
        if mutating {
            set(webhook, "reinvocationPolicy", json!("Never"));
        }
        for rule in items(webhook, "rules") {
            set(rule, "scope", json!("*"));
        }
        if let Some(service) = webhook.pointer_mut("/clientConfig/service") {
            set(service, "port", json!(443));
        }
    }
}
