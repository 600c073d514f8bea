//! Scenarios with cluster-scoped templates, custom resources, and kinds without replicas.

use berth_api::well_known::{
    CLUSTER_PROPAGATION_POLICY_NAME, CLUSTER_PROPAGATION_POLICY_PERMANENT_ID,
    CLUSTER_RESOURCE_BINDING_PERMANENT_ID,
};
use berth_api::{ClusterPropagationPolicy, ClusterResourceBinding, ResourceBinding};
use berth_e2e::{Plane, eventually};
use k8s_openapi::api::rbac::v1::ClusterRole;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::DeleteParams;
use serde_json::{Value, json};

use crate::assertions::{
    annotation, label, message, wait_for_event, wait_for_failure, wait_until_placed,
    wait_until_placed_in,
};
use crate::manifests::{
    cluster_policy, cluster_role, config_map, deployment, merged, on_all_clusters, on_clusters,
    policy, selector_for,
};

/// The binding follows its policy, stays after the policy's deletion, and is deleted with its template.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_role_gets_a_cluster_resource_binding() {
    let plane = Plane::start().await;
    let (name, role_name) = (plane.unique("p"), plane.unique("reader"));
    let role = cluster_role(&role_name);
    plane
        .create_all([
            cluster_policy(&name, &[&role], on_clusters(&["member1", "member2"])),
            role,
        ])
        .await;
    let bindings = plane.all::<ClusterResourceBinding>();
    let binding_name = format!("{role_name}-clusterrole");
    let both = [("member1", 0), ("member2", 0)];
    let binding = wait_until_placed_in(&plane, &bindings, &binding_name, &both).await;
    let role = plane.all::<ClusterRole>().get(&role_name).await.unwrap();
    let policies = plane.all::<ClusterPropagationPolicy>();
    let policy = policies.get(&name).await.unwrap();
    let id = label(&policy, CLUSTER_PROPAGATION_POLICY_PERMANENT_ID);
    assert!(id.is_some());
    assert_eq!(label(&role, CLUSTER_PROPAGATION_POLICY_PERMANENT_ID), id);
    assert_eq!(label(&binding, CLUSTER_PROPAGATION_POLICY_PERMANENT_ID), id);
    assert_eq!(
        annotation(&binding, CLUSTER_PROPAGATION_POLICY_NAME),
        Some(&*name)
    );
    let own_id = label(&binding, CLUSTER_RESOURCE_BINDING_PERMANENT_ID);
    assert!(own_id.is_some_and(|id| id.len() == 36), "{own_id:?}");
    wait_for_event(
        &plane,
        "ClusterRole",
        &role_name,
        "ScheduleBindingSucceed",
        "Binding has been scheduled successfully. Result {member1:0, member2:0}",
    )
    .await;

    let placement = json!({ "spec": { "placement": on_clusters(&["member3"]) } });
    plane.edit(&policies, &name, placement).await;
    wait_until_placed_in(&plane, &bindings, &binding_name, &[("member3", 0)]).await;

    // The deletion of the policy releases the binding. The deletion of the template deletes the binding.
    policies
        .delete(&name, &DeleteParams::default())
        .await
        .unwrap();
    plane.until_gone(&policies, &name).await;
    let binding = bindings.get(&binding_name).await.unwrap();
    assert_eq!(
        label(&binding, CLUSTER_PROPAGATION_POLICY_PERMANENT_ID),
        None
    );
    assert_eq!(binding.spec.clusters.len(), 1);
    plane
        .all::<ClusterRole>()
        .delete(&role_name, &DeleteParams::default())
        .await
        .unwrap();
    if plane.collects_garbage() {
        plane.until_gone(&bindings, &binding_name).await;
    }
    plane.stop().await;
}

/// A ClusterPropagationPolicy selects a Deployment by its namespace and name.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_policy_selects_namespaced_templates() {
    let plane = Plane::start().await;
    let (name, nginx) = (plane.unique("p"), deployment("nginx", 2));
    let selector = merged(
        selector_for(&nginx),
        json!({ "namespace": plane.namespace }),
    );
    let policy = merged(
        cluster_policy(&name, &[], on_clusters(&["member2"])),
        json!({ "spec": { "resourceSelectors": [selector] } }),
    );
    plane.create_all([nginx, policy]).await;
    let binding = wait_until_placed(&plane, "nginx-deployment", &[("member2", 2)]).await;
    assert_eq!(
        annotation(&binding, CLUSTER_PROPAGATION_POLICY_NAME),
        Some(&*name)
    );
    plane
        .all::<ClusterPropagationPolicy>()
        .delete(&name, &DeleteParams::default())
        .await
        .unwrap();
    plane.stop().await;
}

