//! Preemption: if a binding does not fit, the scheduler evicts bindings of lower priority.

use std::time::Duration;

use berth_api::ResourceBinding;
use berth_e2e::eventually;
use berth_e2e::proxy::{Fault, Proxy, RecordedRequest};
use http::{Method, StatusCode};
use serde_json::json;

use crate::scene::{Scene, binding, configuration};

/// Returns a binding with this priority.
fn with_priority(name: &str, priority: i32, replicas: i32) -> ResourceBinding {
    let priority = json!({ "spec": { "schedulePriority": { "priority": priority } } });
    binding(name, replicas, priority)
}

/// Checks that the scheduler evicts the fewest bindings that free enough capacity, reserves this capacity for the
/// preemptor, and records events for the preemptor and the victim.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_fewest_lower_priority_bindings_are_preempted_and_events_recorded() {
    let scene = Scene::start(6, "preemption").await;
    for (name, priority, replicas) in [("low", 1, 3), ("middle", 5, 2), ("small", 0, 1)] {
        scene
            .bare
            .bind(&with_priority(name, priority, replicas))
            .await;
        scene.wait_until_placed(name).await;
    }
    scene.bare.bind(&with_priority("high", 9, 3)).await;
    // The eviction of `low` alone frees enough capacity, so the scheduler evicts no other binding.
    scene
        .wait_until_unplaced("high", "preempts default/low in m1")
        .await;
    scene
        .wait_for_event("high", "Preempting", "default/low in m1")
        .await;
    let message = "preempted by ResourceBinding default/high of priority 9";
    scene.wait_for_event("low", "Preempted", message).await;
    let low = scene.wait_until_unplaced("low", "").await;
    let tasks = &low.spec.graceful_eviction_tasks;
    assert_eq!(tasks.len(), 1, "{tasks:?}");
    assert_eq!(
        (
            &*tasks[0].from_cluster,
            &*tasks[0].reason,
            &*tasks[0].producer,
            tasks[0].replicas
        ),
        ("m1", "Preempted", "DefaultPreemption", Some(3))
    );
    assert_eq!(tasks[0].message.as_deref(), Some(message));
    // Remove the eviction task, because no controller does. The scheduler reserves the freed capacity for `high`, so
    // `low` still does not fit.
    scene
        .edit("low", json!({ "spec": { "gracefulEvictionTasks": null } }))
        .await;
    scene.wait_until_unplaced("low", "not enough").await;
    scene.report_capacity(7, 1).await;
    scene.wait_until_placed("high").await;
    for name in ["middle", "small"] {
        scene.wait_until_placed(name).await;
    }
    scene.wait_until_unplaced("low", "not enough").await;
    scene.stop().await;
}

/// Checks that the scheduler evicts neither a binding of equal priority nor a binding with the annotation
/// `scheduling.berth/preemptible: "false"`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bindings_of_equal_priority_or_not_preemptible_are_not_preempted() {
    let scene = Scene::start(4, "preemption").await;
    let mut spared = with_priority("spared", 0, 2);
    spared.metadata.annotations = Some(
        [(
            "scheduling.berth/preemptible".to_owned(),
            "false".to_owned(),
        )]
        .into(),
    );
    for binding in [&spared, &with_priority("equal", 9, 2)] {
        scene.bare.bind(binding).await;
        let name = binding.metadata.name.as_deref().unwrap();
        scene.wait_until_placed(name).await;
        scene.report_healthy(name).await;
    }
    scene.wait_until_processed("equal").await;
    scene.report_capacity(4, 4).await;
    scene.bare.bind(&with_priority("high", 9, 1)).await;
    let high = scene.wait_until_unplaced("high", "not enough").await;
    let status = format!("{:?}", high.status);
    assert!(!status.contains("preempts"), "{status}");
    for name in ["spared", "equal"] {
        scene.wait_until_placed(name).await;
    }
    scene.stop().await;
}

/// Checks that, after an eviction, the scheduler evicts no further binding for the same preemptor until the cluster has
/// reported the freed capacity.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_more_is_preempted_until_the_cluster_reports() {
    let scene = Scene::start(6, "preemption").await;
    for (name, priority) in [("low", 0), ("other", 1)] {
        scene.bare.bind(&with_priority(name, priority, 3)).await;
        scene.wait_until_placed(name).await;
        scene.report_healthy(name).await;
    }
    // Report the capacity only now. The scheduler would assume that an earlier report does not include the workloads.
    scene.wait_until_processed("other").await;
    scene.report_capacity(6, 6).await;
    scene.bare.bind(&with_priority("high", 9, 3)).await;
    let low = scene.wait_until_unplaced("low", "").await;
    assert_eq!(low.spec.graceful_eviction_tasks.len(), 1);
    // Trigger another attempt. While the eviction task exists, the attempt finds the same victim again.
    let trigger_attempt =
        |name: &str| json!({ "spec": { "resource": { "resourceVersion": name } } });
    scene.edit("high", trigger_attempt("1")).await;
    scene.wait_until_processed("high").await;
    scene
        .wait_until_unplaced("high", "preempts default/low in m1")
        .await;
    // Remove the eviction task, as after the removal of the workload. The cluster has not reported the freed capacity
    // yet.
    scene
        .edit("low", json!({ "spec": { "gracefulEvictionTasks": null } }))
        .await;
    scene.edit("high", trigger_attempt("2")).await;
    scene
        .wait_until_unplaced(
            "high",
            "evictions have freed capacity that the clusters have not reported yet",
        )
        .await;
    let other = scene
        .wait_for("other", |other, _| !other.spec.clusters.is_empty())
        .await;
    assert_eq!(other.spec.graceful_eviction_tasks.len(), 0);
    scene.report_capacity(6, 3).await;
    scene.wait_until_placed("high").await;
    scene.wait_until_placed("other").await;
    scene.stop().await;
}

