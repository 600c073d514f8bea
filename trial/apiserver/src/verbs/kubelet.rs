//! Refusal of the pod subresources that a kubelet would serve, because the nodes have no kubelets: logs, exec, attach,
//! port forwarding and proxying.

use super::{Call, text};
use crate::error::ApiError;
use crate::store::Key;
use crate::table_names;

/// Reports whether a kubelet serves this subresource of pods.
pub(crate) fn serves(subresource: &str) -> bool {
    matches!(
        subresource,
        "log" | "exec" | "attach" | "portforward" | "proxy"
    )
}

/// Returns the error for a request to a kubelet.
pub(crate) fn refuse(call: &Call) -> ApiError {
    let pod = match call.find() {
        Ok(pod) => pod,
        Err(error) => return error,
    };
    let (name, pod) = (&pod.key.name, pod.value());
    let node = text(&pod, &["spec", "nodeName"]);
    let nodes = &call.shared.store;
    if node.is_empty() {
        ApiError::bad_request(format!("pod {name} does not have a host assigned"))
    } else if nodes.get(table_names::NODES, &Key::new("", node)).is_none() {
        ApiError::not_found("", "nodes", node)
    } else {
        ApiError::bad_request(format!(
            "no containers run here: node {node} of pod {name} has no kubelet"
        ))
    }
}
