//! The namespaces and priority classes that a new server has. `authorization::bootstrap` has the roles.

use serde_json::{Value, json};

/// Returns the initial objects in the order of their creation.
pub(crate) fn objects() -> Vec<Value> {
    let mut all: Vec<Value> = ["default", "kube-system", "kube-public", "kube-node-lease"]
        .into_iter()
        .map(|name| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}))
        .collect();
    let classes = [
        (
            "system-cluster-critical",
            2_000_000_000,
            "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
        ),
        (
            "system-node-critical",
            2_000_001_000,
            "Used for system critical pods that must not be moved from their current node.",
        ),
    ];
    all.extend(classes.into_iter().map(|(name, value, description)| {
        json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name},
            "value": value, "description": description})
    }));
    all
}
