//! A scheduler that takes over a placed fleet writes nothing at all.

use std::collections::BTreeMap;

use berth_e2e::{Bare, Running, eventually};
use berth_scheduler::Options;
use kube::ResourceExt as _;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::objects::{binding, on};
use crate::watching::{events, is_settled};
use crate::writes::{Measured, all_differences};

/// The version of every object that a scheduler may write.
async fn versions(bare: &Bare) -> BTreeMap<String, String> {
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

/// Starts a scheduler and ends it when it has looked at everything: a binding of the lowest priority, which
/// is looked at last, is placed.
async fn take_over(bare: &Bare) {
    let mut last = binding("zz-last", 1, on("member1"));
    last.spec.schedule_priority = serde_json::from_value(json!({ "priority": -1000 })).unwrap();
    bare.bind(&last).await;
    let scheduler = Running::start(Options::embedded(), bare.remote_client().await);
    eventually("the last binding to be placed", async || {
        let stored = bare.bindings("default").get("zz-last").await.unwrap();
        if is_settled(&stored) {
            Ok(())
        } else {
            Err(format!("{:?}", stored.status))
        }
    })
    .await;
    // It ends after its last event is written.
    scheduler.stop().await.unwrap();
}

fn without_the_last(mut versions: BTreeMap<String, String>) -> BTreeMap<String, String> {
    versions.retain(|name, _| !name.contains("zz-last"));
    versions
}

/// Holds that taking over changes no version.
async fn nothing_is_written(bare: &Bare) {
    let before = versions(bare).await;
    take_over(bare).await;
    let after = without_the_last(versions(bare).await);
    let written: Vec<_> = after
        .iter()
        .filter(|(name, version)| before.get(*name) != Some(*version))
        .map(|(name, _)| name)
        .collect();
    assert!(written.is_empty(), "{} writes: {written:?}", written.len());
    assert_eq!(before.len(), after.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_start_writes_nothing() {
    let measured = Measured::read();
    let bare = Bare::start(&measured.clusters).await;
    bare.bind_all(&measured.bindings).await;
    let first = Running::start(Options::embedded(), bare.remote_client().await);
    eventually("the first scheduler to settle", async || {
        let left = all_differences(&bare, &measured).await.len();
        if left == 0 {
            Ok(())
        } else {
            Err(format!("{left} differences"))
        }
    })
    .await;
    first.stop().await.unwrap();
    nothing_is_written(&bare).await;
    bare.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_karmada_placed_is_left_alone() {
    let mut measured = Measured::read();
    for binding in &mut measured.bindings {
        let left = &measured.results[&binding.name_any()];
        binding.metadata.annotations = left.annotations.clone();
        binding.spec.clusters =
            serde_json::from_value(json!(left.clusters.clone().unwrap_or_default())).unwrap();
        binding.status = None;
    }
    let bare = Bare::start(&measured.clusters).await;
    bare.bind_all(&measured.bindings).await;
    for (name, left) in &measured.results {
        let mut status = left.status.clone();
        // Stored anew, its generation begins at 1.
        if status.get("schedulerObservedGeneration").is_some() {
            status["schedulerObservedGeneration"] = json!(1);
        }
        let patch = Patch::Merge(json!({ "status": status }));
        bare.bindings("default")
            .patch_status(name, &PatchParams::default(), &patch)
            .await
            .unwrap();
    }
    nothing_is_written(&bare).await;
    bare.stop().await;
}
