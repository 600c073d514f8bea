//! Failback: bindings return to clusters that are back, and a dry run only reports it.

use std::time::Duration;

use berth_controllers::failover::{FailoverOptions, RebalanceMode, RebalanceOptions};
use serde_json::{Value, json};

use crate::scene::{Scene, binding, fast_options};

fn options(mode: RebalanceMode) -> FailoverOptions {
    FailoverOptions {
        rebalance: Some(RebalanceOptions {
            mode,
            failback_after: Duration::from_millis(100),
            ..RebalanceOptions::default()
        }),
        ..fast_options()
    }
}

/// Returns a placement that prefers m1 to m2.
fn home_and_away() -> Value {
    json!({
        "clusterAffinities": [
            { "affinityName": "home", "clusterNames": ["m1"] },
            { "affinityName": "away", "clusterNames": ["m2"] },
        ],
        "replicaScheduling": { "replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated" },
    })
}

/// Places a binding in m1, and evicts it to m2.
async fn evicted_to_m2(scene: &Scene) {
    for name in ["m1", "m2"] {
        scene.report_ready(name, true).await;
    }
    scene
        .bare
        .bind(&binding("web", &home_and_away(), &json!({})))
        .await;
    assert_eq!(scene.wait_until_placed("web").await, ["m1"]);
    scene
        .taint("m1", &json!([{ "key": "down", "effect": "NoExecute" }]))
        .await;
    assert_eq!(scene.wait_until_moved("web", "m1").await, ["m2"]);
    scene.report("web", &[("m2", "Healthy")]).await;
    scene.wait_for_tasks("web", <[_]>::is_empty).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_binding_returns_when_its_cluster_is_back() {
    let scene = Scene::start(2, options(RebalanceMode::On)).await;
    evicted_to_m2(&scene).await;
    scene.taint("m1", &json!([])).await;
    scene.wait_for_clusters("web", &[("m1", 2)]).await;
    scene
        .wait_for_event(
            "FailbackBindingSucceed",
            "scheduled again: m1 has been back for long enough",
        )
        .await;
    scene
        .wait_for_metric(r#"berth_rebalanced_bindings_total{cause="failback",mode="on"} 1"#)
        .await;
    let annotations = scene
        .get("web")
        .await
        .metadata
        .annotations
        .unwrap_or_default();
    assert!(
        !annotations.contains_key("migration.berth/evicted-from"),
        "{annotations:?}"
    );
    scene.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dry_run_reports_the_return_and_writes_nothing() {
    let scene = Scene::start(2, options(RebalanceMode::DryRun)).await;
    evicted_to_m2(&scene).await;
    let before = scene.get("web").await.spec;
    scene.taint("m1", &json!([])).await;
    scene
        .wait_for_event(
            "RebalanceDryRun",
            "dry run, nothing is written: scheduled again: m1 has been back for long enough",
        )
        .await;
    scene.wait_until_drained_up_to_now().await;
    assert_eq!(scene.get("web").await.spec, before);
    scene.stop().await;
}
