//! Scenarios with policies that take effect later: after the creation of a priority class or an override policy, or
//! with the next edit of the template.

use berth_api::{PropagationPolicy, ResourceBinding};
use berth_e2e::Plane;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use kube::api::DeleteParams;
use serde_json::{Value, json};

use crate::assertions::{
    annotation, targets, wait_for_event, wait_for_pending_work, wait_until_placed,
};
use crate::manifests::{deployment, merged, on_clusters, policy};

/// Waits until all earlier changes are handled, and checks that the Deployment `nginx` has no binding.
async fn assert_no_binding(plane: &Plane) {
    wait_for_pending_work(plane).await;
    let bindings = plane.api::<ResourceBinding>();
    let binding = bindings.get_opt("nginx-deployment").await.unwrap();
    assert!(binding.is_none(), "{binding:?}");
}

/// The binding is created once the priority class exists.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_priority_class_gives_the_binding_its_priority() {
    let plane = Plane::start().await;
    let (class, nginx) = (plane.unique("urgent"), deployment("nginx", 1));
    let with_class = merged(
        policy("p", &[&nginx], on_clusters(&["member1"])),
        json!({ "spec": { "schedulePriority": {
            "priorityClassSource": "KubePriorityClass", "priorityClassName": class } } }),
    );
    plane.create_all([with_class, nginx]).await;
    // While the class is missing, an event on the template gives the reason, and there is no binding.
    wait_for_event(&plane, "Deployment", "nginx", "ApplyPolicyFailed", &class).await;
    assert_no_binding(&plane).await;

    plane
        .create_all([
            json!({ "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
            "metadata": { "name": class }, "value": 1000 }),
        ])
        .await;
    let binding = wait_until_placed(&plane, "nginx-deployment", &[("member1", 1)]).await;
    assert_eq!(binding.spec.priority(), 1000);
    plane
        .all::<PriorityClass>()
        .delete(&class, &DeleteParams::default())
        .await
        .unwrap();
    plane.stop().await;
}

/// Returns a minimal definition of the kind OverridePolicy, which suffices for the detector.
fn override_definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": "overridepolicies.policy.karmada.io" },
        "spec": {
            "group": "policy.karmada.io",
            "scope": "Namespaced",
            "names": { "plural": "overridepolicies", "singular": "overridepolicy",
                "kind": "OverridePolicy", "listKind": "OverridePolicyList" },
            "versions": [{ "name": "v1alpha1", "served": true, "storage": true, "schema": {
                "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } } }],
        },
    })
}

/// The binding is created once the OverridePolicy in `dependentOverrides` exists.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_template_waits_for_the_overrides_that_its_policy_depends_on() {
    let plane = Plane::start().await;
    let nginx = deployment("nginx", 1);
    let dependent = merged(
        policy("p", &[&nginx], on_clusters(&["member1"])),
        json!({ "spec": { "dependentOverrides": ["images"] } }),
    );
    plane.create_all([dependent, nginx]).await;
    assert_no_binding(&plane).await;

    let _ = plane.create(override_definition()).await;
    let overrides = json!({ "apiVersion": "policy.karmada.io/v1alpha1", "kind": "OverridePolicy",
        "metadata": { "name": "images" }, "spec": { "overrideRules": [] } });
    berth_e2e::eventually("the override policy to be stored", async || {
        plane.create(overrides.clone()).await.map(drop)
    })
    .await;
    wait_until_placed(&plane, "nginx-deployment", &[("member1", 1)]).await;
    plane.stop().await;
}

fn with_lazy_activation(policy: Value) -> Value {
    merged(
        policy,
        json!({ "spec": { "activationPreference": "Lazy" } }),
    )
}

/// Edits the template as a user does: adds an annotation.
async fn annotate_template(plane: &Plane) {
    let change = json!({ "metadata": { "annotations": { "touched": "yes" } } });
    plane
        .edit(&plane.api::<Deployment>(), "nginx", change)
        .await;
}

