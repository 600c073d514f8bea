//! The configurations of Karmada's webhook for a control plane with kube-apiserver.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

/// The kinds with a webhook: group, version, resource and name of the webhook.
const KINDS: [(&str, &str, &str, &str); 5] = [
    (
        "policy.karmada.io",
        "v1alpha1",
        "propagationpolicies",
        "propagationpolicy",
    ),
    (
        "policy.karmada.io",
        "v1alpha1",
        "clusterpropagationpolicies",
        "clusterpropagationpolicy",
    ),
    (
        "work.karmada.io",
        "v1alpha2",
        "resourcebindings",
        "resourcebinding",
    ),
    (
        "work.karmada.io",
        "v1alpha2",
        "clusterresourcebindings",
        "clusterresourcebinding",
    ),
    ("work.karmada.io", "v1alpha1", "works", "work"),
];

/// Returns the MutatingWebhookConfiguration for a webhook on a port of the loopback address. The webhook sets the
/// permanent ids and the defaults of policies, bindings and Works.
pub fn mutating(port: u16, certificate: &str) -> Value {
    let webhooks = KINDS
        .iter()
        .map(|kind| webhook(kind, "mutate", port, certificate));
    json!({ "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
        "metadata": { "name": "karmada" }, "webhooks": webhooks.collect::<Vec<_>>() })
}

/// Returns the ValidatingWebhookConfiguration for policies.
pub fn validating(port: u16, certificate: &str) -> Value {
    let policies = KINDS
        .iter()
        .filter(|(group, ..)| *group == "policy.karmada.io");
    let webhooks = policies.map(|kind| webhook(kind, "validate", port, certificate));
    json!({ "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": { "name": "karmada" }, "webhooks": webhooks.collect::<Vec<_>>() })
}

fn webhook(
    (group, version, plural, kind): &(&str, &str, &str, &str),
    action: &str,
    port: u16,
    certificate: &str,
) -> Value {
    // The webhook sets the id of a binding only when the binding is created.
    let operations = if kind.ends_with("binding") {
        json!(["CREATE"])
    } else {
        json!(["CREATE", "UPDATE"])
    };
    json!({ "name": format!("{kind}.karmada.io"), "sideEffects": "None",
        "admissionReviewVersions": ["v1"], "timeoutSeconds": 10,
        "rules": [{ "operations": operations, "apiGroups": [group], "apiVersions": [version],
            "resources": [plural], "scope": "*" }],
        "clientConfig": { "caBundle": STANDARD.encode(certificate),
            "url": format!("https://127.0.0.1:{port}/{action}-{kind}") } })
}
