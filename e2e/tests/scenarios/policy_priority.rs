//! Which of several policies holds a template.

use berth_api::well_known::{CLUSTER_PROPAGATION_POLICY_NAME, PROPAGATION_POLICY_NAME};
use berth_api::{ClusterPropagationPolicy, PropagationPolicy};
use berth_e2e::Plane;
use k8s_openapi::api::apps::v1::Deployment;
use kube::api::DeleteParams;
use serde_json::{Value, json};

use crate::manifests::{but, cluster_policy, deployment, everywhere, on, policy, selecting};
use crate::watching::{after_all_else, annotation, placed};

/// Waits until a policy holds the Deployment.
async fn held_by(plane: &Plane, name: &str) {
    plane
        .until(
            &plane.api::<Deployment>(),
            "nginx",
            &format!("held by {name}"),
            |template| annotation(template, PROPAGATION_POLICY_NAME) == Some(name),
        )
        .await;
}

fn by_label(name: &str) -> Value {
    let selectors = json!([{ "apiVersion": "apps/v1", "kind": "Deployment",
        "labelSelector": { "matchLabels": { "app": "nginx" } } }]);
    selecting(name, selectors, everywhere())
}

fn by_kind(name: &str) -> Value {
    let selectors = json!([{ "apiVersion": "apps/v1", "kind": "Deployment" }]);
    selecting(name, selectors, everywhere())
}

fn with_priority(policy: Value, priority: i32) -> Value {
    but(policy, json!({ "spec": { "priority": priority } }))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_closer_match_wins_and_the_next_one_inherits() {
    let plane = Plane::start().await;
    let nginx = deployment("nginx", 1);
    // The names are in the wrong order, so that they do not decide.
    plane
        .create_all([
            by_kind("a-by-kind"),
            by_label("b-by-label"),
            policy("c-by-name", &[&nginx], everywhere()),
        ])
        .await;
    // Policies and templates are seen through several watches.
    after_all_else(&plane).await;
    plane.create_all([nginx]).await;
    let policies = plane.api::<PropagationPolicy>();
    for winner in ["c-by-name", "b-by-label", "a-by-kind"] {
        held_by(&plane, winner).await;
        policies
            .delete(winner, &DeleteParams::default())
            .await
            .unwrap();
    }
    plane.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_higher_priority_beats_a_closer_match() {
    let plane = Plane::start().await;
    let nginx = deployment("nginx", 1);
    plane
        .create_all([
            policy("by-name", &[&nginx], on(&["member1"])),
            with_priority(by_label("by-label"), 10),
            with_priority(by_kind("by-kind"), -1),
        ])
        .await;
    // Policies and templates are seen through several watches.
    after_all_else(&plane).await;
    plane.create_all([nginx]).await;
    held_by(&plane, "by-label").await;
    plane.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn equal_priorities_leave_it_to_the_match_and_then_to_the_name() {
    let plane = Plane::start().await;
    let nginx = deployment("nginx", 1);
    plane
        .create_all([
            with_priority(by_label("a-by-label"), 5),
            with_priority(policy("c", &[&nginx], everywhere()), 5),
            with_priority(policy("b", &[&nginx], everywhere()), 5),
        ])
        .await;
    // Policies and templates are seen through several watches.
    after_all_else(&plane).await;
    plane.create_all([nginx]).await;
    held_by(&plane, "b").await;
    plane.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_policy_of_the_namespace_beats_one_of_the_cluster() {
    let plane = Plane::start().await;
    let nginx = deployment("nginx", 1);
    let wide = plane.unique("wide");
    let mut cluster_wide = with_priority(cluster_policy(&wide, &[&nginx], on(&["member1"])), 100);
    cluster_wide["spec"]["resourceSelectors"][0]["namespace"] = json!(plane.namespace);
    plane
        .create_all([cluster_wide, policy("own", &[&nginx], on(&["member2"]))])
        .await;
    // Policies and templates are seen through several watches.
    after_all_else(&plane).await;
    plane.create_all([nginx]).await;
    placed(&plane, "nginx-deployment", &[("member2", 1)]).await;
    held_by(&plane, "own").await;

    // When it goes, the one of the cluster takes over, and only its marks are left.
    plane
        .api::<PropagationPolicy>()
        .delete("own", &DeleteParams::default())
        .await
        .unwrap();
    let binding = placed(&plane, "nginx-deployment", &[("member1", 1)]).await;
    assert_eq!(
        annotation(&binding, CLUSTER_PROPAGATION_POLICY_NAME),
        Some(&*wide)
    );
    assert_eq!(annotation(&binding, PROPAGATION_POLICY_NAME), None);
    plane
        .all::<ClusterPropagationPolicy>()
        .delete(&wide, &DeleteParams::default())
        .await
        .unwrap();
    plane
        .until_gone(&plane.all::<ClusterPropagationPolicy>(), &wide)
        .await;
    plane.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_better_policy_that_comes_later_takes_nothing() {
    // `preemption: Always` is accepted; its feature gate is off, as it is in Karmada by default.
    for preemption in ["Never", "Always"] {
        let plane = Plane::start().await;
        let nginx = deployment("nginx", 1);
        plane.create_all([by_kind("first"), nginx.clone()]).await;
        held_by(&plane, "first").await;
        let better = but(
            with_priority(policy("better", &[&nginx], on(&["member1"])), 100),
            json!({ "spec": { "preemption": preemption } }),
        );
        plane.create_all([better]).await;
        after_all_else(&plane).await;
        held_by(&plane, "first").await;
        plane.stop().await;
    }
}