/// The binding is created at once, because the template is created after the policy.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lazy_policy_applies_to_templates_created_after_it() {
    let plane = Plane::start().await;
    let nginx = deployment("nginx", 1);
    plane
        .create_all([with_lazy_activation(policy(
            "p",
            &[&nginx],
            on_clusters(&["member1"]),
        ))])
        .await;
    // The policy and the template arrive on separate watches. The policy must arrive first.
    wait_for_pending_work(&plane).await;
    plane.create_all([nginx]).await;
    wait_until_placed(&plane, "nginx-deployment", &[("member1", 1)]).await;

    // The workload stays after the policy is deleted.
    let policies = plane.api::<PropagationPolicy>();
    policies
        .delete("p", &DeleteParams::default())
        .await
        .unwrap();
    plane.until_gone(&policies, "p").await;
    wait_for_pending_work(&plane).await;
    let bindings = plane.api::<ResourceBinding>();
    let binding = bindings.get("nginx-deployment").await.unwrap();
    assert_eq!(targets(&binding), [("member1", 1)]);
    plane.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lazy_policy_created_later_waits_for_an_edit_of_the_template() {
    let plane = Plane::start().await;
    let nginx = deployment("nginx", 1);
    plane.create_all([nginx.clone()]).await;
    wait_for_pending_work(&plane).await;
    plane
        .create_all([with_lazy_activation(policy(
            "p",
            &[&nginx],
            on_clusters(&["member1"]),
        ))])
        .await;
    // The policy claims the template at once. The template gets its binding with its next edit.
    plane
        .until(&plane.api::<Deployment>(), "nginx", "claimed", |template| {
            annotation(template, "propagationpolicy.karmada.io/name") == Some("p")
        })
        .await;
    assert_no_binding(&plane).await;
    annotate_template(&plane).await;
    wait_until_placed(&plane, "nginx-deployment", &[("member1", 1)]).await;
    plane.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn edits_of_a_lazy_policy_wait_for_an_edit_of_the_template() {
    let plane = Plane::start().await;
    let nginx = deployment("nginx", 1);
    plane
        .create_all([policy("p", &[&nginx], on_clusters(&["member1"])), nginx])
        .await;
    wait_until_placed(&plane, "nginx-deployment", &[("member1", 1)]).await;
    // The detector must have handled the creation of the template before the policy becomes lazy.
    wait_for_pending_work(&plane).await;
    let edit = json!({ "spec": {
        "activationPreference": "Lazy", "placement": on_clusters(&["member1", "member2"]), "propagateDeps": true } });
    plane
        .edit(&plane.api::<PropagationPolicy>(), "p", edit)
        .await;
    wait_for_pending_work(&plane).await;
    let binding = wait_until_placed(&plane, "nginx-deployment", &[("member1", 1)]).await;
    assert!(!binding.spec.propagate_deps);
    annotate_template(&plane).await;
    let binding = wait_until_placed(
        &plane,
        "nginx-deployment",
        &[("member1", 1), ("member2", 1)],
    )
    .await;
    assert!(binding.spec.propagate_deps);
    plane.stop().await;
}

/// An edit changes the placement of the policy, and its activation preference from lazy to immediate.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lazy_policy_made_immediate_moves_its_workload_at_once() {
    let plane = Plane::start().await;
    let nginx = deployment("nginx", 1);
    plane
        .create_all([with_lazy_activation(policy(
            "p",
            &[&nginx],
            on_clusters(&["member1"]),
        ))])
        .await;
    wait_for_pending_work(&plane).await;
    plane.create_all([nginx]).await;
    wait_until_placed(&plane, "nginx-deployment", &[("member1", 1)]).await;
    let edit = json!({ "spec": {
        "activationPreference": null, "placement": on_clusters(&["member2"]) } });
    plane
        .edit(&plane.api::<PropagationPolicy>(), "p", edit)
        .await;
    wait_until_placed(&plane, "nginx-deployment", &[("member2", 1)]).await;
    plane.stop().await;
}

/// An edit of the propagation and failover settings in the policy changes the binding.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn policy_settings_are_copied_to_the_binding() {
    let plane = Plane::start().await;
    let nginx = deployment("nginx", 1);
    plane
        .create_all([policy("p", &[&nginx], on_clusters(&["member1"])), nginx])
        .await;
    let before = wait_until_placed(&plane, "nginx-deployment", &[("member1", 1)]).await;
    assert!(!before.spec.propagate_deps);
    let edit = json!({ "spec": {
        "propagateDeps": true,
        "conflictResolution": "Overwrite",
        "preserveResourcesOnDeletion": true,
        "failover": { "application": { "decisionConditions": { "tolerationSeconds": 60 } } },
    } });
    plane
        .edit(&plane.api::<PropagationPolicy>(), "p", edit)
        .await;
    let after = plane
        .until(
            &plane.api::<ResourceBinding>(),
            "nginx-deployment",
            "updated from its policy",
            |binding| binding.spec.propagate_deps,
        )
        .await;
    let spec = serde_json::to_value(&after.spec).unwrap();
    assert_eq!(spec["conflictResolution"], "Overwrite");
    assert_eq!(spec["preserveResourcesOnDeletion"], true);
    let application = &spec["failover"]["application"];
    assert_eq!(application["purgeMode"], "Gracefully");
    assert_eq!(application["gracePeriodSeconds"], 600);
    plane.stop().await;
}