/// Returns the definition of a kind in an API group that is unique to the test.
fn definition(group: &str) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("berths.{group}") },
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": { "plural": "berths", "singular": "berth", "kind": "Berth", "listKind": "BerthList" },
            "versions": [{ "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": true } } }],
        },
    })
}

/// An object of the new kind is placed once a member reports that it serves the kind.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kind_defined_at_run_time_is_propagated() {
    let plane = Plane::start().await;
    let group = format!("{}.example.com", plane.namespace);
    let definition = definition(&group);
    let crd_name = format!("berths.{group}");
    let wide = plane.unique("definitions");
    plane
        .create_all([
            cluster_policy(&wide, &[&definition], on_clusters(&["member1"])),
            definition,
        ])
        .await;
    let bindings = plane.all::<ClusterResourceBinding>();
    let binding_name = format!("{crd_name}-customresourcedefinition");
    wait_until_placed_in(&plane, &bindings, &binding_name, &[("member1", 0)]).await;

    // An object of the new kind is unschedulable until a member reports that it serves the kind.
    let object = json!({ "apiVersion": format!("{group}/v1"), "kind": "Berth",
        "metadata": { "name": "north" }, "spec": { "length": 120 } });
    plane
        .create_all([policy("p", &[&object], on_all_clusters())])
        .await;
    eventually("the new kind to be served", async || {
        plane.create(object.clone()).await.map(drop)
    })
    .await;
    let binding = wait_for_failure(&plane, "north-berth", "NoClusterFit").await;
    assert_eq!(
        message(&binding),
        "0/3 clusters are available: 3 cluster(s) did not have the API resource."
    );
    let clusters = plane.all::<berth_api::Cluster>();
    let member = clusters.get("member1").await.unwrap();
    let mut apis = serde_json::to_value(member.status.unwrap().api_enablements).unwrap();
    let served = json!({ "groupVersion": format!("{group}/v1"),
        "resources": [{ "name": "berths", "kind": "Berth" }] });
    apis.as_array_mut().unwrap().push(served);
    plane
        .report("member1", json!({ "apiEnablements": apis }))
        .await;
    wait_until_placed(&plane, "north-berth", &[("member1", 0)]).await;

    for name in [crd_name] {
        plane
            .all::<CustomResourceDefinition>()
            .delete(&name, &DeleteParams::default())
            .await
            .unwrap();
    }
    plane.stop().await;
}

/// The policy divides replicas, and each of the four bindings names all members with zero replicas.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kinds_without_replicas_are_propagated_to_all_members() {
    let plane = Plane::start().await;
    let role = json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
        "metadata": { "name": "reader" }, "rules": [] });
    let service = json!({ "apiVersion": "v1", "kind": "Service", "metadata": { "name": "web" },
        "spec": { "ports": [{ "port": 80 }], "selector": { "app": "nginx" } } });
    let daemons = json!({ "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": { "name": "agent" },
        "spec": { "selector": { "matchLabels": { "app": "agent" } }, "template": {
            "metadata": { "labels": { "app": "agent" } },
            "spec": { "containers": [{ "name": "agent", "image": "agent" }] } } } });
    let templates = [config_map("settings"), role, service, daemons];
    let policy = policy("p", &templates.each_ref(), crate::manifests::equal_shares());
    plane.create_all([policy]).await;
    plane.create_all(templates).await;
    let all_members = [("member1", 0), ("member2", 0), ("member3", 0)];
    for name in [
        "settings-configmap",
        "reader-role",
        "web-service",
        "agent-daemonset",
    ] {
        let binding: ResourceBinding = wait_until_placed(&plane, name, &all_members).await;
        assert_eq!(binding.spec.replicas, 0, "{name}");
    }
    plane.stop().await;
}

/// A Pod is duplicated to the clusters of its policy.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_has_one_replica() {
    let plane = Plane::start().await;
    let pod = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "one" },
        "spec": { "containers": [{ "name": "nginx", "image": "nginx" }] } });
    plane
        .create_all([
            policy("p", &[&pod], on_clusters(&["member1", "member2"])),
            pod,
        ])
        .await;
    wait_until_placed(&plane, "one-pod", &[("member1", 1), ("member2", 1)]).await;
    plane.stop().await;
}
