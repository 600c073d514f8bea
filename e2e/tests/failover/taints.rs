//! Taints that evict.

use std::time::Duration;

use berth_api::policy::PurgeMode;
use berth_controllers::failover::FailoverOptions;
use berth_e2e::eventually::never;
use serde_json::json;

use crate::scene::{Scene, binding, on_one, quick, targets};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_does_not_tolerate_a_taint_moves_and_its_old_copy_goes_when_the_new_one_is_healthy() {
    let scene = Scene::start(2, quick()).await;
    scene
        .bare
        .bind(&binding("web", &on_one(&json!([])), &json!({})))
        .await;
    let [old] = &scene.placed("web").await[..] else {
        panic!("it is on one cluster");
    };
    scene
        .taint(old, &json!([{ "key": "down", "effect": "NoExecute" }]))
        .await;
    let new = scene.moved("web", old).await;
    assert_ne!(&new[0], old);

    let tasks = scene
        .tasks("web", |tasks| {
            tasks.iter().any(|task| task.creation_timestamp.is_some())
        })
        .await;
    let [task] = &tasks[..] else {
        panic!("one task: {tasks:?}");
    };
    assert_eq!(&task.from_cluster, old);
    assert_eq!(task.replicas, Some(2));
    assert_eq!(task.purge_mode, Some(PurgeMode::Gracefully));
    assert_eq!(
        (task.reason.as_str(), task.producer.as_str()),
        ("TaintUntolerated", "TaintManager")
    );

    scene.report("web", &[(&new[0], "Unhealthy")]).await;
    never(
        "an old copy goes early",
        Duration::from_millis(500),
        async || {
            let kept = scene.get("web").await.spec.graceful_eviction_tasks.len() == 1;
            if kept {
                Ok(())
            } else {
                Err("the task is gone")
            }
        },
    )
    .await;
    scene.report("web", &[(&new[0], "Healthy")]).await;
    scene.tasks("web", <[_]>::is_empty).await;
    let told = scene.told("EvictWorkloadFromClusterSucceed").await;
    assert_eq!(told[0], format!("Evict from cluster {old} succeed."));
    scene.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_toleration_holds_for_as_long_as_it_says() {
    let scene = Scene::start(2, quick()).await;
    let tolerates = |seconds: Option<i64>| {
        on_one(&json!([{ "key": "down", "operator": "Exists", "tolerationSeconds": seconds }]))
    };
    for (name, seconds) in [
        ("briefly", Some(3)),
        ("forever", None),
        ("long", Some(3600)),
    ] {
        scene
            .bare
            .bind(&binding(name, &tolerates(seconds), &json!({})))
            .await;
    }
    let mut before = Vec::new();
    for name in ["briefly", "forever", "long"] {
        before.push(scene.placed(name).await);
    }
    let now = jiff::Timestamp::now();
    for cluster in ["m1", "m2"] {
        // Only the one cluster where `briefly` is repels it, so that it has somewhere to go.
        let effect = if before[0][0] == cluster {
            "NoExecute"
        } else {
            "PreferNoSchedule"
        };
        let taint = json!([{ "key": "down", "effect": effect, "timeAdded": now }]);
        scene.taint(cluster, &taint).await;
    }
    scene.moved("briefly", &before[0][0]).await;
    let waited = jiff::Timestamp::now().duration_since(now);
    assert!(
        waited.as_secs() >= 2,
        "it tolerates that for 3 s: {waited:?}"
    );
    for (name, before) in [("forever", &before[1]), ("long", &before[2])] {
        assert_eq!(&targets(&scene.get(name).await), before, "{name}");
    }
    scene.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn as_in_karmada_nothing_is_evicted_unasked() {
    let mut scene = Scene::start(2, FailoverOptions::default()).await;
    scene
        .bare
        .bind(&binding("web", &on_one(&json!([])), &json!({})))
        .await;
    let old = scene.placed("web").await;
    scene
        .taint(&old[0], &json!([{ "key": "down", "effect": "NoExecute" }]))
        .await;
    never("an eviction", Duration::from_millis(500), async || {
        let there = targets(&scene.get("web").await) == old;
        if there { Ok(()) } else { Err("it left") }
    })
    .await;
    // What is there when it starts counts as well.
    scene.restart(quick()).await;
    scene.moved("web", &old[0]).await;
    scene.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_of_others_are_drained_by_hand_or_by_time() {
    let scene = Scene::start(2, quick()).await;
    let mut web = binding("web", &on_one(&json!([])), &json!({}));
    let task = |cluster: &str, more: serde_json::Value| {
        let mut task = json!({ "fromCluster": cluster, "reason": "Manual", "producer": "me" });
        for (field, value) in more.as_object().unwrap() {
            task[field] = value.clone();
        }
        serde_json::from_value(task).unwrap()
    };
    web.spec.graceful_eviction_tasks = vec![
        task("gone", json!({ "suppressDeletion": false })),
        task("kept", json!({ "suppressDeletion": true })),
        task("brief", json!({ "gracePeriodSeconds": 1 })),
    ];
    scene.bare.bind(&web).await;
    let left = scene.tasks("web", |tasks| tasks.len() == 1).await;
    assert_eq!(left[0].from_cluster, "kept");
    scene.stop().await;
}
