//! A test of ClusterTaintPolicies with the policy of `examples/failover.yaml`. The policy taints a cluster that is not
//! ready.

use berth_api::ClusterTaintPolicy;
use berth_controllers::monitor::Monitor;
use berth_controllers::taint_policy;
use berth_e2e::eventually;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::scene::{Scene, binding, fast_options, one_cluster};

/// Checks that a cluster is tainted when its condition `Ready` becomes `Unknown`, and that its bindings move to another
/// cluster. The taint is removed when the cluster is ready again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bindings_leave_a_cluster_that_is_not_ready() {
    let scene = Scene::start(2, fast_options()).await;
    let cancel = CancellationToken::new();
    let client = scene.bare.remote_client().await;
    let tainting = tokio::spawn(taint_policy::run(
        client,
        taint_policy::Effect::TaintsAndEvictions,
        Monitor::default(),
        cancel.clone(),
    ));
    let example = include_str!("../../../examples/failover.yaml");
    let policy: ClusterTaintPolicy = serde_saphyr::from_str(example).unwrap();
    let policies: Api<ClusterTaintPolicy> = Api::all(scene.bare.client.clone());
    policies
        .create(&PostParams::default(), &policy)
        .await
        .unwrap();

    scene
        .bare
        .bind(&binding("web", &one_cluster(&json!([])), &json!({})))
        .await;
    let old = scene.wait_until_placed("web").await;
    let report = async |ready: &str| {
        let condition = json!({ "type": "Ready", "status": ready, "reason": "r", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z" });
        let patch = Patch::Merge(json!({ "status": { "conditions": [condition] } }));
        let clusters = scene.bare.clusters();
        clusters
            .patch_status(&old[0], &PatchParams::default(), &patch)
            .await
            .unwrap();
    };
    report("Unknown").await;
    scene.wait_until_moved("web", &old[0]).await;
    let taints = scene
        .bare
        .clusters()
        .get(&old[0])
        .await
        .unwrap()
        .spec
        .taints;
    assert_eq!(taints.len(), 1);
    assert!(taints[0].time_added.is_some());

    report("True").await;
    eventually("removal of the taint", async || {
        let taints = scene
            .bare
            .clusters()
            .get(&old[0])
            .await
            .unwrap()
            .spec
            .taints;
        if taints.is_empty() {
            Ok(())
        } else {
            Err(format!("{taints:?}"))
        }
    })
    .await;
    let messages = scene.wait_for_cluster_events("TaintClusterSucceed").await;
    assert!(
        messages[0].contains("{Key:cluster.karmada.io/not-ready,Effect:NoExecute}"),
        "{messages:?}"
    );
    cancel.cancel();
    tainting.await.unwrap().unwrap();
    scene.stop().await;
}
