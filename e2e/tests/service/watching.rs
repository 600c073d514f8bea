//! Ways to look at what the scheduler has done.

use std::collections::BTreeMap;

use berth_api::ResourceBinding;
use berth_core::{Engine, EngineOptions, Fleet, Request};
use berth_e2e::{Bare, eventually};
use k8s_openapi::api::core::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt as _;
use kube::api::{Api, ListParams};

/// Where a binding is placed: replicas by cluster.
pub(crate) type Placed = BTreeMap<String, i32>;

/// Where a binding is placed.
pub(crate) fn targets(binding: &ResourceBinding) -> Placed {
    let clusters = binding.spec.clusters.iter();
    clusters.map(|t| (t.name.clone(), t.replicas)).collect()
}

/// The condition `Scheduled`.
pub(crate) fn scheduled(binding: &ResourceBinding) -> Option<&Condition> {
    let conditions = &binding.status.as_ref()?.conditions;
    conditions.iter().find(|c| c.type_ == "Scheduled")
}

/// Whether the scheduler has placed this very generation.
pub(crate) fn is_settled(binding: &ResourceBinding) -> bool {
    let status = binding.status.as_ref();
    status.and_then(|status| status.scheduler_observed_generation) == binding.metadata.generation
        && scheduled(binding).is_some_and(|condition| condition.status == "True")
}

/// Where the engine puts a binding on this fleet.
pub(crate) fn decided(fleet: &mut Fleet, binding: &ResourceBinding) -> Placed {
    let mut engine = Engine::new(EngineOptions::default()).unwrap();
    let request = Request::new(
        Some("default"),
        &binding.name_any(),
        &binding.spec,
        &binding.status.clone().unwrap_or_default(),
    );
    let outcome = engine.schedule(&fleet.snapshot(), &request.unwrap());
    let placed = outcome.result.unwrap();
    let targets = placed.targets.iter();
    targets.map(|t| (t.name.to_string(), t.replicas)).collect()
}

/// Where the engine puts each of these bindings.
pub(crate) async fn all_decided(
    bare: &Bare,
    bindings: &[ResourceBinding],
) -> BTreeMap<String, Placed> {
    let mut fleet = Fleet::new();
    let clusters = bare.clusters().list(&ListParams::default()).await.unwrap();
    for cluster in &clusters.items {
        fleet.apply(cluster);
    }
    bindings
        .iter()
        .map(|binding| (binding.name_any(), decided(&mut fleet, binding)))
        .collect()
}

/// Waits until each of these bindings is placed as it should be, and returns them.
pub(crate) async fn all_placed(
    bare: &Bare,
    wanted: &BTreeMap<String, Placed>,
) -> Vec<ResourceBinding> {
    eventually("all bindings to be placed", async || {
        let stored = bare.bindings("default").list(&ListParams::default()).await;
        let stored: Vec<ResourceBinding> = stored
            .unwrap()
            .items
            .into_iter()
            .filter(|binding| wanted.contains_key(&binding.name_any()))
            .collect();
        let done = |binding: &&ResourceBinding| {
            is_settled(binding) && targets(binding) == wanted[&binding.name_any()]
        };
        let count = stored.iter().filter(done).count();
        if count == wanted.len() {
            return Ok(stored);
        }
        let odd = stored.iter().find(|binding| !done(binding)).map(|binding| {
            let name = binding.name_any();
            let should = &wanted[&name];
            format!(
                "{name} is on {:?} and should be on {should:?}; {:?}",
                targets(binding),
                binding.status
            )
        });
        Err(format!("{count} of {} are: {odd:?}", wanted.len()))
    })
    .await
}

/// Holds that each binding was given its clusters by one write: one generation by its creation, one by it.
pub(crate) fn each_written_once(bindings: &[ResourceBinding]) {
    let moved: Vec<_> = bindings
        .iter()
        .filter(|binding| binding.metadata.generation != Some(2))
        .map(|binding| (binding.name_any(), binding.metadata.generation))
        .collect();
    assert!(moved.is_empty(), "placed more than once: {moved:?}");
}

/// All events of all namespaces.
pub(crate) async fn events(bare: &Bare) -> Vec<Event> {
    let api: Api<Event> = Api::all(bare.client.clone());
    api.list(&ListParams::default()).await.unwrap().items
}

/// Waits until there is an event with this reason about each of these bindings.
pub(crate) async fn all_told(bare: &Bare, names: &BTreeMap<String, Placed>, reason: &str) {
    eventually("an event about each binding", async || {
        let events = events(bare).await;
        let told: Vec<&str> = events
            .iter()
            .filter(|event| event.reason.as_deref() == Some(reason))
            .filter(|event| event.involved_object.kind.as_deref() == Some("ResourceBinding"))
            .filter_map(|event| event.involved_object.name.as_deref())
            .collect();
        let missing: Vec<_> = names
            .keys()
            .filter(|n| !told.contains(&n.as_str()))
            .collect();
        if missing.is_empty() {
            Ok(())
        } else {
            Err(format!(
                "{} have none: {:?}",
                missing.len(),
                missing.first()
            ))
        }
    })
    .await;
}
