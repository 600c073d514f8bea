//! A binding that matters more takes the room of those that matter less.

use std::time::Duration;

use berth_api::ResourceBinding;
use berth_e2e::eventually;
use berth_e2e::proxy::{Asked, Fault, Proxy};
use http::{Method, StatusCode};
use serde_json::json;

use crate::scene::{Scene, binding, configuration};

fn of_priority(name: &str, priority: i32, replicas: i32) -> ResourceBinding {
    let priority = json!({ "spec": { "schedulePriority": { "priority": priority } } });
    binding(name, replicas, priority)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_least_important_makes_room_and_both_sides_are_told() {
    let scene = Scene::start(6, "preemption").await;
    for (name, priority, replicas) in [("low", 1, 3), ("middle", 5, 2), ("small", 0, 1)] {
        scene
            .bare
            .bind(&of_priority(name, priority, replicas))
            .await;
        scene.is_placed(name).await;
    }
    scene.bare.bind(&of_priority("high", 9, 3)).await;
    // The fewest have to go, although two that matter less than one of them would do.
    scene.waits("high", "preempts default/low in m1").await;
    scene
        .is_told("high", "Preempting", "default/low in m1")
        .await;
    let by = "preempted by ResourceBinding default/high of priority 9";
    scene.is_told("low", "Preempted", by).await;
    let low = scene.waits("low", "").await;
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
    assert_eq!(tasks[0].message.as_deref(), Some(by));
    // Nobody drains tasks here but the test. The room is kept for whom it was made.
    scene
        .edit("low", json!({ "spec": { "gracefulEvictionTasks": null } }))
        .await;
    scene.waits("low", "not enough").await;
    scene.reports(7, 1).await;
    scene.is_placed("high").await;
    for name in ["middle", "small"] {
        scene.is_placed(name).await;
    }
    scene.waits("low", "not enough").await;
    scene.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_opted_out_or_matters_as_much_stays() {
    let scene = Scene::start(4, "preemption").await;
    let mut spared = of_priority("spared", 0, 2);
    spared.metadata.annotations = Some(
        [(
            "scheduling.berth/preemptible".to_owned(),
            "false".to_owned(),
        )]
        .into(),
    );
    for binding in [&spared, &of_priority("equal", 9, 2)] {
        scene.bare.bind(binding).await;
        let name = binding.metadata.name.as_deref().unwrap();
        scene.is_placed(name).await;
        scene.is_healthy(name).await;
    }
    scene.is_looked_at("equal").await;
    scene.reports(4, 4).await;
    scene.bare.bind(&of_priority("high", 9, 1)).await;
    let high = scene.waits("high", "not enough").await;
    let said = format!("{:?}", high.status);
    assert!(!said.contains("preempts"), "{said}");
    for name in ["spared", "equal"] {
        scene.is_placed(name).await;
    }
    scene.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_more_is_preempted_until_the_cluster_reports() {
    let scene = Scene::start(6, "preemption").await;
    for (name, priority) in [("low", 0), ("other", 1)] {
        scene.bare.bind(&of_priority(name, priority, 3)).await;
        scene.is_placed(name).await;
        scene.is_healthy(name).await;
    }
    // A report that comes before that news is taken for one without the workloads.
    scene.is_looked_at("other").await;
    scene.reports(6, 6).await;
    scene.bare.bind(&of_priority("high", 9, 3)).await;
    let low = scene.waits("low", "").await;
    assert_eq!(low.spec.graceful_eviction_tasks.len(), 1);
    // Each look at the binding is a search of its own: while the task is there, it finds the same victim.
    let look_again = |name: &str| json!({ "spec": { "resource": { "resourceVersion": name } } });
    scene.edit("high", look_again("1")).await;
    scene.is_looked_at("high").await;
    scene.waits("high", "preempts default/low in m1").await;
    // The workload has left, and the cluster has not said so.
    scene
        .edit("low", json!({ "spec": { "gracefulEvictionTasks": null } }))
        .await;
    scene.edit("high", look_again("2")).await;
    scene
        .waits("high", "its room was made and is not reported yet")
        .await;
    let other = scene
        .becomes("other", |other, _| !other.spec.clusters.is_empty())
        .await;
    assert_eq!(other.spec.graceful_eviction_tasks.len(), 0);
    scene.reports(6, 3).await;
    scene.is_placed("high").await;
    scene.is_placed("other").await;
    scene.stop().await;
}

/// Whether the binding `low` is placed or evicted.
fn moves_low(asked: &Asked) -> bool {
    asked.method == Method::PATCH && asked.path.ends_with("/resourcebindings/low")
}

/// The binding `low` is where it is, and a scheduler runs behind a proxy.
async fn behind_a_proxy() -> (Scene, Proxy) {
    let mut scene = Scene::with_cores(3).await;
    let proxy = Proxy::start(scene.bare.client.clone());
    scene.schedule_with(proxy.client(), &configuration("preemption"));
    scene.bare.bind(&of_priority("low", 0, 3)).await;
    scene.is_placed("low").await;
    (scene, proxy)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_eviction_that_fails_is_told_and_tried_again() {
    for code in [StatusCode::INTERNAL_SERVER_ERROR, StatusCode::FORBIDDEN] {
        let (scene, proxy) = behind_a_proxy().await;
        proxy.rule(move |asked| {
            if moves_low(asked) {
                Fault::Answer(code, None)
            } else {
                Fault::None
            }
        });
        scene.bare.bind(&of_priority("high", 9, 3)).await;
        scene
            .is_told(
                "high",
                "PreemptionFailed",
                "cannot evict default/low, and tries again: ",
            )
            .await;
        eventually("another try", async || match proxy.count(moves_low) {
            tries @ (0..=2) => Err(format!("{tries} tries")),
            _ => Ok(()),
        })
        .await;
        let low = scene.bare.bindings("default").get("low").await.unwrap();
        assert_eq!(low.spec.graceful_eviction_tasks.len(), 0);
        proxy.heal();
        let low = scene.waits("low", "").await;
        assert_eq!(low.spec.graceful_eviction_tasks.len(), 1);
        scene.is_told("low", "Preempted", "default/high").await;
        scene.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_was_being_placed_during_the_search_is_found_by_the_next_one() {
    let mut scene = Scene::with_cores(3).await;
    let proxy = Proxy::start(scene.bare.client.clone());
    proxy.rule(|asked| {
        if moves_low(asked) {
            Fault::Late(Duration::from_secs(1))
        } else {
            Fault::None
        }
    });
    scene.schedule_with(proxy.client(), &configuration("preemption"));
    scene.bare.bind(&of_priority("low", 0, 3)).await;
    eventually("the placement to be on its way", async || {
        match proxy.count(moves_low) {
            0 => Err("nothing is written"),
            _ => Ok(()),
        }
    })
    .await;
    scene.bare.bind(&of_priority("high", 9, 3)).await;
    scene.is_told("low", "Preempted", "default/high").await;
    scene.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_eviction_that_has_begun_is_waited_for_at_the_end() {
    let (mut scene, proxy) = behind_a_proxy().await;
    let placed = proxy.count(moves_low);
    proxy.rule(|asked| {
        if moves_low(asked) {
            Fault::Late(Duration::from_secs(1))
        } else {
            Fault::None
        }
    });
    scene.bare.bind(&of_priority("high", 9, 3)).await;
    eventually("the eviction", async || {
        let begun = proxy.count(moves_low) > placed;
        begun.then_some(()).ok_or("it has not begun")
    })
    .await;
    scene.stop_scheduler().await;
    let low = scene.bare.bindings("default").get("low").await.unwrap();
    assert_eq!(low.spec.graceful_eviction_tasks.len(), 1);
    scene.is_told("low", "Preempted", "default/high").await;
    scene.stop().await;
}
