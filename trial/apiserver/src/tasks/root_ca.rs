//! The ConfigMap with the CA certificate of the server in each namespace, which in-cluster clients mount.

use std::sync::Arc;

use serde_json::json;

use super::ensure;
use crate::shared::Shared;
use crate::shared::well_known::ROOT_CA;
use crate::shared::work_queue::Work;
use crate::store::Key;
use crate::table_names::{CONFIG_MAPS, NAMESPACES};

const DESCRIPTION: &str = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal \
    endpoints such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across \
    distributions of Kubernetes clusters.";

/// Creates the ConfigMap or restores its data, unless the namespace is missing or terminating.
pub(super) async fn publish(shared: &Arc<Shared>, namespace: &str) {
    let is_active = shared
        .store
        .get(NAMESPACES, &Key::new("", namespace))
        .is_some_and(|n| !n.deleting);
    if !is_active {
        return;
    }
    let data = json!({"ca.crt": shared.authenticator.authority()});
    let new = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": ROOT_CA, "annotations": {"kubernetes.io/description": DESCRIPTION}},
        "data": data,
    });
    let key = Key::new(namespace, ROOT_CA);
    let done = ensure(shared, CONFIG_MAPS, &key, new, |map| {
        map["data"] = data.clone();
    });
    if let Err(error) = done.await {
        shared.retry_later(Work::RootCa(namespace.into()));
        tracing::debug!(namespace, %error, "cannot publish the CA certificate");
    }
}
