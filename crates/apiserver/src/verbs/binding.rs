//! `pods/NAME/binding`, by which a scheduler assigns a pod to a node.

use bytes::Bytes;
use serde_json::{Value, json};

use super::pipeline::{self, WriteKind};
use super::{Call, Outcome, created_status, text};
use crate::error::{ApiError, Cause};
use crate::{clock, codec};

/// Binds a pod to a node.
pub(crate) async fn create(
    call: &Call,
    content_type: &str,
    bytes: &Bytes,
) -> Result<Outcome, ApiError> {
    let mut binding = codec::object(content_type, bytes)?.value;
    let key = call.key();
    let name = &*key.name;
    check(&binding, &key.namespace, name)?;
    let subresource = pipeline::VirtualSubresource::new("pods", "binding", ("", "v1", "Binding"));
    if pipeline::review_virtual(call, &subresource, &mut binding).await? {
        check(&binding, &key.namespace, name)?;
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

/// Checks that the binding belongs to the pod and names a node.
fn check(binding: &Value, namespace: &str, name: &str) -> Result<(), ApiError> {
    if text(binding, &["metadata", "name"]) != name {
        let detail = "name in URL does not match name in Binding object";
        return Err(ApiError::bad_request(detail));
    }
    if !["", namespace].contains(&text(binding, &["metadata", "namespace"])) {
        let detail =
            "the namespace of the provided object does not match the namespace sent on the request";
        return Err(ApiError::bad_request(detail));
    }
    let kind = text(binding, &["target", "kind"]);
    let mut causes = Vec::new();
    if !matches!(kind, "" | "Node") {
        let known = ["Node", "<empty>"].map(str::to_owned);
        causes.push(Cause::not_supported("target.kind", &json!(kind), &known));
    }
    if text(binding, &["target", "name"]).is_empty() {
        causes.push(Cause::required("target.name", ""));
    }
    let Some(cause) = causes.first() else {
        return Ok(());
    };
    let (field, message) = (&cause.field, &cause.message);
    let mut error = ApiError::internal(String::new());
    error.message = format!("{field}: {message}");
    Err(error)
}

/// Sets the node and the `PodScheduled` condition, and copies the labels and annotations of the binding.
fn bind(pod: &mut Value, binding: &Value) {
    pod["spec"]["nodeName"] = binding["target"]["name"].clone();
    pod["metadata"]["uid"] = match &binding["metadata"]["uid"] {
        Value::Null => pod["metadata"]["uid"].clone(),
        uid => uid.clone(),
    };
    for map in ["labels", "annotations"] {
        for (name, value) in binding["metadata"][map].as_object().into_iter().flatten() {
            pod["metadata"][map][name.as_str()] = value.clone();
        }
    }
    let scheduled =
        json!({"type": "PodScheduled", "status": "True", "lastTransitionTime": clock::now()});
    let mut conditions = pod["status"]["conditions"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    conditions.retain(|condition| condition["type"] != "PodScheduled");
    conditions.push(scheduled);
    pod["status"]["conditions"] = json!(conditions);
}
