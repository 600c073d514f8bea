//! Functions that wait for the results of the scheduler, or check these results.

use std::collections::BTreeMap;

use berth_api::{BindingKey, ResourceBinding};
use berth_e2e::{BareControlPlane, eventually};
use berth_engine::{Engine, EngineOptions, Fleet, Request};
use k8s_openapi::api::core::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt as _;
use kube::api::{Api, ListParams};

/// The replicas of a binding, keyed by cluster.
pub(crate) type Targets = BTreeMap<String, i32>;

/// Returns the replicas of a binding, keyed by cluster.
pub(crate) fn targets(binding: &ResourceBinding) -> Targets {
    let clusters = binding.spec.clusters.iter();
    clusters.map(|t| (t.name.clone(), t.replicas)).collect()
}

/// Returns the condition `Scheduled`.
pub(crate) fn scheduled(binding: &ResourceBinding) -> Option<&Condition> {
    let conditions = &binding.status.as_ref()?.conditions;
    conditions.iter().find(|c| c.type_ == "Scheduled")
}

/// Reports whether the scheduler has placed the current generation of a binding.
pub(crate) fn is_settled(binding: &ResourceBinding) -> bool {
    let status = binding.status.as_ref();
    status.and_then(|status| status.scheduler_observed_generation) == binding.metadata.generation
        && scheduled(binding).is_some_and(|condition| condition.status == "True")
}

/// Returns the clusters that the engine chooses for a binding. The engine runs in the test, apart from the scheduler.
pub(crate) fn engine_decision(fleet: &mut Fleet, binding: &ResourceBinding) -> Targets {
    let mut engine = Engine::new(EngineOptions::default()).unwrap();
    let request = Request::new(
        &BindingKey::of(&binding.metadata),
        &binding.spec,
        &binding.status.clone().unwrap_or_default(),
    );
    let outcome = engine.schedule(&fleet.snapshot(), &request.unwrap());
    let placed = outcome.result.unwrap();
    let targets = placed.targets.iter();
    targets.map(|t| (t.name.to_string(), t.replicas)).collect()
}

/// Returns the clusters that the engine chooses for each binding, keyed by the name of the binding.
pub(crate) async fn engine_decisions(
    bare: &BareControlPlane,
    bindings: &[ResourceBinding],
) -> BTreeMap<String, Targets> {
    let mut fleet = Fleet::new();
    let clusters = bare.clusters().list(&ListParams::default()).await.unwrap();
    for cluster in &clusters.items {
        fleet.apply(cluster);
    }
    bindings
        .iter()
        .map(|binding| (binding.name_any(), engine_decision(&mut fleet, binding)))
        .collect()
}

/// Waits until all bindings in `expected` are placed as expected, and returns the bindings.
pub(crate) async fn wait_until_all_placed(
    bare: &BareControlPlane,
    expected: &BTreeMap<String, Targets>,
) -> Vec<ResourceBinding> {
    eventually("all bindings to be placed", async || {
        let stored = bare.bindings("default").list(&ListParams::default()).await;
        let stored: Vec<ResourceBinding> = stored
            .unwrap()
            .items
            .into_iter()
            .filter(|binding| expected.contains_key(&binding.name_any()))
            .collect();
        let is_done = |binding: &&ResourceBinding| {
            is_settled(binding) && targets(binding) == expected[&binding.name_any()]
        };
        let count = stored.iter().filter(is_done).count();
        if count == expected.len() {
            return Ok(stored);
        }
        let pending = stored
            .iter()
            .find(|binding| !is_done(binding))
            .map(|binding| {
                let name = binding.name_any();
                let expected = &expected[&name];
                format!(
                    "{name} is on {:?}, expected {expected:?}; {:?}",
                    targets(binding),
                    binding.status
                )
            });
        Err(format!(
            "{count} of {} bindings are placed: {pending:?}",
            expected.len()
        ))
    })
    .await
}

/// Checks that the scheduler placed each binding with one write. Generation 1 is the creation of a binding, and
/// generation 2 its placement.
pub(crate) fn assert_each_placed_once(bindings: &[ResourceBinding]) {
    let moved: Vec<_> = bindings
        .iter()
        .filter(|binding| binding.metadata.generation != Some(2))
        .map(|binding| (binding.name_any(), binding.metadata.generation))
        .collect();
    assert!(moved.is_empty(), "placed more than once: {moved:?}");
}

/// Returns the events of all namespaces.
pub(crate) async fn events(bare: &BareControlPlane) -> Vec<Event> {
    let api: Api<Event> = Api::all(bare.client.clone());
    api.list(&ListParams::default()).await.unwrap().items
}

/// Waits until each binding has an event with this reason.
pub(crate) async fn wait_for_events(
    bare: &BareControlPlane,
    names: &BTreeMap<String, Targets>,
    reason: &str,
) {
    eventually("an event on the template of each binding", async || {
        let events = events(bare).await;
        let found: Vec<&str> = events
            .iter()
            .filter(|event| event.reason.as_deref() == Some(reason))
            .filter(|event| event.involved_object.kind.as_deref() == Some("Deployment"))
            .filter_map(|event| event.involved_object.name.as_deref())
            .collect();
        let missing: Vec<_> = names
            .keys()
            .filter(|n| !found.contains(&n.as_str()))
            .collect();
        if missing.is_empty() {
            Ok(())
        } else {
            Err(format!(
                "{} templates have none: {:?}",
                missing.len(),
                missing.first()
            ))
        }
    })
    .await;
}
