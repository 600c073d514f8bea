//! Karmada's webhook for a control plane with kube-apiserver, which has no admission rules of Karmada built in. The
//! webhook assigns the permanent ids of policies, bindings and Works. Karmada's controllers need these ids.

use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use berth_e2e::program::free_port;
use berth_e2e::{Program, eventually};
use serde_json::{Value, json};

use crate::program::Provider;

/// Starts the webhook, and returns the process and the MutatingWebhookConfiguration for it.
pub async fn start(karmada: &Path, folder: &Path, kubeconfig: &Path) -> (Program, Value) {
    let pair = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let certificate = pair.cert.pem();
    std::fs::write(folder.join("tls.crt"), &certificate).unwrap();
    std::fs::write(folder.join("tls.key"), pair.signing_key.serialize_pem()).unwrap();
    let port = free_port();
    let program = Provider::webhook(karmada, folder, kubeconfig, port);
    eventually("the webhook to listen", async || {
        TcpStream::connect((Ipv4Addr::LOCALHOST, port)).map(drop)
    })
    .await;
    (program, configuration(port, &certificate))
}

fn configuration(port: u16, certificate: &str) -> Value {
    let authority = STANDARD.encode(certificate);
    let webhooks: Vec<Value> = [
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
    ]
    .into_iter()
    .map(|(group, version, plural, kind)| {
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
            "clientConfig": { "caBundle": authority,
                "url": format!("https://127.0.0.1:{port}/mutate-{kind}") } })
    })
    .collect();
    json!({ "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
        "metadata": { "name": "karmada" }, "webhooks": webhooks })
}
