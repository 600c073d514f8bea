//! The evidence in one member: the object of the workload, the problem of its pods, and the newest warnings about them.

use berth_api::Cluster;
use berth_diagnosis::{MemberEvidence, Seen, object_problem, pod_problem};
use k8s_openapi::List;
use k8s_openapi::api::core::v1::{Event, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::Client;
use kube::api::ListParams;
use kube::core::{ApiResource, Selector};
use serde::Deserialize as _;
use serde_json::Value;

use crate::member_reader::{MemberReadError, MemberReader};

/// Maximum number of pods that are read.
const PODS: u32 = 200;
/// Maximum number of warnings.
const WARNINGS: usize = 3;

/// Reads the evidence about a workload in a member. The reason why something cannot be read is part of the evidence.
pub(super) async fn evidence(
    client: &Client,
    cluster: &Cluster,
    api: &ApiResource,
    namespace: &str,
    name: &str,
) -> Seen<MemberEvidence> {
    match read(client, cluster, api, namespace, name).await {
        Ok(evidence) => Seen::Found(evidence),
        Err(error) if error.is_not_found() => Seen::Absent,
        Err(error) => Seen::Hidden(error.to_string()),
    }
}

async fn read(
    client: &Client,
    cluster: &Cluster,
    api: &ApiResource,
    namespace: &str,
    name: &str,
) -> Result<MemberEvidence, MemberReadError> {
    let reader = MemberReader::connect(client, cluster).await?;
    let scope = match namespace {
        "" => None,
        namespace => Some(namespace),
    };
    let path = resource_path(api, scope);
    let object: Value = reader.get(&path, name).await?;
    let core = |plural: &str| format!("/api/v1/namespaces/{namespace}/{plural}");
    let pods: Vec<Pod> = match selector(&object) {
        Some(selector) => {
            let parameters = ListParams::default().labels_from(&selector).limit(PODS);
            let listed: List<Pod> = reader.list(&core("pods"), &parameters).await?;
            listed.items
        }
        None => Vec::new(),
    };
    // Events help, but a user who may not read them still gets the rest.
    let parameters = ListParams::default().fields("type=Warning").limit(500);
    let events = reader
        .list::<List<Event>>(&core("events"), &parameters)
        .await;
    let events = events.map(|listed| listed.items).unwrap_or_default();
    Ok(MemberEvidence {
        problem: pod_problem(&pods).or_else(|| object_problem(&object)),
        warnings: warnings(events, name),
    })
}

/// Returns the path of a resource.
fn resource_path(api: &ApiResource, namespace: Option<&str>) -> String {
    let group = match &*api.group {
        "" => format!("/api/{}", api.version),
        group => format!("/apis/{group}/{}", api.version),
    };
    match namespace {
        Some(namespace) => format!("{group}/namespaces/{namespace}/{}", api.plural),
        None => format!("{group}/{}", api.plural),
    }
}

/// Returns the selector with which a workload selects its pods, if it selects any. An empty selector would select the pods
/// of all workloads.
fn selector(object: &Value) -> Option<Selector> {
    let selector = object.pointer("/spec/selector")?;
    let selector = LabelSelector::deserialize(selector).ok()?;
    let selector = Selector::try_from(selector).ok()?;
    (!selector.selects_all()).then_some(selector)
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

    #[test]
    fn an_empty_selector_selects_no_pods() {
        assert!(selector(&json!({ "spec": { "selector": {} } })).is_none());
        assert!(selector(&json!({ "spec": {} })).is_none());
        let labels = json!({ "spec": { "selector": { "matchLabels": { "app": "web" } } } });
        assert!(selector(&labels).is_some());
    }
}
