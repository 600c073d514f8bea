//! Tests of a scheduler that takes over placed bindings from another scheduler. The second scheduler must write nothing
//! to these bindings.

use std::collections::BTreeMap;

use berth_e2e::{BareControlPlane, RunningScheduler, eventually};
use berth_scheduler::Options;
use kube::ResourceExt as _;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::assertions::{events, is_settled};
use crate::objects::{binding, on_cluster};
use crate::recorded_writes::{Recording, all_differences};

/// Returns the resource versions of the bindings and events, which are the objects that a scheduler may write.
async fn resource_versions(bare: &BareControlPlane) -> BTreeMap<String, String> {
    let bindings = bare.all_bindings().await;
    let mut versions: BTreeMap<_, _> = bindings
        .iter()
        .map(|binding| {
            let version = binding.resource_version().unwrap_or_default();
            (binding.name_any(), version)
        })
        .collect();
    for event in events(bare).await {
        versions.insert(
            format!("event {}", event.name_any()),
            event.resource_version().unwrap_or_default(),
        );
    }
    versions
}

/// Creates a marker binding with the lowest priority, and runs a scheduler until the marker is placed. By then, the
/// scheduler has handled all other bindings.
async fn take_over(bare: &BareControlPlane) {
    let mut last = binding("zz-last", 1, on_cluster("member1"));
    last.spec.schedule_priority = serde_json::from_value(json!({ "priority": -1000 })).unwrap();
    bare.bind(&last).await;
    let scheduler = RunningScheduler::start(Options::embedded(), bare.remote_client().await);
    eventually("the last binding to be placed", async || {
        let stored = bare.bindings("default").get("zz-last").await.unwrap();
        if is_settled(&stored) {
            Ok(())
        } else {
            Err(format!("{:?}", stored.status))
        }
    })
    .await;
    // The scheduler has written its last event when it stops.
    scheduler.stop().await.unwrap();
}

fn without_last_binding(mut versions: BTreeMap<String, String>) -> BTreeMap<String, String> {
    versions.retain(|name, _| !name.contains("zz-last"));
    versions
}

/// Checks that a takeover changes no resource version.
async fn assert_takeover_writes_nothing(bare: &BareControlPlane) {
    let before = resource_versions(bare).await;
    take_over(bare).await;
    let after = without_last_binding(resource_versions(bare).await);
    let written: Vec<_> = after
        .iter()
        .filter(|(name, version)| before.get(*name) != Some(*version))
        .map(|(name, _)| name)
        .collect();
    assert!(written.is_empty(), "{} writes: {written:?}", written.len());
    assert_eq!(before.len(), after.len());
}

/// The first scheduler is Berth.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_scheduler_writes_nothing() {
    let recording = Recording::read();
    let bare = BareControlPlane::start(&recording.clusters).await;
    bare.bind_all(&recording.bindings).await;
    // Karmada records all events.
    let options = Options {
        routine_events: true,
        ..Options::embedded()
    };
    let first = RunningScheduler::start(options, bare.remote_client().await);
    eventually("the first scheduler to settle", async || {
        let remaining = all_differences(&bare, &recording).await.len();
        if remaining == 0 {
            Ok(())
        } else {
            Err(format!("{remaining} differences"))
        }
    })
    .await;
    first.stop().await.unwrap();
    assert_takeover_writes_nothing(&bare).await;
    bare.stop().await;
}

/// The bindings contain the clusters, annotations and status that Karmada's scheduler wrote.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bindings_placed_by_karmada_are_not_written() {
    let mut recording = Recording::read();
    for binding in &mut recording.bindings {
        let recorded = &recording.results[&binding.name_any()];
        binding.metadata.annotations = recorded.annotations.clone();
        binding.spec.clusters =
            serde_json::from_value(json!(recorded.clusters.clone().unwrap_or_default())).unwrap();
        binding.status = None;
    }
    let bare = BareControlPlane::start(&recording.clusters).await;
    bare.bind_all(&recording.bindings).await;
    for (name, recorded) in &recording.results {
        let mut status = recorded.status.clone();
        // The binding has just been created, so its generation is 1.
        if status.get("schedulerObservedGeneration").is_some() {
            status["schedulerObservedGeneration"] = json!(1);
        }
        let patch = Patch::Merge(json!({ "status": status }));
        bare.bindings("default")
            .patch_status(name, &PatchParams::default(), &patch)
            .await
            .unwrap();
    }
    assert_takeover_writes_nothing(&bare).await;
    bare.stop().await;
}
