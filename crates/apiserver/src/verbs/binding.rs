//! `pods/NAME/binding`: a scheduler gives a pod its node.

use std::sync::Arc;

use axum::body::Body;
use bytes::Bytes;
use http::{Response, StatusCode};
use serde_json::json;

use super::pipeline::{self, Write};
use super::text;
use crate::error::ApiError;
use crate::http::{body, respond};
use crate::registry::Resource;
use crate::shared::Shared;
use crate::store::Key;
use crate::tasks;

pub(crate) fn create(
    shared: &Arc<Shared>,
    pods: &Arc<Resource>,
    namespace: &str,
    name: &str,
    content_type: &str,
    bytes: &Bytes,
) -> Result<Response<Body>, ApiError> {
    let binding = body::object(content_type, bytes)?.value;
    let node = text(&binding, &["target", "name"]).to_owned();
    let kind = text(&binding, &["target", "kind"]);
    if node.is_empty() || !matches!(kind, "" | "Node") {
        return Err(ApiError::bad_request(
            "a binding has to name a Node as its target",
        ));
    }
    let call = tasks::internal(shared, pods, namespace, name);
    pipeline::modify(&call, &Key::new(namespace, name), Write::Plain, |pod| {
        let bound = text(pod, &["spec", "nodeName"]);
        if !bound.is_empty() {
            let why = format!("pod {name} is already assigned to node \"{bound}\"");
            return Err(ApiError::conflict("", "pods/binding", name, &why));
        }
        let mut pod = pod.clone();
        pod["spec"]["nodeName"] = json!(node);
        Ok(pod)
    })?;
    let answer = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201,
    });
    Ok(respond::json_value(StatusCode::CREATED, &answer))
}
