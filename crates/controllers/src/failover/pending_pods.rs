//! The pods of a workload in a member that no node can run.

use berth_api::Cluster;
use berth_api::binding::ObjectReference;
use berth_apimachinery::api_error::api_error_message;
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::Client;
use kube::api::{Api, ListParams};
use kube::core::Selector;

use crate::member_client::{self, MemberClientError};

/// An error that prevents the count.
#[derive(Debug, thiserror::Error)]
pub(super) enum PendingPodsError {
    /// There is no client for the member.
    #[error(transparent)]
    Client(#[from] MemberClientError),
    /// A request to the member failed.
    #[error("the request to the member failed: {}", api_error_message(.0))]
    Request(#[from] kube::Error),
    /// The workload does not select its pods, or with an invalid selector.
    #[error("the selector of the workload cannot be read")]
    Selector,
}

/// Returns the number of pods of a Deployment or StatefulSet that no node of the member can run. 0 for other kinds.
///
/// # Errors
/// When the member cannot be asked, or the selector of the workload is invalid.
pub(super) async fn count(
    control_plane: &Client,
    cluster: &Cluster,
    resource: &ObjectReference,
) -> Result<i64, PendingPodsError> {
    let member = member_client::connect(control_plane, cluster).await?;
    let namespace = resource.namespace.as_deref().unwrap_or_default();
    let name = &resource.name;
    let selector = match resource.kind.as_str() {
        "Deployment" => {
            let api: Api<Deployment> = Api::namespaced(member.clone(), namespace);
            api.get(name).await?.spec.map(|spec| spec.selector)
        }
        "StatefulSet" => {
            let api: Api<StatefulSet> = Api::namespaced(member.clone(), namespace);
            api.get(name).await?.spec.map(|spec| spec.selector)
        }
        _ => return Ok(0),
    };
    let selector = parse(selector)?;
    let pods: Api<Pod> = Api::namespaced(member, namespace);
    let listed = pods
        .list(&ListParams::default().labels_from(&selector))
        .await?;
    let count = listed
        .items
        .iter()
        .filter(|pod| is_unschedulable(pod))
        .count();
    Ok(i64::try_from(count).unwrap_or(i64::MAX))
}

/// Parses the selector of a workload. An empty selector would select the pods of all workloads.
fn parse(selector: Option<LabelSelector>) -> Result<Selector, PendingPodsError> {
    let selector = selector.and_then(|selector| Selector::try_from(selector).ok());
    selector
        .filter(|selector| !selector.selects_all())
        .ok_or(PendingPodsError::Selector)
}

/// Reports whether the scheduler of the member has found no node for a pod.
fn is_unschedulable(pod: &Pod) -> bool {
    let conditions = pod
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_ref());
    let mut conditions = conditions.into_iter().flatten();
    pod.metadata.deletion_timestamp.is_none()
        && conditions.any(|condition| {
            condition.type_ == "PodScheduled"
                && condition.status == "False"
                && condition.reason.as_deref() == Some("Unschedulable")
        })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_pods_without_a_node_count() {
        for (about, status, expected) in [
            ("no status", json!({}), false),
            (
                "no node",
                json!({ "conditions": [{ "type": "PodScheduled", "status": "False", "reason": "Unschedulable" }] }),
                true,
            ),
            (
                "gated",
                json!({ "conditions": [{ "type": "PodScheduled", "status": "False", "reason": "SchedulingGated" }] }),
                false,
            ),
            (
                "running",
                json!({ "conditions": [{ "type": "PodScheduled", "status": "True" }] }),
                false,
            ),
        ] {
            let pod: Pod = serde_json::from_value(json!({ "status": status })).unwrap();
            assert_eq!(is_unschedulable(&pod), expected, "{about}");
        }
    }

    #[test]
    fn a_selector_that_selects_all_pods_is_refused() {
        let selector = |text| serde_json::from_value::<LabelSelector>(text).unwrap();
        assert!(parse(Some(selector(json!({ "matchLabels": { "app": "a" } })))).is_ok());
        assert!(parse(Some(selector(json!({})))).is_err());
        assert!(parse(None).is_err());
    }
}
