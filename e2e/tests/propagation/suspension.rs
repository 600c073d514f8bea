//! Tests of suspended dispatching: the copies of a policy are neither changed nor deleted until dispatching resumes.

use berth_e2e::Objects as _;
use berth_e2e::objects::wait_for;
use serde_json::{Value, json};

use crate::fleet::Fleet;
use crate::manifests::{config_map, deployment, divided, policy, with_spec};

/// Dispatching is suspended for one cluster first, and for all clusters later.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn suspended_clusters_get_changes_after_resumption() {
    let fleet = Fleet::start(2).await;
    let (m1, m2) = (&fleet.members[0], &fleet.members[1]);
    let map = config_map("settings");
    fleet.apply(map.clone()).await;
    let suspension =
        json!({ "suspension": { "dispatchingOnClusters": { "clusterNames": ["m1"] } } });
    let placing = with_spec(policy(&map, &["m1", "m2"]), suspension);
    fleet.apply(placing.clone()).await;
    m2.wait_until_exists(&map).await;
    let name = berth_api::names::work_name("ConfigMap", "settings", "default");
    let wait_for_dispatching = async |member: &str, wanted: &str| {
        wait_for(&fleet.works(member), &name, "Dispatching", |work| {
            let conditions = work.status.iter().flat_map(|s| &s.conditions);
            let mut conditions = conditions.filter(|c| c.type_ == "Dispatching");
            conditions.any(|c| c.status == wanted)
        })
        .await
    };
    let work = wait_for_dispatching("m1", "False").await;
    assert_eq!(work.spec.suspend_dispatching, Some(true));
    wait_for_dispatching("m2", "True").await;
    assert_eq!(m1.get(&map).await, None);

    fleet
        .edit(&placing, json!({ "spec": { "suspension": null } }))
        .await;
    m1.wait_until_exists(&map).await;
    wait_for_dispatching("m1", "True").await;

    // Existing objects are not changed while all dispatching is suspended.
    fleet
        .edit(
            &placing,
            json!({ "spec": { "suspension": { "dispatching": true } } }),
        )
        .await;
    wait_for_dispatching("m1", "False").await;
    wait_for_dispatching("m2", "False").await;
    fleet.edit(&map, json!({ "data": { "a": "2" } })).await;
    wait_for(&fleet.works("m1"), &name, "the edit", |work| {
        work.spec.workload.manifests[0]["data"]["a"] == "2"
    })
    .await;
    assert_eq!(m1.get(&map).await.unwrap()["data"]["a"], "1");
    fleet
        .edit(
            &placing,
            json!({ "spec": { "suspension": { "dispatching": false } } }),
        )
        .await;
    for member in [m1, m2] {
        member
            .wait_for(&map, "the edit", |map| map["data"]["a"] == "2")
            .await;
    }
    fleet.stop().await;
}

/// Dispatching to m1 is suspended, and then two workloads leave m1: by a lower number of replicas, and by another
/// placement. The copies and the dependency of one of them stay until dispatching resumes. After a restart, the
/// controllers still observe the copies.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn suspended_copies_stay_when_their_workload_leaves_the_cluster() {
    let mut fleet = Fleet::start(2).await;
    let (mut web, moved, map) = (
        deployment("web", 3),
        deployment("moved", 1),
        config_map("map"),
    );
    let pod = &mut web["spec"]["template"]["spec"];
    pod["volumes"] = json!([{ "name": "map", "configMap": { "name": "map" } }]);
    let scaled_policy = divided(&web, &[("m1", 1), ("m2", 2)]);
    let scaled_policy = with_spec(scaled_policy, json!({ "propagateDeps": true }));
    let moved_policy = policy(&moved, &["m1"]);
    for object in [&map, &web, &moved, &scaled_policy, &moved_policy] {
        fleet.apply(object.clone()).await;
    }
    let (m1, m2) = (&fleet.members[0], &fleet.members[1]);
    let copies = [&web, &moved, &map];
    let mut before = Vec::new();
    for object in copies {
        before.push(m1.wait_until_exists(object).await["metadata"]["uid"].clone());
    }
    for name in ["web-deployment", "moved-deployment"] {
        fleet.wait_for_fully_applied(name, "True").await;
    }
    let suspended = json!({ "spec": { "suspension": {
        "dispatchingOnClusters": { "clusterNames": ["m1"] } } } });
    for placing in [&scaled_policy, &moved_policy] {
        fleet.edit(placing, suspended.clone()).await;
    }
    fleet.edit(&web, json!({ "spec": { "replicas": 1 } })).await;
    let elsewhere = json!({ "placement": { "clusterAffinity": { "clusterNames": ["m2"] } } });
    fleet
        .edit(&moved_policy, json!({ "spec": elsewhere }))
        .await;
    m2.wait_until_exists(&moved).await;
    m2.wait_for(&web, "the new number", |web| web["spec"]["replicas"] == 1)
        .await;
    // The binding has lost m1, and the controllers have handled this change.
    fleet
        .wait_for_fully_applied("web-deployment", "False")
        .await;
    fleet
        .wait_for_fully_applied("moved-deployment", "False")
        .await;
    for (object, uid) in copies.into_iter().zip(&before) {
        assert_eq!(m1.get(object).await.unwrap()["metadata"]["uid"], *uid);
    }
    let work = |object: &Value| {
        let name = object["metadata"]["name"].as_str().unwrap();
        berth_api::names::work_name("Deployment", name, "default")
    };

    // A copy that a user deletes in the member no longer counts.
    fleet.stop_controllers().await;
    fleet.start_controllers();
    let m1 = &fleet.members[0];
    m1.delete(&web).await;
    wait_for(&fleet.works("m1"), &work(&web), "the loss", |work| {
        let mut conditions = work.status.iter().flat_map(|s| &s.conditions);
        conditions.any(|c| {
            c.type_ == "Applied" && c.status == "False" && c.message.contains("resume dispatching")
        })
    })
    .await;
    assert_eq!(m1.get(&web).await, None);

    // When dispatching resumes, the other copy leaves the member. The deletion of a template needs no resumption.
    let resumed = json!({ "spec": { "suspension": null } });
    fleet.edit(&scaled_policy, resumed).await;
    m1.wait_until_gone(&map).await;
    assert!(m1.get(&moved).await.is_some());
    fleet.delete(&moved).await;
    m1.wait_until_gone(&moved).await;
    fleet.stop().await;
}
