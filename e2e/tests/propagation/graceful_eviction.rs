//! Tests of graceful eviction tasks. After a binding has moved to another cluster, the task decides when the object is
//! deleted from the old cluster.

use berth_controllers::failover::{self, FailoverOptions, TaintEviction};
use berth_controllers::monitor::Monitor;
use berth_e2e::Objects as _;
use berth_e2e::objects::wait_for;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::fleet::Fleet;
use crate::manifests::{config_map, deployment, policy, with_spec};

/// Moves a binding from m1 to m2 and adds an eviction task, as a failover does. Suspends scheduling, so that the
/// scheduler does not change the result.
async fn move_with_task(fleet: &Fleet, purge_mode: &str) {
    let task = json!({ "fromCluster": "m1", "purgeMode": purge_mode, "reason": "Test", "producer": "Test" });
    let spec = json!({ "clusters": [{ "name": "m2", "replicas": 1 }],
        "suspension": { "scheduling": true }, "gracefulEvictionTasks": [task] });
    fleet
        .bindings()
        .patch(
            "web-deployment",
            &PatchParams::default(),
            &Patch::Merge(json!({ "spec": spec })),
        )
        .await
        .unwrap();
}

/// Propagates a Deployment to m1.
async fn deployment_in_m1(fleet: &Fleet) -> Value {
    let web = deployment("web", 1);
    fleet.apply(web.clone()).await;
    fleet.apply(policy(&web, &["m1"])).await;
    fleet.members[0].wait_until_exists(&web).await;
    fleet.wait_for_fully_applied("web-deployment", "True").await;
    web
}

/// With the purge mode `Gracefully`, both members have the object until the task is removed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_old_copy_is_kept_until_the_eviction_task_is_removed() {
    let fleet = Fleet::start(2).await;
    let (m1, m2) = (&fleet.members[0], &fleet.members[1]);
    let web = deployment_in_m1(&fleet).await;
    move_with_task(&fleet, "Gracefully").await;
    m2.wait_until_exists(&web).await;
    let bindings = fleet.bindings();
    let both_report = wait_for(&bindings, "web-deployment", "both report", |binding| {
        let status = binding.status.as_ref();
        status.is_some_and(|status| status.aggregated_status.len() == 2)
    });
    both_report.await;
    fleet.wait_for_fully_applied("web-deployment", "True").await;
    assert!(m1.get(&web).await.is_some());
    fleet
        .bindings()
        .patch(
            "web-deployment",
            &PatchParams::default(),
            &Patch::Merge(json!({ "spec": { "gracefulEvictionTasks": null } })),
        )
        .await
        .unwrap();
    m1.wait_until_gone(&web).await;
    assert!(m2.get(&web).await.is_some());
    fleet.stop().await;
}

/// With the purge mode `Directly`, m2 gets the object after it is deleted in m1.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_direct_purge_removes_the_old_copy_before_creating_the_new_one() {
    let fleet = Fleet::start(2).await;
    let (m1, m2) = (&fleet.members[0], &fleet.members[1]);
    let web = deployment_in_m1(&fleet).await;
    // The old copy cannot be removed while its member is not ready.
    fleet.report_ready("m1", false).await;
    move_with_task(&fleet, "Directly").await;
    let name = berth_api::names::work_name("Deployment", "web", "default");
    wait_for(&fleet.works("m1"), &name, "deletion", |work| {
        work.metadata.deletion_timestamp.is_some()
    })
    .await;
    assert!(m1.get(&web).await.is_some());
    assert_eq!(m2.get(&web).await, None);
    fleet.report_ready("m1", true).await;
    m1.wait_until_gone(&web).await;
    m2.wait_until_exists(&web).await;
    fleet.stop().await;
}

