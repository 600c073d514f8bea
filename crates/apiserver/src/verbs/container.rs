//! What a kubelet would answer: logs of containers, commands in them, connections to them. There is none, so
//! each is refused with the reason that comes first.

use super::Call;
use crate::error::ApiError;
use crate::store::Key;

/// Whether a subresource of pods leads to a kubelet.
pub(crate) fn is_part(subresource: &str) -> bool {
    matches!(
        subresource,
        "log" | "exec" | "attach" | "portforward" | "proxy"
    )
}

/// Why it cannot be done.
pub(crate) fn refuse(call: &Call) -> ApiError {
    let pod = match call.find() {
        Ok(pod) => pod.value(),
        Err(error) => return error,
    };
    let name = call.key().name;
    match pod["spec"]["nodeName"].as_str() {
        None | Some("") => {
            ApiError::bad_request(format!("pod {name} does not have a host assigned"))
        }
        Some(node)
            if call
                .shared
                .store
                .get("nodes", &Key::new("", node))
                .is_none() =>
        {
            ApiError::not_found("", "nodes", node)
        }
        Some(node) => ApiError::bad_request(format!(
            "no containers run here: node {node} of pod {name} has no kubelet"
        )),
    }
}
