//! Applications that are sick for too long.

use std::time::Duration;

use berth_api::policy::PurgeMode;
use berth_e2e::eventually::never;
use serde_json::json;

use crate::scene::{Scene, binding, on_one, quick, targets};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sick_application_leaves_as_its_policy_says() {
    let scene = Scene::start(2, quick()).await;
    let policy = |mode: &str| {
        json!({ "application": {
            "decisionConditions": { "tolerationSeconds": 0 }, "purgeMode": mode } })
    };
    for (name, mode, suppressed) in [
        ("graceful", PurgeMode::Gracefully, None),
        ("direct", PurgeMode::Directly, None),
        ("never", PurgeMode::Never, Some(true)),
    ] {
        let failover = policy(mode.as_str());
        scene
            .bare
            .bind(&binding(name, &on_one(&json!([])), &failover))
            .await;
        let old = scene.placed(name).await;
        scene.report(name, &[(&old[0], "Unhealthy")]).await;
        let new = scene.moved(name, &old[0]).await;
        let tasks = scene
            .tasks(name, |tasks| {
                tasks.iter().all(|task| task.creation_timestamp.is_some())
            })
            .await;
        assert_eq!(tasks.len(), 1, "{name}: {tasks:?}");
        assert_eq!(tasks[0].purge_mode, Some(mode), "{name}");
        assert_eq!(tasks[0].suppress_deletion, suppressed, "{name}");
        assert_eq!(tasks[0].reason, "ApplicationFailure");
        assert_eq!(
            tasks[0].producer,
            "resource-binding-application-failover-controller"
        );
        scene.report(name, &[(&new[0], "Healthy")]).await;
        if suppressed.is_none() {
            scene.tasks(name, <[_]>::is_empty).await;
        }
    }
    never(
        "a copy that is to be kept goes",
        Duration::from_millis(300),
        async || {
            let kept = scene.get("never").await.spec.graceful_eviction_tasks.len() == 1;
            if kept {
                Ok(())
            } else {
                Err("the task is gone")
            }
        },
    )
    .await;
    scene.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_recovers_in_time_stays() {
    let scene = Scene::start(2, quick()).await;
    let patient = json!({ "application": { "decisionConditions": { "tolerationSeconds": 2 } } });
    scene
        .bare
        .bind(&binding("web", &on_one(&json!([])), &patient))
        .await;
    let place = scene.placed("web").await;
    scene.report("web", &[(&place[0], "Unhealthy")]).await;
    scene.report("web", &[(&place[0], "Healthy")]).await;
    never(
        "a healthy application leaves",
        Duration::from_secs(4),
        async || {
            let there = targets(&scene.get("web").await) == place;
            if there { Ok(()) } else { Err("it left") }
        },
    )
    .await;
    scene.stop().await;
}