/// With the purge mode `Directly`, m2 gets the object after finalizers in m1 have released it. A deleted template also
/// waits for its copy, but not for a copy in a Cluster that is being deleted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_object_that_is_still_being_deleted_counts_as_a_copy() {
    let fleet = Fleet::start(2).await;
    let (m1, m2) = (&fleet.members[0], &fleet.members[1]);
    let web = deployment_in_m1(&fleet).await;
    let held = json!({ "metadata": { "finalizers": ["example.com/hold"] } });
    let released = json!({ "metadata": { "finalizers": null } });
    m1.edit(&web, held.clone()).await;
    move_with_task(&fleet, "Directly").await;
    let is_deleting = |web: &Value| web["metadata"]["deletionTimestamp"].is_string();
    m1.wait_for(&web, "the requested deletion", is_deleting)
        .await;
    // An object that was propagated later exists in m2, so the controllers had the time to create the copy there.
    let marker = config_map("marker");
    fleet.apply(marker.clone()).await;
    fleet.apply(policy(&marker, &["m2"])).await;
    m2.wait_until_exists(&marker).await;
    assert_eq!(m2.get(&web).await, None);
    m1.edit(&web, released.clone()).await;
    m2.wait_until_exists(&web).await;

    m2.edit(&web, held).await;
    fleet.delete(&web).await;
    m2.wait_for(&web, "the requested deletion", is_deleting)
        .await;
    let work = berth_api::names::work_name("Deployment", "web", "default");
    assert!(fleet.works("m2").get(&work).await.is_ok());
    let bindings = fleet.bindings();
    assert!(bindings.get("web-deployment").await.is_ok());
    let cluster = json!({ "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster",
        "metadata": { "name": "m2" } });
    let kept = json!({ "metadata": { "finalizers": ["example.com/hold"] } });
    fleet.edit(&cluster, kept).await;
    fleet.delete(&cluster).await;
    berth_e2e::eventually("deletion of the binding and the Work", async || {
        let binding = bindings.get_opt("web-deployment").await.unwrap();
        let work = fleet.works("m2").get_opt(&work).await.unwrap();
        if binding.is_none() && work.is_none() {
            Ok(())
        } else {
            Err(format!("{binding:?} {work:?}"))
        }
    })
    .await;
    assert!(m2.get(&web).await.is_some());
    m2.edit(&web, released).await;
    fleet.stop().await;
}

/// The only cluster of a Deployment has a taint for a while. The copy and its dependency are never deleted, and edits
/// reach the copy again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancelled_eviction_deletes_no_object() {
    let fleet = Fleet::start(1).await;
    let m1 = &fleet.members[0];
    let cancel = CancellationToken::new();
    let options = FailoverOptions {
        taint_eviction: Some(TaintEviction {
            rate: 1000.0,
            ..TaintEviction::default()
        }),
        ..FailoverOptions::default()
    };
    let (client, token) = (fleet.client.clone(), cancel.clone());
    let failover = tokio::spawn(failover::run(client, options, Monitor::default(), token));
    let (mut web, map) = (deployment("web", 1), config_map("settings"));
    let pod = &mut web["spec"]["template"]["spec"];
    pod["volumes"] = json!([{ "name": "settings", "configMap": { "name": "settings" } }]);
    let placing = with_spec(policy(&web, &["m1"]), json!({ "propagateDeps": true }));
    for object in [&map, &web, &placing] {
        fleet.apply(object.clone()).await;
    }
    let mut before = Vec::new();
    for object in [&web, &map] {
        before.push(m1.wait_until_exists(object).await["metadata"]["uid"].clone());
    }
    let cluster = json!({ "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster",
        "metadata": { "name": "m1" } });
    let taints = json!([{ "key": "down", "effect": "NoExecute" }]);
    fleet
        .edit(&cluster, json!({ "spec": { "taints": taints } }))
        .await;
    let bindings = fleet.bindings();
    wait_for(&bindings, "web-deployment", "eviction", |binding| {
        binding.spec.clusters.is_empty() && !binding.spec.graceful_eviction_tasks.is_empty()
    })
    .await;
    fleet.edit(&web, json!({ "spec": { "replicas": 2 } })).await;
    // An edit of the dependency still reaches the member, so its copy has not been deleted.
    fleet.edit(&map, json!({ "data": { "a": "2" } })).await;
    m1.wait_for(&map, "the edit", |map| map["data"]["a"] == "2")
        .await;
    fleet
        .edit(&cluster, json!({ "spec": { "taints": null } }))
        .await;
    m1.wait_for(&web, "the edit", |web| web["spec"]["replicas"] == 2)
        .await;
    let binding = bindings.get("web-deployment").await.unwrap();
    assert_eq!(binding.spec.graceful_eviction_tasks, []);
    for (object, uid) in [&web, &map].into_iter().zip(&before) {
        assert_eq!(m1.get(object).await.unwrap()["metadata"]["uid"], *uid);
    }
    cancel.cancel();
    failover.await.unwrap().unwrap();
    fleet.stop().await;
}
