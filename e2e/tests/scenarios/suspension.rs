//! Scenarios with suspended scheduling in a binding, and with suspended dispatching in a policy.

use berth_api::{PropagationPolicy, ResourceBinding};
use berth_e2e::Plane;
use k8s_openapi::api::apps::v1::Deployment;
use kube::api::PostParams;
use serde_json::{Value, json};

use crate::assertions::{targets, wait_for_pending_work, wait_until_placed};
use crate::manifests::{deployment, merged, on_clusters, policy};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_suspended_binding_keeps_its_placement_until_resumed() {
    let plane = Plane::start().await;
    let nginx = deployment("nginx", 2);
    plane
        .create_all([policy("p", &[&nginx], on_clusters(&["member1"])), nginx])
        .await;
    wait_until_placed(&plane, "nginx-deployment", &[("member1", 2)]).await;
    let bindings = plane.api::<ResourceBinding>();
    let suspend = |value: Value| json!({ "spec": { "suspension": { "scheduling": value } } });
    plane
        .edit(&bindings, "nginx-deployment", suspend(json!(true)))
        .await;

    // A change of the policy or the template keeps the suspension and the placement.
    let placement = json!({ "spec": { "placement": on_clusters(&["member2"]) } });
    plane
        .edit(&plane.api::<PropagationPolicy>(), "p", placement)
        .await;
    let replicas = json!({ "spec": { "replicas": 5 } });
    plane
        .edit(&plane.api::<Deployment>(), "nginx", replicas)
        .await;
    let updated = plane
        .until(&bindings, "nginx-deployment", "updated", |binding| {
            let affinity = binding.spec.placement.as_ref().unwrap();
            let affinity = affinity.cluster_affinity.as_ref().unwrap();
            binding.spec.replicas == 5 && affinity.cluster_names == ["member2"]
        })
        .await;
    assert!(updated.spec.scheduling_suspended());
    wait_for_pending_work(&plane).await;
    let binding = bindings.get("nginx-deployment").await.unwrap();
    assert_eq!(targets(&binding), [("member1", 2)]);

    plane
        .edit(&bindings, "nginx-deployment", suspend(json!(false)))
        .await;
    wait_until_placed(&plane, "nginx-deployment", &[("member2", 5)]).await;
    plane.stop().await;
}

/// The binding gets the suspension of its policy, and loses it when the policy is resumed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn suspended_dispatching_follows_the_policy() {
    for resumed in [json!({}), json!(null)] {
        let plane = Plane::start().await;
        let nginx = deployment("nginx", 1);
        let suspended = merged(
            policy("p", &[&nginx], on_clusters(&["member1"])),
            json!({ "spec": { "suspension": { "dispatching": true } } }),
        );
        plane.create_all([suspended, nginx]).await;
        // The workload is scheduled although dispatching is suspended.
        let binding = wait_until_placed(&plane, "nginx-deployment", &[("member1", 1)]).await;
        let suspension = binding.spec.suspension.unwrap();
        assert_eq!(suspension.dispatching, Some(true));

        // A merge patch cannot empty a map. Therefore the policy is replaced, as with `kubectl replace`.
        let policies = plane.api::<PropagationPolicy>();
        let mut stored = serde_json::to_value(policies.get("p").await.unwrap()).unwrap();
        stored["spec"]["suspension"] = resumed.clone();
        let stored: PropagationPolicy = serde_json::from_value(stored).unwrap();
        policies
            .replace("p", &PostParams::default(), &stored)
            .await
            .unwrap();
        plane
            .until(
                &plane.api::<ResourceBinding>(),
                "nginx-deployment",
                "resumed",
                |binding| {
                    let suspension = binding.spec.suspension.as_ref();
                    suspension.and_then(|s| s.dispatching) != Some(true)
                },
            )
            .await;
        plane.stop().await;
    }
}

/// The binding gets the name of the suspended member from its policy, and is still scheduled to this member.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dispatching_can_be_suspended_for_named_members() {
    let plane = Plane::start().await;
    let nginx = deployment("nginx", 1);
    let names = json!({ "clusterNames": ["member2"] });
    let suspended = merged(
        policy("p", &[&nginx], on_clusters(&["member1", "member2"])),
        json!({ "spec": { "suspension": { "dispatchingOnClusters": names } } }),
    );
    plane.create_all([suspended, nginx]).await;
    let binding = wait_until_placed(
        &plane,
        "nginx-deployment",
        &[("member1", 1), ("member2", 1)],
    )
    .await;
    let suspension = binding.spec.suspension.unwrap();
    assert_eq!(
        suspension.dispatching_on_clusters.unwrap().cluster_names,
        ["member2"]
    );
    plane.stop().await;
}
