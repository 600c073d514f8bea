//! The subresource `pods/NAME/binding`, with which a scheduler assigns a pod to a node.

use bytes::Bytes;
use serde_json::{Value, json};

use super::pipeline::{self, WriteKind};
use super::{Call, Outcome, check_body_metadata, created_status, set_condition, text};
use crate::error::ApiError;
use crate::{clock, codec};

/// Binds a pod to a node.
pub(crate) async fn create(
    call: &Call,
    content_type: &str,
    bytes: &Bytes,
) -> Result<Outcome, ApiError> {
    let binding = codec::object(content_type, bytes)?.value;
    let key = call.key();
    let name = &*key.name;
    check_body_metadata(&binding, &key)?;
    let kind = text(&binding, &["target", "kind"]);
    if !matches!(kind, "" | "Node") || text(&binding, &["target", "name"]).is_empty() {
        return Err(ApiError::internal("target must name a node"));
    }
    pipeline::modify(call, &key, WriteKind::Unowned, |pod| {
        let bound = text(pod, &["spec", "nodeName"]);
        if !bound.is_empty() {
            let message = format!("pod {name} is already assigned to node \"{bound}\"");
            return Err(ApiError::conflict("", "pods/binding", name, &message));
        }
        let mut pod = pod.clone();
        bind(&mut pod, &binding);
        Ok(pod)
    })
    .await?;
    Ok(created_status())
}

/// Sets the node and the condition `PodScheduled` of a pod. Copies the labels and annotations of the binding to the
/// pod.
fn bind(pod: &mut Value, binding: &Value) {
    pod["spec"]["nodeName"] = binding["target"]["name"].clone();
    if let Some(uid) = binding["metadata"].get("uid") {
        pod["metadata"]["uid"] = uid.clone();
    }
    for map in ["labels", "annotations"] {
        for (name, value) in binding["metadata"][map].as_object().into_iter().flatten() {
            pod["metadata"][map][name.as_str()] = value.clone();
        }
    }
    let scheduled =
        json!({"type": "PodScheduled", "status": "True", "lastTransitionTime": clock::now()});
    set_condition(&mut pod["status"], scheduled);
}
