//! All members of a gang, or none.

use serde_json::{Value, json};

use crate::scene::{Scene, binding, configuration};

fn gang() -> Value {
    json!({ "metadata": { "labels": { "podGroup": "g", "minAvailable": "3" } } })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gang_is_held_until_its_templates_are_there_and_then_placed() {
    let scene = Scene::start(10, "gangs").await;
    let labels = json!({ "podGroup": "g", "minAvailable": "3" });
    for name in ["w0", "w1"] {
        scene.template(name, labels.clone(), json!({})).await;
        scene.bare.bind(&binding(name, 2, json!({}))).await;
    }
    for name in ["w0", "w1"] {
        scene
            .waits(name, "2 of 3 members of group \"g\" exist")
            .await;
    }
    scene
        .is_told("w1", "ScheduleBindingFailed", "members of group")
        .await;
    // Who belongs to nobody is not held.
    scene.bare.bind(&binding("lone", 1, json!({}))).await;
    scene
        .waits("lone", "its template Deployment lone is not there")
        .await;
    scene.template("lone", json!({}), json!({})).await;
    scene.is_placed("lone").await;
    scene.template("w2", labels, json!({})).await;
    scene.bare.bind(&binding("w2", 2, json!({}))).await;
    for name in ["w0", "w1", "w2"] {
        scene.is_placed(name).await;
    }
    scene.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gang_that_does_not_fit_takes_no_room_and_says_so() {
    let scene = Scene::start(5, "gangs").await;
    let names = ["w0", "w1", "w2"];
    for name in names {
        scene.bare.bind(&binding(name, 2, gang())).await;
    }
    for name in names {
        scene.is_sent_back(name).await;
        scene.is_told(name, "ScheduleBindingFailed", "").await;
    }
    // All of the room is there for another one.
    scene.template("other", json!({}), json!({})).await;
    scene.bare.bind(&binding("other", 5, json!({}))).await;
    scene.is_placed("other").await;
    scene.reports(11, 0).await;
    for name in names {
        scene.is_placed(name).await;
    }
    scene.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_wait_for_each_other_only_so_long() {
    let mut scene = Scene::with_cores(10).await;
    let patience = "permitWaitingTimeSeconds: 30";
    let configuration = configuration("gangs");
    assert!(configuration.contains(patience));
    scene.schedule(&configuration.replace(patience, "permitWaitingTimeSeconds: 1"));
    let mut suspended = gang();
    suspended["spec"] = json!({ "suspension": { "scheduling": true } });
    scene.bare.bind(&binding("w2", 2, suspended)).await;
    for name in ["w0", "w1"] {
        scene.bare.bind(&binding(name, 2, gang())).await;
    }
    // One is out of patience, and takes the other along.
    for name in ["w0", "w1"] {
        scene.waits(name, "while it waited").await;
    }
    scene
        .edit("w2", json!({ "spec": { "suspension": null } }))
        .await;
    for name in ["w0", "w1", "w2"] {
        scene.is_placed(name).await;
    }
    scene.stop().await;
}
