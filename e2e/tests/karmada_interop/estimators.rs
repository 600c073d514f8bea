//! Schedulers that use the estimators of `berth up`, through the Services in the control plane.

use berth_test_requirements::needs;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};

use crate::program::{Provider, karmada_programs};
use crate::scene::Scene;

/// Returns a policy that divides replicas, and a Deployment that selects nodes by their label `disk`.
fn workload(disk: &str) -> [Value; 2] {
    let policy = json!({
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
        "metadata": { "name": disk, "namespace": "default" },
        "spec": {
            "resourceSelectors": [{ "apiVersion": "apps/v1", "kind": "Deployment", "name": disk }],
            "placement": { "replicaScheduling": {
                "replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated" } },
        },
    });
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": { "name": disk, "namespace": "default" },
        "spec": {
            "replicas": 3,
            "selector": { "matchLabels": { "app": disk } },
            "template": {
                "metadata": { "labels": { "app": disk } },
                "spec": {
                    "nodeSelector": { "disk": disk },
                    "containers": [{ "name": "c", "image": "i", "resources": { "requests": { "cpu": "1" } } }],
                },
            },
        },
    });
    [policy, deployment]
}

/// Runs a scheduler that places one workload in the only member with a suitable node, and another one nowhere.
async fn run(scheduler: &Provider) {
    let flags = ["--enable-scheduler-estimator=true"];
    let scene = Box::pin(Scene::start_with(scheduler, &Provider::Berth, &flags)).await;
    assert!(
        !scene.is_kube_apiserver(),
        "the Services are in the embedded control plane: unset KUBEBUILDER_ASSETS"
    );
    let nodes: Api<Node> = Api::all(scene.member("member2"));
    let label = Patch::Merge(json!({ "metadata": { "labels": { "disk": "ssd" } } }));
    nodes
        .patch("member2-node-1", &PatchParams::default(), &label)
        .await
        .unwrap();
    for object in [workload("nvme"), workload("ssd")].as_flattened() {
        scene.apply(object).await;
    }
    scene
        .wait_for_binding("ssd-deployment", "the placement in member2", |binding| {
            let clusters = binding.spec.clusters.iter();
            let clusters: Vec<_> = clusters.map(|it| (it.name.as_str(), it.replicas)).collect();
            clusters == [("member2", 3)]
        })
        .await;
    scene
        .wait_for_binding("nvme-deployment", "the condition", |binding| {
            let conditions = binding.status.iter().flat_map(|status| &status.conditions);
            conditions.into_iter().any(|condition| {
                condition.status == "False"
                    && condition
                        .message
                        .contains("available replicas 0 are not enough")
            })
        })
        .await;
    scene.stop().await;
}

#[needs(karmada)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn karmadas_scheduler_uses_the_estimators_of_berth() {
    run(&Provider::Karmada(karmada_programs())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn berths_scheduler_as_a_program_of_its_own_uses_the_estimators() {
    run(&Provider::Berth).await;
}
