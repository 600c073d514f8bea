//! What a kubelet would answer: logs of containers, commands in them, connections to them. There is none, so
//! each is refused with the reason that comes first.

use serde_json::{Value, json};

use super::{Call, pipeline};
use crate::error::ApiError;
use crate::http::query::Query;
use crate::store::Key;

/// Whether a subresource of pods leads to a kubelet.
pub(crate) fn is_part(subresource: &str) -> bool {
    matches!(
        subresource,
        "log" | "exec" | "attach" | "portforward" | "proxy"
    )
}

/// The kind of the options of a connection; reading logs is none.
fn connection(subresource: &str) -> Option<&'static str> {
    Some(match subresource {
        "exec" => "PodExecOptions",
        "attach" => "PodAttachOptions",
        "portforward" => "PodPortForwardOptions",
        "proxy" => "PodProxyOptions",
        _ => return None,
    })
}

/// Returns the options of a connection, as webhooks are sent them.
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

/// Returns why it cannot be done, once webhooks have had their say.
pub(crate) async fn refuse(call: &Call, subresource: &str, query: &Query) -> ApiError {
    if let Some(kind) = connection(subresource) {
        let part = pipeline::Part::new("pods", subresource, ("", "v1", kind));
        let options = options(kind, query);
        if let Err(error) = pipeline::review_connection(call, &part, options).await {
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
