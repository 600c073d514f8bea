//! The containers of a resource.

use serde_json::Value;

/// Returns the containers of a resource. Only kinds whose images and commands can be overridden are supported.
pub(super) fn containers_mut(resource: &mut Value) -> impl Iterator<Item = &mut Value> {
    let pointer = match resource.get("kind").and_then(Value::as_str) {
        Some("Pod") => Some("/spec/containers"),
        Some("Deployment" | "ReplicaSet" | "DaemonSet" | "StatefulSet" | "Job") => {
            Some("/spec/template/spec/containers")
        }
        _ => None,
    };
    pointer
        .and_then(|pointer| resource.pointer_mut(pointer))
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
}
