//! Application failover: the failover controllers move a binding away from a cluster in which its resource stays
//! unhealthy.

use berth_api::policy::PurgeMode;
use berth_controllers::failover::FailoverOptions;
use serde_json::json;

use crate::scene::{Scene, binding, fast_options, one_cluster, targets};

/// Checks that an unhealthy application moves to another cluster, and that its eviction task has the purge mode of the
/// policy. With the mode `Never`, the task stays, so that the resource stays in the old cluster.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unhealthy_applications_move_with_the_purge_mode_of_their_policy() {
    let scene = Scene::start(2, fast_options()).await;
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
            .bind(&binding(name, &one_cluster(&json!([])), &failover))
            .await;
        let old = scene.wait_until_placed(name).await;
        scene.report(name, &[(&old[0], "Unhealthy")]).await;
        let new = scene.wait_until_moved(name, &old[0]).await;
        let tasks = scene
            .wait_for_tasks(name, |tasks| {
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
            scene.wait_for_tasks(name, <[_]>::is_empty).await;
        }
    }
    scene.wait_until_drained_up_to_now().await;
    let tasks = scene.get("never").await.spec.graceful_eviction_tasks;
    assert_eq!(
        tasks.len(),
        1,
        "an eviction task with the purge mode Never must stay"
    );
    scene.stop().await;
}

/// Checks that an application that is healthy again before its toleration ends stays in its cluster.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_application_that_recovers_in_time_is_not_moved() {
    let scene = Scene::start(2, fast_options()).await;
    let tolerant = json!({ "application": { "decisionConditions": { "tolerationSeconds": 2 } } });
    let mut placed = Vec::new();
    for name in ["web", "marker"] {
        let binding = binding(name, &one_cluster(&json!([])), &tolerant);
        scene.bare.bind(&binding).await;
        placed.push(scene.wait_until_placed(name).await);
    }
    let (web, marker) = (&placed[0], &placed[1][0]);
    scene.report("web", &[(&web[0], "Unhealthy")]).await;
    scene.report("web", &[(&web[0], "Healthy")]).await;
    // The application `marker` fails later than `web`. When `marker` has moved, the toleration of `web` has ended too.
    scene.report("marker", &[(marker, "Unhealthy")]).await;
    scene.wait_until_moved("marker", marker).await;
    assert_eq!(&targets(&scene.get("web").await), web);
    scene.stop().await;
}

/// Checks that an application with state preservation stays in its cluster until its status is collected, and that the
/// eviction task then contains the preserved state.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unhealthy_application_moves_only_with_its_preserved_state() {
    let options = FailoverOptions {
        state_preservation: true,
        ..fast_options()
    };
    let scene = Scene::start(2, options).await;
    let failover = json!({ "application": {
        "decisionConditions": { "tolerationSeconds": 0 }, "purgeMode": "Directly",
        "statePreservation": { "rules": [{ "aliasLabelName": "count", "jsonPath": "{.replicas}" }] } } });
    scene
        .bare
        .bind(&binding("web", &one_cluster(&json!([])), &failover))
        .await;
    let old = scene.wait_until_placed("web").await;
    scene.report("web", &[(&old[0], "Unhealthy")]).await;
    let expected = format!(
        "Evict from cluster {0} failed: the application status has not yet been collected from Cluster({0})",
        old[0]
    );
    scene
        .wait_for_event("EvictWorkloadFromClusterFailed", &expected)
        .await;
    assert_eq!(targets(&scene.get("web").await), old);

    let item = json!({ "clusterName": old[0], "health": "Unhealthy", "status": { "replicas": 2 } });
    scene.report_items("web", &json!([item])).await;
    scene.wait_until_moved("web", &old[0]).await;
    let tasks = scene.wait_for_tasks("web", |tasks| tasks.len() == 1).await;
    assert_eq!(
        json!(tasks[0].preserved_label_state),
        json!({ "count": "2" })
    );
    assert_eq!(tasks[0].clusters_before_failover, old);
    scene.stop().await;
}
