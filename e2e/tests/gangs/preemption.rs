//! A binding that matters more takes the room of those that matter less.

use berth_api::ResourceBinding;
use serde_json::json;

use crate::scene::{Scene, binding};

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
