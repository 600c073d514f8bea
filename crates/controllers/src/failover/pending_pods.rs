//! The pods of a workload in a member that no node can run.

use berth_api::Cluster;
use berth_api::binding::ObjectReference;
use berth_apimachinery::api_error::api_error_message;
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject};
use serde_json::json;

use crate::member_client::{self, MemberClientError};
use crate::member_pods::{MemberPodsError, PodLimit, pods};

/// An error that prevents the count.
#[derive(Debug, thiserror::Error)]
pub(super) enum PendingPodsError {
    /// There is no client for the member.
    #[error(transparent)]
    Client(#[from] MemberClientError),
    /// The workload cannot be read in the member.
    #[error("the request to the member failed: {}", api_error_message(.0))]
    Workload(#[from] kube::Error),
    /// The pods cannot be listed.
    #[error(transparent)]
    Pods(#[from] MemberPodsError),
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
    let kind = match resource.kind.as_str() {
        "Deployment" => ApiResource::erase::<Deployment>(&()),
        "StatefulSet" => ApiResource::erase::<StatefulSet>(&()),
        _ => return Ok(0),
    };
    let member = member_client::connect(control_plane, cluster).await?;
    let namespace = resource.namespace.as_deref().unwrap_or_default();
    let api: Api<DynamicObject> = Api::namespaced_with(member.clone(), namespace, &kind);
    let workload = json!(api.get(&resource.name).await?);
    let listed = pods(&member, &workload, PodLimit::All).await?;
    let count = listed.iter().filter(|pod| is_unschedulable(pod)).count();
    Ok(i64::try_from(count).unwrap_or(i64::MAX))
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
}
