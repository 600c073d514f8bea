//! Gang scheduling: all members of a gang are placed, or none.

use serde_json::{Value, json};

use crate::scene::{Scene, binding, configuration};

fn gang() -> Value {
    json!({ "metadata": { "labels": { "podGroup": "g", "minAvailable": "3" } } })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gang_waits_until_all_its_templates_exist() {
    let scene = Scene::start(10, "gangs").await;
    let labels = json!({ "podGroup": "g", "minAvailable": "3" });
    for name in ["w0", "w1"] {
        scene.create_template(name, labels.clone(), json!({})).await;
        scene.bare.bind(&binding(name, 2, json!({}))).await;
    }
    for name in ["w0", "w1"] {
        scene
            .wait_until_unplaced(name, "2 of 3 members of group \"g\" exist")
            .await;
    }
    scene
        .wait_for_event("w1", "ScheduleBindingFailed", "members of group")
        .await;
    // A binding without a gang waits for its template only.
    scene.bare.bind(&binding("lone", 1, json!({}))).await;
    scene
        .wait_until_unplaced("lone", "its template Deployment lone is not there")
        .await;
    scene.create_template("lone", json!({}), json!({})).await;
    scene.wait_until_placed("lone").await;
    scene.create_template("w2", labels, json!({})).await;
    scene.bare.bind(&binding("w2", 2, json!({}))).await;
    for name in ["w0", "w1", "w2"] {
        scene.wait_until_placed(name).await;
    }
    scene.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gang_that_does_not_fit_reserves_nothing_and_reports_it() {
    let scene = Scene::start(5, "gangs").await;
    let names = ["w0", "w1", "w2"];
    for name in names {
        scene.bare.bind(&binding(name, 2, gang())).await;
    }
    for name in names {
        scene.wait_until_rejected(name).await;
        scene
            .wait_for_event(name, "ScheduleBindingFailed", "")
            .await;
    }
    // The whole capacity is available to another binding.
    scene.create_template("other", json!({}), json!({})).await;
    scene.bare.bind(&binding("other", 5, json!({}))).await;
    scene.wait_until_placed("other").await;
    scene.report_capacity(11, 0).await;
    for name in names {
        scene.wait_until_placed(name).await;
    }
    scene.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_of_a_gang_wait_until_a_timeout() {
    let mut scene = Scene::with_cores(10).await;
    let timeout = "permitWaitingTimeSeconds: 30";
    let configuration = configuration("gangs");
    assert!(configuration.contains(timeout));
    scene.start_scheduler(&configuration.replace(timeout, "permitWaitingTimeSeconds: 1"));
    let mut suspended = gang();
    suspended["spec"] = json!({ "suspension": { "scheduling": true } });
    scene.bare.bind(&binding("w2", 2, suspended)).await;
    for name in ["w0", "w1"] {
        scene.bare.bind(&binding(name, 2, gang())).await;
    }
    // The first timeout rejects the other member, too.
    for name in ["w0", "w1"] {
        scene.wait_until_unplaced(name, "while it waited").await;
    }
    scene
        .edit("w2", json!({ "spec": { "suspension": null } }))
        .await;
    for name in ["w0", "w1", "w2"] {
        scene.wait_until_placed(name).await;
    }
    scene.stop().await;
}
