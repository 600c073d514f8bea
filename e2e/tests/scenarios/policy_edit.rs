//! What an edit of a policy does: its placement moves workloads, its selectors let them in and out.

use berth_api::well_known::{
    PROPAGATION_POLICY_NAME, PROPAGATION_POLICY_NAMESPACE, PROPAGATION_POLICY_PERMANENT_ID,
};
use berth_api::{PropagationPolicy, ResourceBinding};
use berth_e2e::Plane;
use k8s_openapi::api::apps::v1::Deployment;
use kube::api::DeleteParams;
use serde_json::json;

use crate::manifests::{config_map, deployment, named, on, policy};
use crate::watching::{after_all_else, annotation, label, placed};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_placement_moves_the_workload() {
    let plane = Plane::start().await;
    let nginx = deployment("nginx", 2);
    plane
        .create_all([policy("p", &[&nginx], on(&["member1"])), nginx])
        .await;
    placed(&plane, "nginx-deployment", &[("member1", 2)]).await;

    let policies = plane.api::<PropagationPolicy>();
    let placement = json!({ "spec": { "placement": on(&["member2", "member3"]) } });
    plane.edit(&policies, "p", placement).await;
    let binding = placed(
        &plane,
        "nginx-deployment",
        &[("member2", 2), ("member3", 2)],
    )
    .await;
    let applied = annotation(&binding, "policy.karmada.io/applied-placement");
    assert_eq!(
        applied,
        Some(r#"{"clusterAffinity":{"clusterNames":["member2","member3"]}}"#)
    );
    plane.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn selectors_let_templates_in_and_out() {
    let plane = Plane::start().await;
    let (first, second) = (deployment("first", 1), deployment("second", 1));
    plane
        .create_all([
            policy("p", &[&first], on(&["member1"])),
            first.clone(),
            second.clone(),
        ])
        .await;
    placed(&plane, "first-deployment", &[("member1", 1)]).await;
    let deployments = plane.api::<Deployment>();
    let is_claimed = |template: &Deployment| {
        label(template, PROPAGATION_POLICY_PERMANENT_ID).is_some()
            && annotation(template, PROPAGATION_POLICY_NAME) == Some("p")
            && annotation(template, PROPAGATION_POLICY_NAMESPACE) == Some(&plane.namespace)
    };
    assert!(is_claimed(&deployments.get("first").await.unwrap()));
    let unclaimed = deployments.get("second").await.unwrap();
    assert_eq!(label(&unclaimed, PROPAGATION_POLICY_PERMANENT_ID), None);

    let selectors = json!({ "spec": { "resourceSelectors": [named(&second)] } });
    plane
        .edit(&plane.api::<PropagationPolicy>(), "p", selectors)
        .await;
    placed(&plane, "second-deployment", &[("member1", 1)]).await;
    assert!(is_claimed(&deployments.get("second").await.unwrap()));
    plane
        .until(&deployments, "first", "released", |template| {
            label(template, PROPAGATION_POLICY_PERMANENT_ID).is_none()
                && annotation(template, PROPAGATION_POLICY_NAME).is_none()
                && annotation(template, PROPAGATION_POLICY_NAMESPACE).is_none()
        })
        .await;
    // The binding stays where it is, without a claim.
    let binding = plane
        .api::<ResourceBinding>()
        .get("first-deployment")
        .await
        .unwrap();
    assert_eq!(label(&binding, PROPAGATION_POLICY_PERMANENT_ID), None);
    assert_eq!(binding.spec.clusters.len(), 1);
    plane.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_policy_takes_over_what_the_first_lets_go() {
    for deleted in [false, true] {
        let plane = Plane::start().await;
        let nginx = deployment("nginx", 1);
        plane
            .create_all([
                policy("first", &[&nginx], on(&["member1"])),
                nginx.clone(),
                config_map("other"),
            ])
            .await;
        placed(&plane, "nginx-deployment", &[("member1", 1)]).await;
        plane
            .create_all([policy("second", &[&nginx], on(&["member2"]))])
            .await;
        // As long as the first holds it, nothing moves.
        after_all_else(&plane).await;
        placed(&plane, "nginx-deployment", &[("member1", 1)]).await;

        let policies = plane.api::<PropagationPolicy>();
        if deleted {
            policies
                .delete("first", &DeleteParams::default())
                .await
                .unwrap();
        } else {
            let selectors =
                json!({ "spec": { "resourceSelectors": [named(&config_map("other"))] } });
            plane.edit(&policies, "first", selectors).await;
        }
        let binding = placed(&plane, "nginx-deployment", &[("member2", 1)]).await;
        assert_eq!(
            annotation(&binding, PROPAGATION_POLICY_NAME),
            Some("second")
        );
        plane.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_policy_may_have_a_long_name() {
    let plane = Plane::start().await;
    let name = "long-".repeat(20) + "name";
    let nginx = deployment("nginx", 1);
    plane
        .create_all([policy(&name, &[&nginx], on(&["member1"])), nginx])
        .await;
    let binding = placed(&plane, "nginx-deployment", &[("member1", 1)]).await;
    assert_eq!(annotation(&binding, PROPAGATION_POLICY_NAME), Some(&*name));
    plane.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn edits_of_the_template_reach_the_binding() {
    let plane = Plane::start().await;
    let nginx = deployment("nginx", 1);
    plane
        .create_all([policy("p", &[&nginx], on(&["member1"])), nginx])
        .await;
    let before = placed(&plane, "nginx-deployment", &[("member1", 1)]).await;
    let request = json!({ "spec": { "template": { "spec": { "containers": [
        { "name": "nginx", "image": "nginx:1.27", "resources": { "requests": { "cpu": "250m" } } }
    ] } } } });
    let edited = plane
        .edit(&plane.api::<Deployment>(), "nginx", request)
        .await;
    let after = plane
        .until(
            &plane.api::<ResourceBinding>(),
            "nginx-deployment",
            "following its template",
            |binding| binding.spec.resource.resource_version == edited.metadata.resource_version,
        )
        .await;
    assert!(after.metadata.generation > before.metadata.generation);
    let requirements = after.spec.replica_requirements.unwrap();
    assert_eq!(requirements.resource_request["cpu"].0, "250m");
    plane.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_somebody_else_writes_into_a_decision_is_made_right() {
    let plane = Plane::start().await;
    let nginx = deployment("nginx", 2);
    plane
        .create_all([policy("p", &[&nginx], on(&["member1"])), nginx])
        .await;
    placed(&plane, "nginx-deployment", &[("member1", 2)]).await;

    let bindings = plane.api::<ResourceBinding>();
    let strange = json!({ "spec": { "replicas": 7, "placement": on(&["member2"]) } });
    let edited = plane.edit(&bindings, "nginx-deployment", strange).await;
    let placement = json!(on(&["member1"]));
    plane
        .until(
            &bindings,
            "nginx-deployment",
            "decided by the policy",
            |it| {
                it.metadata.generation > edited.metadata.generation
                    && it.spec.replicas == 2
                    && serde_json::to_value(&it.spec.placement).unwrap() == placement
            },
        )
        .await;
    placed(&plane, "nginx-deployment", &[("member1", 2)]).await;
    plane.stop().await;
}