/// Reports whether a request patches the binding `low`, to place or to evict it.
fn patches_low(request: &RecordedRequest) -> bool {
    request.method == Method::PATCH && request.path.ends_with("/resourcebindings/low")
}

/// Starts a scheduler that connects to the API server through a fault-injecting proxy, and waits until the scheduler
/// has placed the binding `low`.
async fn start_behind_proxy() -> (Scene, Proxy) {
    let mut scene = Scene::with_cores(3).await;
    let proxy = Proxy::start(scene.bare.client.clone());
    scene.start_scheduler_with(proxy.client(), &configuration("preemption"));
    scene.bare.bind(&with_priority("low", 0, 3)).await;
    scene.wait_until_placed("low").await;
    (scene, proxy)
}

/// Checks that a failed eviction gets an event, and that the scheduler retries the eviction until it succeeds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failed_evictions_are_reported_and_retried() {
    for code in [StatusCode::INTERNAL_SERVER_ERROR, StatusCode::FORBIDDEN] {
        let (scene, proxy) = start_behind_proxy().await;
        proxy.rule(move |request| {
            if patches_low(request) {
                Fault::Respond(code, None)
            } else {
                Fault::None
            }
        });
        scene.bare.bind(&with_priority("high", 9, 3)).await;
        scene
            .wait_for_event(
                "high",
                "PreemptionFailed",
                "cannot evict default/low; trying again: ",
            )
            .await;
        eventually("another try", async || match proxy.count(patches_low) {
            tries @ (0..=2) => Err(format!("{tries} tries")),
            _ => Ok(()),
        })
        .await;
        let low = scene.bare.bindings("default").get("low").await.unwrap();
        assert_eq!(low.spec.graceful_eviction_tasks.len(), 0);
        proxy.heal();
        let low = scene.wait_until_unplaced("low", "").await;
        assert_eq!(low.spec.graceful_eviction_tasks.len(), 1);
        scene
            .wait_for_event("low", "Preempted", "default/high")
            .await;
        scene.stop().await;
    }
}

/// Checks that the scheduler evicts a binding after the write of its placement, if the write still runs when a binding
/// of higher priority arrives.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_binding_being_placed_during_the_search_is_preempted_later() {
    let mut scene = Scene::with_cores(3).await;
    let proxy = Proxy::start(scene.bare.client.clone());
    proxy.rule(|request| {
        if patches_low(request) {
            Fault::Delay(Duration::from_secs(1))
        } else {
            Fault::None
        }
    });
    scene.start_scheduler_with(proxy.client(), &configuration("preemption"));
    scene.bare.bind(&with_priority("low", 0, 3)).await;
    eventually("the request that places low", async || {
        match proxy.count(patches_low) {
            0 => Err("nothing is written"),
            _ => Ok(()),
        }
    })
    .await;
    scene.bare.bind(&with_priority("high", 9, 3)).await;
    scene
        .wait_for_event("low", "Preempted", "default/high")
        .await;
    scene.stop().await;
}

/// Checks that a scheduler that shuts down finishes a running eviction first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shutdown_waits_for_an_eviction_in_flight() {
    let (mut scene, proxy) = start_behind_proxy().await;
    let placed = proxy.count(patches_low);
    proxy.rule(|request| {
        if patches_low(request) {
            Fault::Delay(Duration::from_secs(1))
        } else {
            Fault::None
        }
    });
    scene.bare.bind(&with_priority("high", 9, 3)).await;
    eventually("the eviction", async || {
        let begun = proxy.count(patches_low) > placed;
        begun.then_some(()).ok_or("it has not begun")
    })
    .await;
    scene.stop_scheduler().await;
    let low = scene.bare.bindings("default").get("low").await.unwrap();
    assert_eq!(low.spec.graceful_eviction_tasks.len(), 1);
    scene
        .wait_for_event("low", "Preempted", "default/high")
        .await;
    scene.stop().await;
}
