//! Every namespace has a ConfigMap with the certificate of the authority, which clients within a cluster mount.

use std::sync::Arc;

use serde_json::json;

use super::ensure;
use super::queue::Work;
use crate::shared::Shared;
use crate::store::Key;

/// The name of the ConfigMap.
pub(super) const ROOT_CA: &str = "kube-root-ca.crt";
const DESCRIPTION: &str = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal \
    endpoints such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across \
    distributions of Kubernetes clusters.";

/// Creates the ConfigMap, or restores its data, unless the namespace is missing or going away.
pub(super) async fn publish(shared: &Arc<Shared>, namespace: &str) {
    let wanted = shared
        .store
        .get("namespaces", &Key::new("", namespace))
        .is_some_and(|n| !n.deleting);
    if !wanted {
        return;
    }
    let data = json!({"ca.crt": shared.authenticator.authority()});
    let new = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": ROOT_CA, "annotations": {"kubernetes.io/description": DESCRIPTION}},
        "data": data,
    });
    let key = Key::new(namespace, ROOT_CA);
    let done = ensure(shared, "configmaps", &key, new, |map| {
        map["data"] = data.clone();
    });
    if let Err(error) = done.await {
        shared.failed(Work::RootCa(namespace.into()));
        tracing::debug!(namespace, %error, "the certificate of the authority was not published");
    }
}
