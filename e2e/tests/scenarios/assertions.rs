//! Functions that wait for results of a scenario or read them.

use std::fmt::Debug;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use berth_api::binding::{BindingSpec, BindingStatus};
use berth_api::{Cluster, ClusterResourceBinding, ResourceBinding};
use berth_e2e::{Plane, eventually};
use k8s_openapi::api::core::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::Api;
use kube::api::ListParams;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::manifests::{config_map, merged, on_all_clusters, on_labelled_clusters, policy};

/// Limit for reactions to an event. They take under a second on an idle machine; a missed event costs minutes.
pub(crate) const REACTION_LIMIT: Duration = Duration::from_secs(10);

/// The two kinds of binding.
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

/// Returns the clusters and replicas of a binding, sorted by name.
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

/// Reports whether the scheduler has placed the current generation.
pub(crate) fn is_settled(binding: &impl Binding) -> bool {
    binding
        .status()
        .and_then(|status| status.scheduler_observed_generation)
        == binding.meta().generation
        && scheduled(binding).is_some_and(|condition| condition.status == "True")
}

/// Waits until a ResourceBinding is placed on exactly the wanted clusters.
pub(crate) async fn wait_until_placed(
    plane: &Plane,
    name: &str,
    wanted: &[(&str, i32)],
) -> ResourceBinding {
    wait_until_placed_in(plane, &plane.api(), name, wanted).await
}

/// Waits until a binding is placed on exactly the wanted clusters and its status is up to date.
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

/// Waits until scheduling of a ResourceBinding has failed with a reason.
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

/// Waits until detector and scheduler have handled all earlier changes, by placing a new marker workload.
///
/// Afterwards, a test can check that something did not happen, or rely on the detector knowing a policy.
pub(crate) async fn wait_for_pending_work(plane: &Plane) {
    let name = format!("marker-{}", NEXT_MARKER.fetch_add(1, Ordering::Relaxed));
    place_marker(plane, &name, on_all_clusters()).await;
}

/// Waits until the scheduler has received all changes of members, by placing a workload with a new member label.
///
/// Members and bindings arrive on separate watches. A binding that is placed with an old state of a member often
/// stays there.
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

/// Creates a ConfigMap with a policy, and waits until it is placed.
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

/// Returns the events on an object.
pub(crate) async fn events_about(plane: &Plane, kind: &str, name: &str) -> Vec<Event> {
    let mut found = Vec::new();
    // Events on cluster-scoped objects are in `default`.
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

/// Waits for an event on an object with a reason and a text in its message.
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
