//! Scenarios of deletion: policies, templates, bindings and namespaces, and the label for deletion protection.

use berth_api::well_known::{DELETION_PROTECTED, PROPAGATION_POLICY_PERMANENT_ID};
use berth_api::{PropagationPolicy, ResourceBinding};
use berth_e2e::Plane;
use berth_test_requirements::needs;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::DeleteParams;
use serde_json::json;

use crate::assertions::{annotation, label, targets, wait_for_pending_work, wait_until_placed};
use crate::manifests::{deployment, merged, on_clusters, policy};

/// The template and its binding lose the label and the annotations of the policy. The binding keeps its clusters.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deleted_policy_releases_its_workload_and_the_workload_stays() {
    let plane = Plane::start().await;
    let nginx = deployment("nginx", 2);
    plane
        .create_all([policy("p", &[&nginx], on_clusters(&["member1"])), nginx])
        .await;
    wait_until_placed(&plane, "nginx-deployment", &[("member1", 2)]).await;
    let policies = plane.api::<PropagationPolicy>();
    policies
        .delete("p", &DeleteParams::default())
        .await
        .unwrap();
    plane.until_gone(&policies, "p").await;

    let (deployments, bindings) = (plane.api::<Deployment>(), plane.api::<ResourceBinding>());
    let binding = bindings.get("nginx-deployment").await.unwrap();
    let template = deployments.get("nginx").await.unwrap();
    assert_eq!(label(&binding, PROPAGATION_POLICY_PERMANENT_ID), None);
    assert_eq!(label(&template, PROPAGATION_POLICY_PERMANENT_ID), None);
    for key in ["name", "namespace"] {
        let key = format!("propagationpolicy.karmada.io/{key}");
        assert_eq!(annotation(&binding, &key), None);
        assert_eq!(annotation(&template, &key), None);
    }
    // The scheduler ignores the released binding, so the binding keeps its placement.
    let replicas = json!({ "spec": { "replicas": 5 } });
    plane.edit(&deployments, "nginx", replicas).await;
    wait_for_pending_work(&plane).await;
    let binding = bindings.get("nginx-deployment").await.unwrap();
    assert_eq!(targets(&binding), [("member1", 2)]);
    plane.stop().await;
}

#[needs(embedded)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deleted_template_removes_its_binding() {
    let plane = Plane::start().await;
    let nginx = deployment("nginx", 2);
    plane
        .create_all([
            policy("p", &[&nginx], on_clusters(&["member1"])),
            nginx.clone(),
        ])
        .await;
    let first = wait_until_placed(&plane, "nginx-deployment", &[("member1", 2)]).await;
    let (deployments, bindings) = (plane.api::<Deployment>(), plane.api::<ResourceBinding>());
    deployments
        .delete("nginx", &DeleteParams::default())
        .await
        .unwrap();
    plane.until_gone(&bindings, "nginx-deployment").await;

    // A new template with the same name gets a new binding.
    plane.create_all([nginx]).await;
    let second = wait_until_placed(&plane, "nginx-deployment", &[("member1", 2)]).await;
    assert_ne!(first.metadata.uid, second.metadata.uid);
    plane.stop().await;
}

/// The detector creates the binding again, and the scheduler places it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deleted_binding_is_recreated() {
    let plane = Plane::start().await;
    let nginx = deployment("nginx", 2);
    plane
        .create_all([policy("p", &[&nginx], on_clusters(&["member1"])), nginx])
        .await;
    let first = wait_until_placed(&plane, "nginx-deployment", &[("member1", 2)]).await;
    let bindings = plane.api::<ResourceBinding>();
    bindings
        .delete("nginx-deployment", &DeleteParams::default())
        .await
        .unwrap();
    plane
        .until(&bindings, "nginx-deployment", "recreated", |binding| {
            binding.metadata.uid != first.metadata.uid
        })
        .await;
    wait_until_placed(&plane, "nginx-deployment", &[("member1", 2)]).await;
    plane.stop().await;
}

/// The namespace contains a template, its policy and its binding.
#[needs(embedded)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_namespace_is_deleted_with_its_contents() {
    let plane = Plane::start().await;
    let nginx = deployment("nginx", 2);
    plane
        .create_all([policy("p", &[&nginx], on_clusters(&["member1"])), nginx])
        .await;
    wait_until_placed(&plane, "nginx-deployment", &[("member1", 2)]).await;
    let namespaces = plane.all::<Namespace>();
    namespaces
        .delete(&plane.namespace, &DeleteParams::default())
        .await
        .unwrap();
    plane.until_gone(&namespaces, &plane.namespace).await;
    plane.stop().await;
}

#[needs(embedded)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_protected_object_cannot_be_deleted() {
    let plane = Plane::start().await;
    let protection = |value| json!({ "metadata": { "labels": { DELETION_PROTECTED: value } } });
    plane
        .create_all([merged(deployment("nginx", 1), protection("Always"))])
        .await;
    let (deployments, namespaces) = (plane.api::<Deployment>(), plane.all::<Namespace>());
    let refusal = deployments
        .delete("nginx", &DeleteParams::default())
        .await
        .unwrap_err()
        .to_string();
    assert!(
        refusal.contains("This resource is protected") && refusal.contains(DELETION_PROTECTED),
        "{refusal}"
    );

    // The server accepts the deletion of the namespace, but the namespace keeps terminating.
    namespaces
        .delete(&plane.namespace, &DeleteParams::default())
        .await
        .unwrap();
    plane
        .until(&namespaces, &plane.namespace, "terminating", |namespace| {
            let status = namespace.status.as_ref();
            status.and_then(|s| s.phase.as_deref()) == Some("Terminating")
        })
        .await;
    assert!(deployments.get("nginx").await.is_ok());

    plane.edit(&deployments, "nginx", protection("Never")).await;
    plane.until_gone(&deployments, "nginx").await;
    plane.until_gone(&namespaces, &plane.namespace).await;
    plane.stop().await;
}

/// The namespace can be deleted once its label is removed.
#[needs(embedded)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_protected_namespace_cannot_be_deleted() {
    let plane = Plane::start().await;
    let namespaces = plane.all::<Namespace>();
    let protection = |value: serde_json::Value| json!({ "metadata": { "labels": { DELETION_PROTECTED: value } } });
    plane
        .edit(&namespaces, &plane.namespace, protection(json!("Always")))
        .await;
    let refusal = namespaces
        .delete(&plane.namespace, &DeleteParams::default())
        .await
        .unwrap_err()
        .to_string();
    assert!(refusal.contains("This resource is protected"), "{refusal}");
    plane
        .edit(&namespaces, &plane.namespace, protection(json!(null)))
        .await;
    namespaces
        .delete(&plane.namespace, &DeleteParams::default())
        .await
        .unwrap();
    plane.until_gone(&namespaces, &plane.namespace).await;
    plane.stop().await;
}
