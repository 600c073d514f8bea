//! The evidence in one member: the object of the workload, the problem of its pods, and the newest warnings about them.

use std::time::Duration;

use berth_api::Cluster;
use berth_apimachinery::api_error::{api_error_message, has_code};
use berth_controllers::member_client::{self, proxied};
use berth_controllers::resource_type::ResourceType;
use berth_diagnosis::{MemberEvidence, Seen, object_problem, pod_problem};
use k8s_openapi::api::core::v1::{Event, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::Client;
use kube::api::{Api, ListParams};
use kube::core::Selector;
use serde::Deserialize as _;
use serde_json::Value;

/// The time limit of the requests to a member.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum number of pods that are read.
const PODS: u32 = 200;
/// Maximum number of warnings.
const WARNINGS: usize = 3;

/// Reads the evidence about a workload in a member. The reason why something cannot be read is part of the evidence.
pub(super) async fn evidence(
    control_plane: &Client,
    cluster: &Cluster,
    resource: &ResourceType,
    namespace: &str,
    name: &str,
) -> Seen<MemberEvidence> {
    let read = async {
        let member = connect(control_plane, cluster).await?;
        read(member, resource, namespace, name).await
    };
    match tokio::time::timeout(TIMEOUT, read).await {
        Ok(Ok(evidence)) => Seen::Found(evidence),
        Ok(Err(error)) if has_code(&error, 404) => Seen::Absent,
        Ok(Err(error)) => Seen::Hidden(api_error_message(&error)),
        Err(_) => Seen::Hidden(format!("no answer in {} s", TIMEOUT.as_secs())),
    }
}

/// Finds a way to a member: through the cluster proxy, with the rights of the user, or else with the credentials that the
/// control plane has for the member.
///
/// # Errors
/// Returns the refusal of the proxy, which tells a user more than a Secret that may not be read.
async fn connect(control_plane: &Client, cluster: &Cluster) -> Result<Client, kube::Error> {
    let name = cluster.metadata.name.as_deref().unwrap_or_default();
    let proxied = proxied::client(control_plane, name);
    let Err(refusal) = proxied.apiserver_version().await else {
        return Ok(proxied);
    };
    let direct = member_client::connect(control_plane, cluster).await;
    direct.map_err(|_| refusal)
}

async fn read(
    member: Client,
    resource: &ResourceType,
    namespace: &str,
    name: &str,
) -> Result<MemberEvidence, kube::Error> {
    let object = resource.api(member.clone(), namespace).get(name).await?;
    let object = object.data;
    let pods: Vec<Pod> = match selector(&object) {
        Some(selector) if !namespace.is_empty() => {
            let api: Api<Pod> = Api::namespaced(member.clone(), namespace);
            let parameters = ListParams::default().labels_from(&selector).limit(PODS);
            api.list(&parameters).await?.items
        }
        _ => Vec::new(),
    };
    // Events help, but a user who may not read them still gets the rest.
    let events = if namespace.is_empty() {
        Vec::new()
    } else {
        let api: Api<Event> = Api::namespaced(member, namespace);
        let parameters = ListParams::default().fields("type=Warning").limit(500);
        let listed = api.list(&parameters).await;
        listed.map(|listed| listed.items).unwrap_or_default()
    };
    Ok(MemberEvidence {
        problem: pod_problem(&pods).or_else(|| object_problem(&object)),
        warnings: warnings(events, name),
    })
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
