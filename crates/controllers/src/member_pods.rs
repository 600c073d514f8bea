//! The pods of a workload in a member.
//!
//! This module must not know why its callers look at the pods, or when they look again.

use berth_apimachinery::api_error::api_error_message;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::Client;
use kube::api::{Api, ListParams};
use kube::core::Selector;
use serde_json::Value;

/// An error that prevents a list of pods.
#[derive(Debug, thiserror::Error)]
pub enum MemberPodsError {
    /// The workload does not select its pods, or with an invalid selector.
    #[error("the selector of the workload cannot be read")]
    Selector,
    /// A request to the member failed.
    #[error("the request to the member failed: {}", api_error_message(.0))]
    Request(#[from] kube::Error),
}

/// The number of pods in a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodLimit {
    /// All pods of the workload.
    All,
    /// At most this number of pods.
    AtMost(u32),
}

/// Reports whether [`pods`] can find the pods of an object: it has a pod template and a selector, such as a Deployment or a
/// Job. The selectors of other kinds, such as PersistentVolumeClaims, select no pods.
pub fn has_pods(object: &Value) -> bool {
    object
        .pointer("/spec/template/spec")
        .is_some_and(Value::is_object)
        && selector(object).is_ok()
}

/// Lists the pods of a workload in a member. `object` is the workload as the member stores it, because the selectors of Jobs
/// are set there.
///
/// # Errors
/// When the workload has no valid selector, or the member refuses the request.
pub async fn pods(
    member: &Client,
    object: &Value,
    limit: PodLimit,
) -> Result<Vec<Pod>, MemberPodsError> {
    let selector = selector(object)?;
    let namespace = object.pointer("/metadata/namespace");
    let namespace = namespace.and_then(Value::as_str).unwrap_or_default();
    let api: Api<Pod> = Api::namespaced(member.clone(), namespace);
    let mut parameters = ListParams::default().labels_from(&selector);
    if let PodLimit::AtMost(limit) = limit {
        parameters = parameters.limit(limit);
    }
    Ok(api.list(&parameters).await?.items)
}

/// Returns the selector of a workload. An empty selector would select the pods of all workloads.
fn selector(object: &Value) -> Result<Selector, MemberPodsError> {
    let selector = object.pointer("/spec/selector").cloned();
    let selector: Option<LabelSelector> =
        selector.and_then(|selector| serde_json::from_value(selector).ok());
    selector
        .and_then(|selector| Selector::try_from(selector).ok())
        .filter(|selector| !selector.selects_all())
        .ok_or(MemberPodsError::Selector)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_workloads_with_a_selector_have_pods() {
        let template = json!({ "spec": { "containers": [] } });
        let labels = json!({ "matchLabels": { "app": "a" } });
        for (about, spec, expected) in [
            (
                "a workload",
                json!({ "template": template, "selector": labels }),
                true,
            ),
            ("a claim", json!({ "selector": labels }), false),
            (
                "a selector of all pods",
                json!({ "template": template, "selector": {} }),
                false,
            ),
            ("no selector", json!({ "template": template }), false),
            (
                "a Service",
                json!({ "selector": { "app": "a" }, "ports": [] }),
                false,
            ),
            (
                "an invalid selector",
                json!({ "template": template, "selector": { "matchExpressions": [
                    { "key": "app", "operator": "Like", "values": ["a"] }] } }),
                false,
            ),
        ] {
            assert_eq!(has_pods(&json!({ "spec": spec })), expected, "{about}");
        }
    }
}
