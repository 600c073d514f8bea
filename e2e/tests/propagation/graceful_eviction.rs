//! Tests of graceful eviction tasks. After a binding has moved to another cluster, the task decides when the object is
//! deleted from the old cluster.

use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::fleet::Fleet;
use crate::manifests::{deployment, policy};

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
    let both_report = fleet.wait_for_typed(&bindings, "web-deployment", "both report", |binding| {
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
    fleet
        .wait_for_typed(&fleet.works("m1"), &name, "deletion", |work| {
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
