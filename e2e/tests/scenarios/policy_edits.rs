//! Scenarios in which a user edits policies, templates or bindings. A new placement of a policy moves its workloads.
//! New selectors claim and release templates.

use berth_api::well_known::{
    PROPAGATION_POLICY_NAME, PROPAGATION_POLICY_NAMESPACE, PROPAGATION_POLICY_PERMANENT_ID,
};
use berth_api::{PropagationPolicy, ResourceBinding};
use berth_e2e::Plane;
use k8s_openapi::api::apps::v1::Deployment;
use kube::api::DeleteParams;
use serde_json::json;

use crate::assertions::{annotation, label, wait_for_pending_work, wait_until_placed};
use crate::manifests::{config_map, deployment, on_clusters, policy, selector_for};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_placement_moves_the_workload() {
    let plane = Plane::start().await;
    let nginx = deployment("nginx", 2);
    plane
        .create_all([policy("p", &[&nginx], on_clusters(&["member1"])), nginx])
        .await;
    wait_until_placed(&plane, "nginx-deployment", &[("member1", 2)]).await;

    let policies = plane.api::<PropagationPolicy>();
    let placement = json!({ "spec": { "placement": on_clusters(&["member2", "member3"]) } });
    plane.edit(&policies, "p", placement).await;
    let binding = wait_until_placed(
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

/// The new selectors select the second template instead of the first template.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn new_selectors_claim_and_release_templates() {
    let plane = Plane::start().await;
    let (first, second) = (deployment("first", 1), deployment("second", 1));
    plane
        .create_all([
            policy("p", &[&first], on_clusters(&["member1"])),
            first.clone(),
            second.clone(),
        ])
        .await;
    wait_until_placed(&plane, "first-deployment", &[("member1", 1)]).await;
    let deployments = plane.api::<Deployment>();
    let is_claimed = |template: &Deployment| {
        label(template, PROPAGATION_POLICY_PERMANENT_ID).is_some()
            && annotation(template, PROPAGATION_POLICY_NAME) == Some("p")
            && annotation(template, PROPAGATION_POLICY_NAMESPACE) == Some(&plane.namespace)
    };
    assert!(is_claimed(&deployments.get("first").await.unwrap()));
    let unclaimed = deployments.get("second").await.unwrap();
    assert_eq!(label(&unclaimed, PROPAGATION_POLICY_PERMANENT_ID), None);

    let selectors = json!({ "spec": { "resourceSelectors": [selector_for(&second)] } });
    plane
        .edit(&plane.api::<PropagationPolicy>(), "p", selectors)
        .await;
    wait_until_placed(&plane, "second-deployment", &[("member1", 1)]).await;
    assert!(is_claimed(&deployments.get("second").await.unwrap()));
    plane
        .until(&deployments, "first", "released", |template| {
            label(template, PROPAGATION_POLICY_PERMANENT_ID).is_none()
                && annotation(template, PROPAGATION_POLICY_NAME).is_none()
                && annotation(template, PROPAGATION_POLICY_NAMESPACE).is_none()
        })
        .await;
    // The binding of the released template keeps its placement.
    let binding = plane
        .api::<ResourceBinding>()
        .get("first-deployment")
        .await
        .unwrap();
    assert_eq!(label(&binding, PROPAGATION_POLICY_PERMANENT_ID), None);
    assert_eq!(binding.spec.clusters.len(), 1);
    plane.stop().await;
}

/// Two policies select the template. The first policy releases it by a new selector, or by the policy's deletion.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_policy_claims_what_the_first_releases() {
    for deleted in [false, true] {
        let plane = Plane::start().await;
        let nginx = deployment("nginx", 1);
        plane
            .create_all([
                policy("first", &[&nginx], on_clusters(&["member1"])),
                nginx.clone(),
                config_map("other"),
            ])
            .await;
        wait_until_placed(&plane, "nginx-deployment", &[("member1", 1)]).await;
        plane
            .create_all([policy("second", &[&nginx], on_clusters(&["member2"]))])
            .await;
        // The first policy keeps its claim on the template.
        wait_for_pending_work(&plane).await;
        wait_until_placed(&plane, "nginx-deployment", &[("member1", 1)]).await;

        let policies = plane.api::<PropagationPolicy>();
        if deleted {
            policies
                .delete("first", &DeleteParams::default())
                .await
                .unwrap();
        } else {
            let selectors =
                json!({ "spec": { "resourceSelectors": [selector_for(&config_map("other"))] } });
            plane.edit(&policies, "first", selectors).await;
        }
        let binding = wait_until_placed(&plane, "nginx-deployment", &[("member2", 1)]).await;
        assert_eq!(
            annotation(&binding, PROPAGATION_POLICY_NAME),
            Some("second")
        );
        plane.stop().await;
    }
}

/// The name exceeds the 63 characters of a label value.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_policy_can_have_a_long_name() {
    let plane = Plane::start().await;
    let name = "long-".repeat(20) + "name";
    let nginx = deployment("nginx", 1);
    plane
        .create_all([policy(&name, &[&nginx], on_clusters(&["member1"])), nginx])
        .await;
    let binding = wait_until_placed(&plane, "nginx-deployment", &[("member1", 1)]).await;
    assert_eq!(annotation(&binding, PROPAGATION_POLICY_NAME), Some(&*name));
    plane.stop().await;
}

/// The binding gets the resource version and the replica requirements of the edited template.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn template_edits_update_the_binding() {
    let plane = Plane::start().await;
    let nginx = deployment("nginx", 1);
    plane
        .create_all([policy("p", &[&nginx], on_clusters(&["member1"])), nginx])
        .await;
    let before = wait_until_placed(&plane, "nginx-deployment", &[("member1", 1)]).await;
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
            "updated from its template",
            |binding| binding.spec.resource.resource_version == edited.metadata.resource_version,
        )
        .await;
    assert!(after.metadata.generation > before.metadata.generation);
    let requirements = after.spec.replica_requirements.unwrap();
    assert_eq!(requirements.resource_request["cpu"].0, "250m");
    plane.stop().await;
}

/// A user changes the replicas and the placement of a binding. The detector restores the values of the template and the
/// policy.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn foreign_changes_of_a_binding_are_reverted() {
    let plane = Plane::start().await;
    let nginx = deployment("nginx", 2);
    plane
        .create_all([policy("p", &[&nginx], on_clusters(&["member1"])), nginx])
        .await;
    wait_until_placed(&plane, "nginx-deployment", &[("member1", 2)]).await;

    let bindings = plane.api::<ResourceBinding>();
    let foreign = json!({ "spec": { "replicas": 7, "placement": on_clusters(&["member2"]) } });
    let edited = plane.edit(&bindings, "nginx-deployment", foreign).await;
    let placement = json!(on_clusters(&["member1"]));
    plane
        .until(
            &bindings,
            "nginx-deployment",
            "restored by the detector",
            |it| {
                it.metadata.generation > edited.metadata.generation
                    && it.spec.replicas == 2
                    && serde_json::to_value(&it.spec.placement).unwrap() == placement
            },
        )
        .await;
    wait_until_placed(&plane, "nginx-deployment", &[("member1", 2)]).await;
    plane.stop().await;
}
