//! The evidence in one member: the object of the workload, the problem of its pods, and the newest warnings about them.

use std::time::Duration;

use berth_api::Cluster;
use berth_apimachinery::api_error::{api_error_message, has_code};
use berth_controllers::member_pods::{MemberPodsError, PodLimit, has_pods, pods};
use berth_diagnosis::{MemberEvidence, Seen, workload_problem};
use k8s_openapi::api::core::v1::Event;
use kube::Client;
use kube::api::{Api, ListParams};

use super::template::FoundTemplate;
use crate::member_access::{MemberAccess, MemberAccessError};

/// The time limit of the requests to a member.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum number of pods that are read.
const PODS: u32 = 200;
/// Maximum number of events that are read.
const EVENTS: u32 = 500;
/// Maximum number of warnings.
const WARNINGS: usize = 3;

/// The reason why the evidence cannot be read.
#[derive(Debug, thiserror::Error)]
enum EvidenceError {
    #[error(transparent)]
    Access(#[from] MemberAccessError),
    #[error("{}", api_error_message(.0))]
    Request(#[from] kube::Error),
    #[error(transparent)]
    Pods(#[from] MemberPodsError),
}

/// Reads the evidence about a workload in a member. The reason why something cannot be read is part of the evidence.
pub(super) async fn evidence(
    access: &MemberAccess,
    cluster: &Cluster,
    found: &FoundTemplate,
) -> Seen<MemberEvidence> {
    let read = async {
        let name = cluster.metadata.name.as_deref().unwrap_or_default();
        let member = access.client(name, Some(cluster)).await?;
        read(member, found).await
    };
    match tokio::time::timeout(TIMEOUT, read).await {
        Ok(Ok(evidence)) => Seen::Found(evidence),
        Ok(Err(EvidenceError::Request(error))) if has_code(&error, 404) => Seen::Absent,
        Ok(Err(error)) => Seen::Hidden(error.to_string()),
        Err(_) => Seen::Hidden(format!("no answer in {} s", TIMEOUT.as_secs())),
    }
}

async fn read(member: Client, found: &FoundTemplate) -> Result<MemberEvidence, EvidenceError> {
    let name = &found.reference.name;
    let namespace = found.reference.namespace.as_deref().unwrap_or_default();
    let object = found
        .resource
        .api(member.clone(), namespace)
        .get(name)
        .await?;
    let object = serde_json::to_value(object).unwrap_or_default();
    let pods = if has_pods(&object) {
        pods(&member, &object, PodLimit::AtMost(PODS)).await?
    } else {
        Vec::new()
    };
    // Events help, but a user who may not read them still gets the rest.
    let events = if namespace.is_empty() {
        Vec::new()
    } else {
        let api: Api<Event> = Api::namespaced(member, namespace);
        let parameters = ListParams::default().fields("type=Warning").limit(EVENTS);
        let listed = api.list(&parameters).await;
        listed.map(|listed| listed.items).unwrap_or_default()
    };
    Ok(MemberEvidence {
        problem: workload_problem(&pods, &object),
        warnings: warnings(events, name),
    })
}

/// Returns the newest warnings about an object, its pods and its replica sets, the newest first.
fn warnings(events: Vec<Event>, name: &str) -> Vec<String> {
    let is_about = |event: &Event| {
        let object = event.involved_object.name.as_deref().unwrap_or_default();
        let rest = object.strip_prefix(name);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    };
    let mut found: Vec<_> = events
        .into_iter()
        .filter(is_about)
        .map(|event| {
            let time = event.last_timestamp.map(|time| time.0);
            let time = time.or_else(|| event.event_time.map(|time| time.0));
            let reason = event.reason.unwrap_or_default();
            let message = event.message.unwrap_or_default();
            let object = event.involved_object;
            let (kind, name) = (
                object.kind.unwrap_or_default(),
                object.name.unwrap_or_default(),
            );
            (time, format!("{reason}: {kind} {name}: {message}"))
        })
        .collect();
    found.sort_by(|one, other| other.cmp(one));
    found.dedup_by(|one, other| one.1 == other.1);
    found.truncate(WARNINGS);
    found.into_iter().map(|(_, text)| text).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_warnings_about_the_workload_are_shown_and_the_newest_first() {
        let event = |name: &str, reason: &str, second: i64| -> Event {
            serde_json::from_value(json!({
                "metadata": {}, "involvedObject": { "kind": "Pod", "name": name }, "reason": reason,
                "message": "m", "lastTimestamp": format!("2026-01-01T00:00:0{second}Z"),
            }))
            .unwrap()
        };
        let events = vec![
            event("web-1", "Old", 1),
            event("web-2", "New", 3),
            event("webhook-1", "Other", 4),
            event("web", "Middle", 2),
        ];
        assert_eq!(
            warnings(events, "web"),
            [
                "New: Pod web-2: m",
                "Middle: Pod web: m",
                "Old: Pod web-1: m"
            ]
        );
    }
}
