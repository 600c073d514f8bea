//! Evictions from clusters with `NoExecute` taints, and the removal of graceful eviction tasks.

use berth_api::policy::PurgeMode;
use berth_controllers::failover::FailoverOptions;
use serde_json::json;

use crate::scene::{Scene, binding, fast_options, one_cluster, targets};

/// Checks that a taint evicts a binding without a toleration, and that the eviction task, which keeps the resource in
/// the old cluster, stays until the resource is healthy in the new cluster.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn untolerated_taints_evict_and_the_old_copy_stays_until_the_new_one_is_healthy() {
    let scene = Scene::start(2, fast_options()).await;
    scene
        .bare
        .bind(&binding("web", &one_cluster(&json!([])), &json!({})))
        .await;
    let [old] = &scene.wait_until_placed("web").await[..] else {
        panic!("the binding must be on exactly one cluster");
    };
    scene
        .taint(old, &json!([{ "key": "down", "effect": "NoExecute" }]))
        .await;
    let new = scene.wait_until_moved("web", old).await;
    assert_ne!(&new[0], old);

    let tasks = scene
        .wait_for_tasks("web", |tasks| {
            tasks.iter().any(|task| task.creation_timestamp.is_some())
        })
        .await;
    let [task] = &tasks[..] else {
        panic!("the binding must have exactly one eviction task: {tasks:?}");
    };
    assert_eq!(&task.from_cluster, old);
    assert_eq!(task.replicas, Some(2));
    assert_eq!(task.purge_mode, Some(PurgeMode::Gracefully));
    assert_eq!(
        (task.reason.as_str(), task.producer.as_str()),
        ("TaintUntolerated", "TaintManager")
    );

    scene.report("web", &[(&new[0], "Unhealthy")]).await;
    scene.wait_until_drained_up_to_now().await;
    let tasks = scene.get("web").await.spec.graceful_eviction_tasks;
    assert_eq!(
        tasks.len(),
        1,
        "the task must stay while the resource is unhealthy in the new cluster"
    );
    scene.report("web", &[(&new[0], "Healthy")]).await;
    scene.wait_for_tasks("web", <[_]>::is_empty).await;
    let message = format!("Evict from cluster {old} succeed.");
    scene
        .wait_for_event("EvictWorkloadFromClusterSucceed", &message)
        .await;
    scene.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tolerations_delay_evictions_by_their_toleration_seconds() {
    let scene = Scene::start(2, fast_options()).await;
    let tolerates = |seconds: Option<i64>| {
        one_cluster(&json!([{ "key": "down", "operator": "Exists", "tolerationSeconds": seconds }]))
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
        before.push(scene.wait_until_placed(name).await);
    }
    let now = jiff::Timestamp::now();
    for cluster in ["m1", "m2"] {
        // Only the taint of the cluster of `briefly` evicts bindings. The other cluster remains available.
        let effect = if before[0][0] == cluster {
            "NoExecute"
        } else {
            "PreferNoSchedule"
        };
        let taint = json!([{ "key": "down", "effect": effect, "timeAdded": now }]);
        scene.taint(cluster, &taint).await;
    }
    scene.wait_until_moved("briefly", &before[0][0]).await;
    let waited = jiff::Timestamp::now().duration_since(now);
    assert!(
        waited.as_secs() >= 2,
        "evicted after {waited:?} although tolerated for 3 s"
    );
    for (name, before) in [("forever", &before[1]), ("long", &before[2])] {
        assert_eq!(&targets(&scene.get(name).await), before, "{name}");
    }
    scene.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn taints_do_not_evict_unless_taint_eviction_is_enabled() {
    let mut scene = Scene::start(2, FailoverOptions::default()).await;
    scene
        .bare
        .bind(&binding("web", &one_cluster(&json!([])), &json!({})))
        .await;
    let old = scene.wait_until_placed("web").await;
    scene
        .taint(&old[0], &json!([{ "key": "down", "effect": "NoExecute" }]))
        .await;
    // Restart failover: it lists the taints of all clusters before it handles bindings, so it knows this taint when it
    // handles the marker binding.
    scene.restart(FailoverOptions::default()).await;
    scene.wait_until_drained_up_to_now().await;
    assert_eq!(targets(&scene.get("web").await), old);
    // Failover also handles taints that exist at its start.
    scene.restart(fast_options()).await;
    scene.wait_until_moved("web", &old[0]).await;
    scene.stop().await;
}

/// Checks that failover removes an eviction task of a user if `suppressDeletion` is false or the grace period of the
/// task has ended. A task with `suppressDeletion: true` stays.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn eviction_tasks_of_users_are_removed_on_request_or_after_their_grace_period() {
    let scene = Scene::start(2, fast_options()).await;
    let mut web = binding("web", &one_cluster(&json!([])), &json!({}));
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
    let left = scene.wait_for_tasks("web", |tasks| tasks.len() == 1).await;
    assert_eq!(left[0].from_cluster, "kept");
    scene.stop().await;
}
