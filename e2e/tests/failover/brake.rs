//! The brake: evictions stop while too many clusters are lost at the same time.

use std::time::Duration;

use berth_api::condition;
use berth_api::well_known::CONDITION_EVICTIONS_PAUSED;
use berth_controllers::failover::FailoverOptions;
use berth_e2e::objects::wait_for;
use serde_json::json;

use crate::scene::{Scene, binding, fast_options, targets};

/// Waits until a cluster has the condition that evictions are paused, or has it no longer.
async fn wait_for_condition(scene: &Scene, cluster: &str, is_paused: bool) -> String {
    let what = format!("{CONDITION_EVICTIONS_PAUSED}={is_paused}");
    let clusters = scene.bare.clusters();
    let found = wait_for(&clusters, cluster, &what, |cluster| {
        let conditions = cluster.status.as_ref().map(|status| &status.conditions[..]);
        condition::is_true(conditions.unwrap_or_default(), CONDITION_EVICTIONS_PAUSED) == is_paused
    });
    let conditions = found.await.status.unwrap_or_default().conditions;
    let found = condition::find(&conditions, CONDITION_EVICTIONS_PAUSED);
    found.map_or_else(String::new, |condition| condition.message.clone())
}

/// Checks that a minority of lost clusters does not engage the brake of a starting process, although the first Clusters that
/// it sees are all lost, and that nothing is braked without evictions by taints.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_brake_knows_all_clusters_before_it_is_engaged() {
    let mut scene = Scene::start(8, fast_options()).await;
    let lost = ["m1", "m2", "m3"];
    for name in lost {
        scene.report_ready(name, false).await;
    }
    // Once engaged, this brake would not be released.
    let mut options = fast_options();
    options.brake.hold = Duration::from_hours(1);
    scene.restart(options).await;
    scene.wait_until_drained_up_to_now().await;
    scene.wait_for_metric("berth_evictions_paused 0").await;
    for name in lost {
        wait_for_condition(&scene, name, false).await;
    }

    for name in ["m4", "m5", "m6", "m7", "m8"] {
        scene.report_ready(name, false).await;
    }
    scene.wait_for_metric("berth_evictions_paused 1").await;
    wait_for_condition(&scene, "m8", true).await;
    scene.restart(FailoverOptions::default()).await;
    wait_for_condition(&scene, "m8", false).await;
    scene.wait_for_metric("berth_evictions_paused 0").await;
    scene.stop().await;
}

/// Checks that three of five clusters that are lost at the same time keep their bindings, that a cluster that is ready does
/// not, and that the evictions go on when one cluster is back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn evictions_stop_while_most_clusters_are_not_ready() {
    let mut options = fast_options();
    options.brake.hold = Duration::from_millis(100);
    let scene = Scene::start(5, options).await;
    let names = ["m1", "m2", "m3", "m4"];
    for name in names {
        let only = json!({ "clusterAffinity": { "clusterNames": [name, "m5"] },
            "spreadConstraints": [{ "spreadByField": "cluster", "maxGroups": 1, "minGroups": 1 }],
            "replicaScheduling": { "replicaSchedulingType": "Divided",
                "replicaDivisionPreference": "Aggregated" } });
        scene.bare.bind(&binding(name, &only, &json!({}))).await;
    }
    for name in names {
        assert_eq!(scene.wait_until_placed(name).await, [name]);
    }
    for name in ["m1", "m2", "m3"] {
        scene.report_ready(name, false).await;
    }
    scene.wait_for_metric("berth_evictions_paused 1").await;
    let message = wait_for_condition(&scene, "m1", true).await;
    assert!(
        message.starts_with("3 of 5 clusters became not ready within a minute"),
        "{message}"
    );

    let down = json!([{ "key": "down", "effect": "NoExecute" }]);
    for name in names {
        scene.taint(name, &down).await;
    }
    // m4 is ready: its taint is no sign of a lost connection.
    assert_eq!(scene.wait_until_moved("m4", "m4").await, ["m5"]);
    scene.wait_until_drained_up_to_now().await;
    for name in ["m1", "m2", "m3"] {
        assert_eq!(targets(&scene.get(name).await), [name]);
    }

    scene.report_ready("m3", true).await;
    assert_eq!(scene.wait_until_moved("m1", "m1").await, ["m5"]);
    scene.wait_for_metric("berth_evictions_paused 0").await;
    wait_for_condition(&scene, "m1", false).await;
    scene.stop().await;
}
