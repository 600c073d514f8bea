//! Subresources of pods that a kubelet would serve: logs, exec, attach, port forwarding and proxying. Without kubelets they
//! are refused.

use serde_json::{Value, json};

use super::{Call, pipeline};
use crate::error::ApiError;
use crate::query::Query;
use crate::store::Key;
use crate::tables;

/// Reports whether a kubelet serves this subresource of pods.
pub(crate) fn serves(subresource: &str) -> bool {
    matches!(
        subresource,
        "log" | "exec" | "attach" | "portforward" | "proxy"
    )
}

/// Returns the kind of the connection options. Logs have none.
fn options_kind(subresource: &str) -> Option<&'static str> {
    Some(match subresource {
        "exec" => "PodExecOptions",
        "attach" => "PodAttachOptions",
        "portforward" => "PodPortForwardOptions",
        "proxy" => "PodProxyOptions",
        _ => return None,
    })
}

/// Returns the connection options for webhooks.
fn options(kind: &str, query: &Query) -> Value {
    let mut options = json!({"kind": kind, "apiVersion": "v1"});
    for flag in ["stdin", "stdout", "stderr", "tty"] {
        if query.flag(flag) {
            options[flag] = json!(true);
        }
    }
    for text in ["container", "path"] {
        if let Some(value) = query.get(text) {
            options[text] = json!(value);
        }
    }
    let command: Vec<&str> = query.all("command").collect();
    if !command.is_empty() {
        options["command"] = json!(command);
    }
    let ports: Vec<i64> = query.all("ports").filter_map(|p| p.parse().ok()).collect();
    if !ports.is_empty() {
        options["ports"] = json!(ports);
    }
    options
}

/// Returns the refusal, after webhooks have reviewed the connection.
pub(crate) async fn refuse(call: &Call, subresource: &str, query: &Query) -> ApiError {
    if let Some(kind) = options_kind(subresource) {
        let connection = pipeline::VirtualSubresource::new("pods", subresource, ("", "v1", kind));
        let options = options(kind, query);
        if let Err(error) = pipeline::review_connection(call, &connection, options).await {
            return error;
        }
    }
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
                .get(tables::NODES, &Key::new("", node))
                .is_none() =>
        {
            ApiError::not_found("", "nodes", node)
        }
        Some(node) => ApiError::bad_request(format!(
            "no containers run here: node {node} of pod {name} has no kubelet"
        )),
    }
}
