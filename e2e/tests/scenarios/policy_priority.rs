//! Scenarios in which several policies select one template. The kind of the policy, its explicit priority, the
//! precision of its selector and its name decide which policy claims the template.

use berth_api::well_known::{CLUSTER_PROPAGATION_POLICY_NAME, PROPAGATION_POLICY_NAME};
use berth_api::{ClusterPropagationPolicy, PropagationPolicy};
use berth_e2e::Plane;
use k8s_openapi::api::apps::v1::Deployment;
use kube::api::DeleteParams;
use serde_json::{Value, json};

use crate::assertions::{annotation, wait_for_pending_work, wait_until_placed};
use crate::manifests::{
    cluster_policy, deployment, merged, on_all_clusters, on_clusters, policy, policy_with_selectors,
};

/// Waits until the policy with this name has claimed the Deployment.
async fn wait_until_claimed_by(plane: &Plane, name: &str) {
    plane
        .until(
            &plane.api::<Deployment>(),
            "nginx",
            &format!("claimed by {name}"),
            |template| annotation(template, PROPAGATION_POLICY_NAME) == Some(name),
        )
        .await;
}

fn by_label(name: &str) -> Value {
    let selectors = json!([{ "apiVersion": "apps/v1", "kind": "Deployment",
        "labelSelector": { "matchLabels": { "app": "nginx" } } }]);
    policy_with_selectors(name, selectors, on_all_clusters())
}

fn by_kind(name: &str) -> Value {
    let selectors = json!([{ "apiVersion": "apps/v1", "kind": "Deployment" }]);
    policy_with_selectors(name, selectors, on_all_clusters())
}

fn with_priority(policy: Value, priority: i32) -> Value {
    merged(policy, json!({ "spec": { "priority": priority } }))
}

/// A selector by name precedes a selector by label, which precedes a selector by kind. When a policy is deleted, the
/// next policy claims the template.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_closest_match_wins_and_the_next_one_takes_over() {
    let plane = Plane::start().await;
    let nginx = deployment("nginx", 1);
    // The alphabetical order of the names is the reverse of the expected order, so the names do not decide.
    plane
        .create_all([
            by_kind("a-by-kind"),
            by_label("b-by-label"),
            policy("c-by-name", &[&nginx], on_all_clusters()),
        ])
        .await;
    // Policies and templates arrive on separate watches. The policies must arrive first.
    wait_for_pending_work(&plane).await;
    plane.create_all([nginx]).await;
    let policies = plane.api::<PropagationPolicy>();
    for winner in ["c-by-name", "b-by-label", "a-by-kind"] {
        wait_until_claimed_by(&plane, winner).await;
        policies
            .delete(winner, &DeleteParams::default())
            .await
            .unwrap();
    }
    plane.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_higher_priority_wins_over_a_closer_match() {
    let plane = Plane::start().await;
    let nginx = deployment("nginx", 1);
    plane
        .create_all([
            policy("by-name", &[&nginx], on_clusters(&["member1"])),
            with_priority(by_label("by-label"), 10),
            with_priority(by_kind("by-kind"), -1),
        ])
        .await;
    // Policies and templates arrive on separate watches. The policies must arrive first.
    wait_for_pending_work(&plane).await;
    plane.create_all([nginx]).await;
    wait_until_claimed_by(&plane, "by-label").await;
    plane.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn policies_with_equal_priority_are_ranked_by_match_then_by_name() {
    let plane = Plane::start().await;
    let nginx = deployment("nginx", 1);
    plane
        .create_all([
            with_priority(by_label("a-by-label"), 5),
            with_priority(policy("c", &[&nginx], on_all_clusters()), 5),
            with_priority(policy("b", &[&nginx], on_all_clusters()), 5),
        ])
        .await;
    // Policies and templates arrive on separate watches. The policies must arrive first.
    wait_for_pending_work(&plane).await;
    plane.create_all([nginx]).await;
    wait_until_claimed_by(&plane, "b").await;
    plane.stop().await;
}

/// The ClusterPropagationPolicy has the higher explicit priority.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_namespaced_policy_wins_over_a_cluster_policy() {
    let plane = Plane::start().await;
    let nginx = deployment("nginx", 1);
    let wide = plane.unique("wide");
    let mut cluster_wide = with_priority(
        cluster_policy(&wide, &[&nginx], on_clusters(&["member1"])),
        100,
    );
    cluster_wide["spec"]["resourceSelectors"][0]["namespace"] = json!(plane.namespace);
    plane
        .create_all([
            cluster_wide,
            policy("own", &[&nginx], on_clusters(&["member2"])),
        ])
        .await;
    // Policies and templates arrive on separate watches. The policies must arrive first.
    wait_for_pending_work(&plane).await;
    plane.create_all([nginx]).await;
    wait_until_placed(&plane, "nginx-deployment", &[("member2", 1)]).await;
    wait_until_claimed_by(&plane, "own").await;

    // After the deletion of the PropagationPolicy, the ClusterPropagationPolicy claims the template. The binding loses
    // the annotations of the deleted policy.
    plane
        .api::<PropagationPolicy>()
        .delete("own", &DeleteParams::default())
        .await
        .unwrap();
    let binding = wait_until_placed(&plane, "nginx-deployment", &[("member1", 1)]).await;
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

/// The later policy has a higher priority and a more precise selector.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_policy_created_later_does_not_preempt_a_claim() {
    // `preemption: Always` has no effect here, because its feature gate is off by default, as in Karmada.
    for preemption in ["Never", "Always"] {
        let plane = Plane::start().await;
        let nginx = deployment("nginx", 1);
        plane.create_all([by_kind("first"), nginx.clone()]).await;
        wait_until_claimed_by(&plane, "first").await;
        let better = merged(
            with_priority(policy("better", &[&nginx], on_clusters(&["member1"])), 100),
            json!({ "spec": { "preemption": preemption } }),
        );
        plane.create_all([better]).await;
        wait_for_pending_work(&plane).await;
        wait_until_claimed_by(&plane, "first").await;
        plane.stop().await;
    }
}
