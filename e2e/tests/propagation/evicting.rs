//! Clusters that a resource is leaving.

use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::fleet::Fleet;
use crate::manifests::{deployment, policy};

/// Moves a binding from m1 to m2 with an eviction task, as a failover would; no scheduler interferes.
async fn moving(fleet: &Fleet, purge_mode: &str) {
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

async fn placed(fleet: &Fleet) -> Value {
    let web = deployment("web", 1);
    fleet.apply(web.clone()).await;
    fleet.apply(policy(&web, &["m1"])).await;
    fleet.members[0].has(&web).await;
    fleet.until_fully_applied("web-deployment", "True").await;
    web
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_old_copy_stays_until_the_task_is_done() {
    let fleet = Fleet::start(2).await;
    let (m1, m2) = (&fleet.members[0], &fleet.members[1]);
    let web = placed(&fleet).await;
    moving(&fleet, "Gracefully").await;
    m2.has(&web).await;
    let bindings = fleet.bindings();
    let both = fleet.until_typed(&bindings, "web-deployment", "both report", |binding| {
        let status = binding.status.as_ref();
        status.is_some_and(|status| status.aggregated_status.len() == 2)
    });
    both.await;
    fleet.until_fully_applied("web-deployment", "True").await;
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
    m1.lacks(&web).await;
    assert!(m2.get(&web).await.is_some());
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_direct_move_is_out_of_the_old_cluster_before_it_is_in_the_new_one() {
    let fleet = Fleet::start(2).await;
    let (m1, m2) = (&fleet.members[0], &fleet.members[1]);
    let web = placed(&fleet).await;
    // The old copy cannot be removed as long as its member does not answer.
    fleet.report_ready("m1", false).await;
    moving(&fleet, "Directly").await;
    let name = berth_api::names::work_name("Deployment", "web", "default");
    fleet
        .until_typed(&fleet.works("m1"), &name, "deletion", |work| {
            work.metadata.deletion_timestamp.is_some()
        })
        .await;
    assert!(m1.get(&web).await.is_some());
    assert_eq!(m2.get(&web).await, None);
    fleet.report_ready("m1", true).await;
    m1.lacks(&web).await;
    m2.has(&web).await;
    fleet.stop().await;
}
