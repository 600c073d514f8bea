//! Ways to look at what became of a scenario.

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

use crate::manifests::{but, config_map, everywhere, labelled, policy};

/// What happens at once takes well under a second, and what does not, minutes; this leaves room for the other tests of the
/// machine.
pub(crate) const AT_ONCE: Duration = Duration::from_secs(10);

/// The two kinds of binding.
pub(crate) trait Binding:
    kube::Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug
{
    /// What is wanted.
    fn spec(&self) -> &BindingSpec;
    /// What was observed.
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

/// The targets of a binding, by name.
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

/// The condition `Scheduled`.
pub(crate) fn scheduled(binding: &impl Binding) -> Option<&Condition> {
    binding
        .status()?
        .conditions
        .iter()
        .find(|condition| condition.type_ == "Scheduled")
}

/// Whether the scheduler has looked at this very generation, and placed it.
pub(crate) fn is_settled(binding: &impl Binding) -> bool {
    binding
        .status()
        .and_then(|status| status.scheduler_observed_generation)
        == binding.meta().generation
        && scheduled(binding).is_some_and(|condition| condition.status == "True")
}

/// Waits until a ResourceBinding of the test is placed just so.
pub(crate) async fn placed(plane: &Plane, name: &str, wanted: &[(&str, i32)]) -> ResourceBinding {
    placed_in(plane, &plane.api(), name, wanted).await
}

/// Waits until a binding is placed just so, and its status says that all is well.
pub(crate) async fn placed_in<B: Binding>(
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

/// Waits until a ResourceBinding of the test could not be placed for this reason.
pub(crate) async fn not_placed(plane: &Plane, name: &str, reason: &str) -> ResourceBinding {
    plane
        .until(
            &plane.api::<ResourceBinding>(),
            name,
            &format!("not placed: {reason}"),
            |binding| {
                scheduled(binding).is_some_and(|condition| {
                    condition.status == "False" && condition.reason == reason
                })
            },
        )
        .await
}

/// The message of the condition `Scheduled`.
pub(crate) fn message(binding: &impl Binding) -> String {
    scheduled(binding).map_or_else(String::new, |condition| condition.message.clone())
}

static NUMBER: AtomicUsize = AtomicUsize::new(0);

/// Ends when detector and scheduler have done all that was asked of them before: a new workload is placed.
///
/// This is how a test knows that what has not happened will not happen, and that a policy has been seen.
pub(crate) async fn after_all_else(plane: &Plane) {
    let name = format!("barrier-{}", NUMBER.fetch_add(1, Ordering::Relaxed));
    barrier(plane, &name, everywhere()).await;
}

/// Ends when the scheduler has seen all changes of members: a workload is placed by the newest of them.
///
/// Members and bindings are seen through two watches. What is placed by an old state of a member often
/// stays, as it should.
pub(crate) async fn after_changes_of_members(plane: &Plane) {
    let name = format!("seen-{}", NUMBER.fetch_add(1, Ordering::Relaxed));
    let clusters = plane.all::<Cluster>();
    let label = json!({ "metadata": { "labels": { &name: "yes" } } });
    plane.edit(&clusters, "member1", label).await;
    let tolerant = json!({ "clusterTolerations": [{ "operator": "Exists" }] });
    barrier(plane, &name, but(labelled(&name, "yes"), tolerant)).await;
}

async fn barrier(plane: &Plane, name: &str, placement: Value) {
    let template = config_map(name);
    plane
        .create_all([policy(name, &[&template], placement), template])
        .await;
    plane
        .until(
            &plane.api::<ResourceBinding>(),
            &format!("{name}-configmap"),
            "the barrier placed",
            is_settled,
        )
        .await;
}

/// The events about an object.
pub(crate) async fn events_about(plane: &Plane, kind: &str, name: &str) -> Vec<Event> {
    let mut found = Vec::new();
    // Those about cluster-scoped objects are in `default`.
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

/// Waits until an event about an object has this reason and a message with this in it.
pub(crate) async fn told(plane: &Plane, kind: &str, name: &str, reason: &str, text: &str) -> Event {
    eventually(
        &format!("an event {reason} {text:?} about {kind} {name}"),
        async || {
            let events = events_about(plane, kind, name).await;
            let seen: Vec<_> = events
                .iter()
                .map(|event| (event.reason.clone(), event.message.clone()))
                .collect();
            events
                .into_iter()
                .find(|event| {
                    event.reason.as_deref() == Some(reason)
                        && event.message.as_deref().is_some_and(|m| m.contains(text))
                })
                .ok_or_else(|| format!("there are only {seen:?}"))
        },
    )
    .await
}

/// Who recorded an event.
pub(crate) fn component(event: &Event) -> &str {
    event
        .source
        .as_ref()
        .and_then(|source| source.component.as_deref())
        .unwrap_or_default()
}

/// A label or annotation of metadata.
pub(crate) fn label<'a>(object: &'a impl kube::Resource, key: &str) -> Option<&'a str> {
    let labels = object.meta().labels.as_ref()?;
    labels.get(key).map(String::as_str)
}

/// An annotation of an object.
pub(crate) fn annotation<'a>(object: &'a impl kube::Resource, key: &str) -> Option<&'a str> {
    let annotations = object.meta().annotations.as_ref()?;
    annotations.get(key).map(String::as_str)
}

/// The version of an object, which every write changes.
pub(crate) fn version(object: &impl kube::Resource) -> String {
    object.meta().resource_version.clone().unwrap_or_default()
}
