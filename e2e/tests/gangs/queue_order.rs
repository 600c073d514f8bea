//! Who goes first where there is room for some only.

use serde_json::json;

use crate::scene::{Scene, binding, configuration};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_greater_group_priority_goes_first_and_then_the_better_class() {
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
        scene.template(name, labels, resources).await;
        scene.bare.bind(&binding(name, 2, json!({}))).await;
    }
    // A label of the binding counts before that of its template.
    scene
        .template("e-own", json!({ "groupPriority": "0" }), half)
        .await;
    let own = json!({ "metadata": { "labels": { "groupPriority": "9" } } });
    scene.bare.bind(&binding("e-own", 2, own)).await;
    scene.schedule(&configuration("gangs"));
    for name in ["e-own", "d-guaranteed", "c-burstable"] {
        scene.is_placed(name).await;
    }
    for name in ["a-low", "b-best-effort"] {
        scene.waits(name, "not enough").await;
    }
    scene.stop().await;
}
