//! Evictions whose cause ends before the copies have moved: they are cancelled, and no copy is deleted. A continuing
//! eviction ignores the reports of members that are not ready.

use berth_api::binding::GracefulEvictionTask;
use serde_json::{Value, json};

use crate::scene::{Scene, binding, fast_options};

fn down() -> Value {
    json!([{ "key": "down", "effect": "NoExecute" }])
}

fn only(clusters: &[&str]) -> Value {
    json!({ "clusterAffinity": { "clusterNames": clusters } })
}

fn divided(clusters: &[&str]) -> Value {
    let mut placement = only(clusters);
    placement["replicaScheduling"] = json!({ "replicaSchedulingType": "Divided",
        "replicaDivisionPreference": "Weighted" });
    placement
}

fn from_clusters(tasks: &[GracefulEvictionTask]) -> Vec<&str> {
    tasks
        .iter()
        .map(|task| task.from_cluster.as_str())
        .collect()
}

/// Both clusters lose their workloads and come back. One of them comes back while failover is restarted, and the
/// workloads are scaled meanwhile. The copies stay where they are.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workloads_stay_in_clusters_that_recover() {
    let mut scene = Scene::start(2, fast_options()).await;
    for (name, placement) in [
        ("only", only(&["m1"])),
        ("both", only(&["m1", "m2"])),
        ("parts", divided(&["m1", "m2"])),
    ] {
        scene
            .bare
            .bind(&binding(name, &placement, &json!({})))
            .await;
        scene.wait_until_placed(name).await;
    }
    for cluster in ["m1", "m2"] {
        scene.taint(cluster, &down()).await;
    }
    for (name, tasks) in [("only", 1), ("both", 2), ("parts", 2)] {
        scene.wait_for_tasks(name, |all| all.len() == tasks).await;
    }
    scene.scale("only", 3).await;
    scene.stop_failover().await;
    scene.taint("m1", &json!([])).await;
    scene.restart(fast_options()).await;
    scene.wait_for_tasks("only", <[_]>::is_empty).await;
    for name in ["both", "parts"] {
        scene
            .wait_for_tasks(name, |tasks| from_clusters(tasks) == ["m2"])
            .await;
    }
    // The scheduler may have assigned the missing replicas to m1 meanwhile. They are not running yet.
    scene.report("parts", &[("m1", "Unhealthy")]).await;
    scene.taint("m2", &json!([])).await;
    for name in ["both", "parts"] {
        scene.wait_for_tasks(name, <[_]>::is_empty).await;
    }
    let message = "Evict from cluster m2 cancelled: its cause has ended.";
    scene
        .wait_for_event("EvictWorkloadFromClusterCancelled", message)
        .await;
    // The scheduler assigns the replicas that were added meanwhile.
    scene.wait_for_clusters("only", &[("m1", 3)]).await;
    scene
        .wait_for_clusters("both", &[("m1", 2), ("m2", 2)])
        .await;
    scene
        .wait_for_clusters("parts", &[("m1", 1), ("m2", 1)])
        .await;
    scene.stop().await;
}

/// The replicas of m1 are assigned to m2, but m2 cannot start them. After the end of the taint, m1 has its replicas
/// again and gets a share of new replicas.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unfinished_move_is_undone_and_new_replicas_use_the_cluster_again() {
    let scene = Scene::start(2, fast_options()).await;
    let web = binding("web", &divided(&["m1", "m2"]), &json!({}));
    scene.bare.bind(&web).await;
    scene
        .wait_for_clusters("web", &[("m1", 1), ("m2", 1)])
        .await;
    scene.taint("m1", &down()).await;
    scene.wait_for_clusters("web", &[("m2", 2)]).await;
    scene
        .report("web", &[("m1", "Unhealthy"), ("m2", "Unhealthy")])
        .await;
    scene.taint("m1", &json!([])).await;
    scene.wait_for_tasks("web", <[_]>::is_empty).await;
    scene
        .wait_for_clusters("web", &[("m1", 1), ("m2", 1)])
        .await;
    scene.scale("web", 6).await;
    scene
        .wait_for_clusters("web", &[("m1", 3), ("m2", 3)])
        .await;
    scene.stop().await;
}

/// The only live copy is in m1. The last report of m2, which is not ready, does not end the eviction from m1.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_report_of_an_unreachable_member_ends_no_eviction() {
    let scene = Scene::start(2, fast_options()).await;
    scene
        .bare
        .bind(&binding("web", &only(&["m1", "m2"]), &json!({})))
        .await;
    scene
        .wait_for_clusters("web", &[("m1", 2), ("m2", 2)])
        .await;
    scene
        .report("web", &[("m1", "Healthy"), ("m2", "Healthy")])
        .await;
    scene.report_ready("m2", false).await;
    scene.taint("m1", &down()).await;
    scene
        .wait_for_tasks("web", |tasks| {
            from_clusters(tasks) == ["m1"] && tasks[0].creation_timestamp.is_some()
        })
        .await;
    scene.wait_for_clusters("web", &[("m2", 2)]).await;
    // The report from before the outage does not count either. A new report does.
    scene.report_ready("m2", true).await;
    scene.wait_until_drained_up_to_now().await;
    let tasks = scene.get("web").await.spec.graceful_eviction_tasks;
    assert_eq!(from_clusters(&tasks), ["m1"]);
    scene.report("web", &[("m2", "Unknown")]).await;
    scene.report("web", &[("m2", "Healthy")]).await;
    scene.wait_for_tasks("web", <[_]>::is_empty).await;
    scene.stop().await;
}
