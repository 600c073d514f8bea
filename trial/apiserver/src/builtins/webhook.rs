//! Defaults of admission webhook configurations.

use serde_json::{Value, json};

use super::{fill, fill_at, items, set};
use crate::resource::Resource;

/// Sets the defaults of each webhook of a configuration.
pub(super) fn default(resource: &Resource, configuration: &mut Value) {
    let mutating = resource.plural == "mutatingwebhookconfigurations";
    for webhook in items(configuration, "webhooks") {
        fill(
            webhook,
            json!({
                "failurePolicy": "Fail",
                "matchPolicy": "Equivalent",
                "namespaceSelector": {},
                "objectSelector": {},
                "timeoutSeconds": 10,
            }),
        );
        if mutating {
            set(webhook, "reinvocationPolicy", json!("Never"));
        }
        for rule in items(webhook, "rules") {
            set(rule, "scope", json!("*"));
        }
        fill_at(webhook, "/clientConfig/service", json!({"port": 443}));
    }
}
