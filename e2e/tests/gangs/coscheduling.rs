//! Gang scheduling with the plugin Coscheduling: the scheduler places all members of a gang, or none of them. A gang is
//! a group of bindings with the same label `podGroup`, on the binding or on its template.

use serde_json::{Value, json};

use crate::scene::{Scene, binding, configuration};

/// Returns the labels of a member of the gang `g`, which needs three members.
fn gang() -> Value {
    json!({ "metadata": { "labels": { "podGroup": "g", "minAvailable": "3" } } })
}

/// Checks that two members of a gang stay unplaced until the third member exists, and that a binding without a gang
/// waits only for its own template.
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
    // A binding without a gang waits only for its own template.
    scene.bare.bind(&binding("lone", 1, json!({}))).await;
    scene
        .wait_until_unplaced("lone", "its template Deployment lone does not exist")
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

/// Checks that a gang without enough capacity reserves none of it. Each member gets a condition and an event, and the
/// gang is placed once it fits.
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
    // The whole capacity of the cluster is still available to another binding.
    scene.create_template("other", json!({}), json!({})).await;
    scene.bare.bind(&binding("other", 5, json!({}))).await;
    scene.wait_until_placed("other").await;
    scene.report_capacity(11, 0).await;
    for name in names {
        scene.wait_until_placed(name).await;
    }
    scene.stop().await;
}

/// Checks that two members of a gang are rejected when the third member does not arrive within the timeout, and that
/// all are placed once the third member arrives.
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
    // The timeout of one member also rejects the other waiting member.
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
