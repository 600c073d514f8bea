//! Tests of admission webhooks. The server under test calls a webhook server over TLS.

mod admission_reviews;
mod calls;
mod configurations;
mod matching;
mod mutations;
mod responses;

use serde_json::{Value, json};

use crate::harness::Harness;

const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

async fn send(h: &Harness, method: &str, path: &str, body: &Value) -> (u16, Value) {
    let kind = if method == "PATCH" { MERGE } else { JSON };
    let bytes = if body.is_null() {
        Vec::new()
    } else {
        body.to_string().into_bytes()
    };
    h.raw(method, path, kind, bytes).await
}

async fn ok(h: &Harness, method: &str, path: &str, body: Value) -> Value {
    let (code, response) = send(h, method, path, &body).await;
    assert!(code < 300, "{method} {path}: {response}");
    response
}

/// Returns the `rules` of a webhook: one rule for all operations on a resource.
fn rule(group: &str, version: &str, resource: &str) -> Value {
    json!([{"operations": ["*"], "apiGroups": [group], "apiVersions": [version], "resources": [resource]}])
}

fn webhook(name: &str, client: Value, rules: Value) -> Value {
    json!({
        "name": format!("{name}.example.com"), "clientConfig": client, "rules": rules,
        "sideEffects": "None", "admissionReviewVersions": ["v1"],
    })
}

/// Returns the webhook with the values of `fields`.
fn with(mut webhook: Value, fields: &Value) -> Value {
    for (name, value) in fields.as_object().unwrap() {
        webhook[name] = value.clone();
    }
    webhook
}

/// Returns the path of the webhook configurations of a kind: `Mutating` or `Validating`.
fn plural(kind: &str) -> String {
    format!("{GROUP}/{}webhookconfigurations", kind.to_lowercase())
}

/// Creates a webhook configuration. Deletes an existing configuration of the same name first.
async fn register(h: &Harness, kind: &str, name: &str, webhooks: Value) {
    let path = plural(kind);
    send(h, "DELETE", &format!("{path}/{name}"), &Value::Null).await;
    let configuration = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": format!("{kind}WebhookConfiguration"),
        "metadata": {"name": name}, "webhooks": webhooks,
    });
    ok(h, "POST", &path, configuration).await;
}

/// Returns a ConfigMap.
fn map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"k": "v"}})
}

fn deployment(name: &str) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": {
        "replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]}}}})
}
