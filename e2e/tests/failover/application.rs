//! Applications that are sick for too long.

use std::time::Duration;

use berth_api::policy::PurgeMode;
use berth_controllers::failover::FailoverOptions;
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sick_application_leaves_with_its_state_or_not_at_all() {
    let options = FailoverOptions {
        state_preservation: true,
        ..quick()
    };
    let scene = Scene::start(2, options).await;
    let failover = json!({ "application": {
        "decisionConditions": { "tolerationSeconds": 0 }, "purgeMode": "Directly",
        "statePreservation": { "rules": [{ "aliasLabelName": "count", "jsonPath": "{.replicas}" }] } } });
    scene
        .bare
        .bind(&binding("web", &on_one(&json!([])), &failover))
        .await;
    let old = scene.placed("web").await;
    scene.report("web", &[(&old[0], "Unhealthy")]).await;
    let told = scene.told("EvictWorkloadFromClusterFailed").await;
    let expected = format!(
        "Evict from cluster {0} failed: the application status has not yet been collected from Cluster({0})",
        old[0]
    );
    assert_eq!(told[0], expected);
    assert_eq!(targets(&scene.get("web").await), old);

    let item = json!({ "clusterName": old[0], "health": "Unhealthy", "status": { "replicas": 2 } });
    scene.report_items("web", &json!([item])).await;
    scene.moved("web", &old[0]).await;
    let tasks = scene.tasks("web", |tasks| tasks.len() == 1).await;
    assert_eq!(
        json!(tasks[0].preserved_label_state),
        json!({ "count": "2" })
    );
    assert_eq!(tasks[0].clusters_before_failover, old);
    scene.stop().await;
}
