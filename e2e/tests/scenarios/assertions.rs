//! Functions that wait for the results of a scenario, or read fields of these results.

use std::fmt::Debug;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use berth_api::binding::{BindingSpec, BindingStatus};
use berth_api::{Cluster, ClusterResourceBinding, ResourceBinding};
use berth_e2e::{Plane, eventually};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::Api;
use kube::api::ListParams;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::manifests::{config_map, merged, on_all_clusters, on_labelled_clusters, policy};

/// Time limit for the reaction to an event. A reaction takes less than a second on an idle machine. After a missed
/// event, it takes minutes.
pub(crate) const REACTION_LIMIT: Duration = Duration::from_secs(10);

/// A ResourceBinding or a ClusterResourceBinding.
pub(crate) trait Binding:
    kube::Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug
{
    /// Returns the desired state.
    fn spec(&self) -> &BindingSpec;
    /// Returns the observed state.
    fn status(&self) -> Option<&BindingStatus>;
}

impl Binding for ResourceBinding {
    fn spec(&self) -> &BindingSpec {
        &self.spec
    }
    fn status(&self) -> Option<&BindingStatus> {
        self.status.as_ref()
    }
}

impl Binding for ClusterResourceBinding {
    fn spec(&self) -> &BindingSpec {
        &self.spec
    }
    fn status(&self) -> Option<&BindingStatus> {
        self.status.as_ref()
    }
}

/// Returns the names and replicas of the clusters in a binding, sorted by name.
pub(crate) fn targets(binding: &impl Binding) -> Vec<(&str, i32)> {
    let mut targets: Vec<(&str, i32)> = binding
        .spec()
        .clusters
        .iter()
        .map(|target| (target.name.as_str(), target.replicas))
        .collect();
    targets.sort_unstable();
    targets
}

/// Returns the condition `Scheduled`.
pub(crate) fn scheduled(binding: &impl Binding) -> Option<&Condition> {
    binding
        .status()?
        .conditions
        .iter()
        .find(|condition| condition.type_ == "Scheduled")
}

/// Reports whether the scheduler has placed the current generation of a binding.
pub(crate) fn is_settled(binding: &impl Binding) -> bool {
    binding
        .status()
        .and_then(|status| status.scheduler_observed_generation)
        == binding.meta().generation
        && scheduled(binding).is_some_and(|condition| condition.status == "True")
}

/// Waits until a ResourceBinding is placed on exactly the wanted clusters, and its status is up to date.
pub(crate) async fn wait_until_placed(
    plane: &Plane,
    name: &str,
    wanted: &[(&str, i32)],
) -> ResourceBinding {
    wait_until_placed_in(plane, &plane.api(), name, wanted).await
}

/// Waits until a binding of either kind is placed on exactly the wanted clusters, and its status is up to date.
pub(crate) async fn wait_until_placed_in<B: Binding>(
    plane: &Plane,
    api: &Api<B>,
    name: &str,
    wanted: &[(&str, i32)],
) -> B {
    plane
        .until(api, name, &format!("placed on {wanted:?}"), |binding| {
            is_settled(binding) && targets(binding) == wanted
        })
        .await
}

/// Waits until the condition `Scheduled` of a ResourceBinding is false with this reason.
pub(crate) async fn wait_for_failure(plane: &Plane, name: &str, reason: &str) -> ResourceBinding {
    plane
        .until(
            &plane.api::<ResourceBinding>(),
            name,
            &format!("to fail with {reason}"),
            |binding| {
                scheduled(binding).is_some_and(|condition| {
                    condition.status == "False" && condition.reason == reason
                })
            },
        )
        .await
}

/// Returns the message of the condition `Scheduled`.
pub(crate) fn message(binding: &impl Binding) -> String {
    scheduled(binding).map_or_else(String::new, |condition| condition.message.clone())
}

static NEXT_MARKER: AtomicUsize = AtomicUsize::new(0);

/// Creates a marker workload and waits until it is placed. By then, the detector and the scheduler have handled all
/// earlier changes.
///
/// Afterwards, a test can check that something did not happen, or rely on the detector to know a policy.
pub(crate) async fn wait_for_pending_work(plane: &Plane) {
    let name = format!("marker-{}", NEXT_MARKER.fetch_add(1, Ordering::Relaxed));
    place_marker(plane, &name, on_all_clusters()).await;
}

