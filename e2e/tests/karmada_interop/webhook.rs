//! Karmada's webhook for a control plane with kube-apiserver, which has no admission rules of Karmada built in. The
//! webhook assigns the permanent ids of policies, bindings and Works. Karmada's controllers need these ids.

use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;

use berth_e2e::program::free_port;
use berth_e2e::record::webhook;
use berth_e2e::{Program, eventually};
use serde_json::Value;

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
    (program, webhook::mutating(port, &certificate))
}
