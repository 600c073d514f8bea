//! A test of the order of the scheduling queue, with a cluster that has capacity for three of five bindings.

use serde_json::json;

use crate::scene::{Scene, binding, configuration};

/// Checks that the scheduler places the bindings with the highest group priority first, and bindings of equal group
/// priority by the quality-of-service class of their pods.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_queue_is_ordered_by_group_priority_and_quality_of_service() {
    let mut scene = Scene::with_cores(6).await;
    let full = json!({ "limits": { "cpu": "1", "memory": "1Gi" } });
    let half = json!({ "requests": { "cpu": "1" } });
    for (name, priority, resources) in [
        ("a-low", "1", full.clone()),
        ("b-best-effort", "5", json!({})),
        ("c-burstable", "5", half.clone()),
        ("d-guaranteed", "5", full),
    ] {
        let labels = json!({ "groupPriority": priority });
        scene.create_template(name, labels, resources).await;
        scene.bare.bind(&binding(name, 2, json!({}))).await;
    }
    // The label `groupPriority` of a binding overrides the same label of its template.
    scene
        .create_template("e-own", json!({ "groupPriority": "0" }), half)
        .await;
    let own = json!({ "metadata": { "labels": { "groupPriority": "9" } } });
    scene.bare.bind(&binding("e-own", 2, own)).await;
    scene.start_scheduler(&configuration("gangs"));
    for name in ["e-own", "d-guaranteed", "c-burstable"] {
        scene.wait_until_placed(name).await;
    }
    for name in ["a-low", "b-best-effort"] {
        scene.wait_until_unplaced(name, "not enough").await;
    }
    scene.stop().await;
}
