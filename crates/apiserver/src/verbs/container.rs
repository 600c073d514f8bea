//! What a kubelet would answer: logs of containers, commands in them, connections to them. There is none, so
//! each is refused with the reason that comes first.

use std::sync::Arc;

use crate::error::ApiError;
use crate::shared::Shared;
use crate::store::Key;

/// Whether a subresource of pods leads to a kubelet.
pub(crate) fn is_part(subresource: &str) -> bool {
    matches!(
        subresource,
        "log" | "exec" | "attach" | "portforward" | "proxy"
    )
}

/// Why it cannot be done.
pub(crate) fn refuse(shared: &Arc<Shared>, namespace: &str, name: &str) -> ApiError {
    let Some(pod) = shared.store.get("pods", &Key::new(namespace, name)) else {
        return ApiError::not_found("", "pods", name);
    };
    let pod = pod.value();
    match pod["spec"]["nodeName"].as_str() {
        None | Some("") => {
            ApiError::bad_request(format!("pod {name} does not have a host assigned"))
        }
        Some(node) if shared.store.get("nodes", &Key::new("", node)).is_none() => {
            ApiError::not_found("", "nodes", node)
        }
        Some(node) => ApiError::bad_request(format!(
            "no containers run here: node {node} of pod {name} has no kubelet"
        )),
    }
}