/// Adds a label to a member, creates a workload that selects the label, and waits until the workload is placed. By
/// then, the scheduler has received all earlier changes of members.
///
/// Members and bindings arrive on separate watches. A binding that is placed with an outdated state of a member may
/// keep this placement.
pub(crate) async fn wait_for_member_changes(plane: &Plane) {
    let name = format!(
        "member-marker-{}",
        NEXT_MARKER.fetch_add(1, Ordering::Relaxed)
    );
    let clusters = plane.all::<Cluster>();
    let label = json!({ "metadata": { "labels": { &name: "yes" } } });
    plane.edit(&clusters, "member1", label).await;
    let tolerant = json!({ "clusterTolerations": [{ "operator": "Exists" }] });
    place_marker(
        plane,
        &name,
        merged(on_labelled_clusters(&name, "yes"), tolerant),
    )
    .await;
}

/// Creates a ConfigMap and its policy, and waits until the ConfigMap is placed.
async fn place_marker(plane: &Plane, name: &str, placement: Value) {
    let template = config_map(name);
    plane
        .create_all([policy(name, &[&template], placement), template])
        .await;
    plane
        .until(
            &plane.api::<ResourceBinding>(),
            &format!("{name}-configmap"),
            "the marker to be placed",
            is_settled,
        )
        .await;
}

/// Returns the events about an object.
pub(crate) async fn events_about(plane: &Plane, kind: &str, name: &str) -> Vec<Event> {
    let mut found = Vec::new();
    // Events about cluster-scoped objects are in the namespace `default`.
    for namespace in [plane.namespace.as_str(), "default"] {
        let api: Api<Event> = Api::namespaced(plane.client.clone(), namespace);
        let events = api.list(&ListParams::default()).await.unwrap();
        found.extend(events.items.into_iter().filter(|event| {
            event.involved_object.kind.as_deref() == Some(kind)
                && event.involved_object.name.as_deref() == Some(name)
        }));
    }
    found
}

/// Waits for an event about an object with this reason. Its message must contain `text`.
pub(crate) async fn wait_for_event(
    plane: &Plane,
    kind: &str,
    name: &str,
    reason: &str,
    text: &str,
) -> Event {
    eventually(
        &format!("an event {reason} {text:?} on {kind} {name}"),
        async || {
            let events = events_about(plane, kind, name).await;
            let found: Vec<_> = events
                .iter()
                .map(|event| (event.reason.clone(), event.message.clone()))
                .collect();
            events
                .into_iter()
                .find(|event| {
                    event.reason.as_deref() == Some(reason)
                        && event.message.as_deref().is_some_and(|m| m.contains(text))
                })
                .ok_or_else(|| format!("there are only {found:?}"))
        },
    )
    .await
}

/// Returns the component that recorded an event.
pub(crate) fn event_source(event: &Event) -> &str {
    event
        .source
        .as_ref()
        .and_then(|source| source.component.as_deref())
        .unwrap_or_default()
}

/// Returns a label of an object.
pub(crate) fn label<'a>(object: &'a impl kube::Resource, key: &str) -> Option<&'a str> {
    let labels = object.meta().labels.as_ref()?;
    labels.get(key).map(String::as_str)
}

/// Returns an annotation of an object.
pub(crate) fn annotation<'a>(object: &'a impl kube::Resource, key: &str) -> Option<&'a str> {
    let annotations = object.meta().annotations.as_ref()?;
    annotations.get(key).map(String::as_str)
}

/// Returns the resource version of an object, which changes with every write.
pub(crate) fn resource_version(object: &impl kube::Resource) -> String {
    object.meta().resource_version.clone().unwrap_or_default()
}

/// Waits until the second after the last scheduling of a binding, and returns the current time. API times have whole
/// seconds, and `rescheduleTriggeredAt` must be later than the last scheduling.
pub(crate) async fn wait_for_next_second_after(binding: &ResourceBinding) -> Timestamp {
    let last = binding.status.as_ref().unwrap().last_scheduled_time.clone();
    let last = last.unwrap().0.as_second();
    eventually("the next second", async || {
        let now = Timestamp::now();
        if now.as_second() > last {
            Ok(now)
        } else {
            Err("it has not begun")
        }
    })
    .await
}

/// Sets the label `site` of a member, and waits until the scheduler has processed the change.
pub(crate) async fn label_site(plane: &Plane, member: &str, site: &str) {
    let labels = json!({ "metadata": { "labels": { "site": site } } });
    plane.edit(&plane.all::<Cluster>(), member, labels).await;
    wait_for_member_changes(plane).await;
}
