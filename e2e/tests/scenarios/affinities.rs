//! Scenarios with ordered affinity groups in `clusterAffinities`, and with overflow groups.

use berth_api::binding::BindingStatus;
use berth_api::{Cluster, PropagationPolicy, ResourceBinding};
use berth_e2e::Plane;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::json;

use crate::assertions::{
    label_site, message, targets, wait_for_event, wait_for_failure, wait_for_member_changes,
    wait_for_next_second_after, wait_until_placed, wait_until_placed_in,
};
use crate::manifests::{
    aggregated, cluster_policy, cluster_role, deployment, deployment_with_cpu, free_cpu, merged,
    on_clusters, policy, two_sites,
};

fn group_in_use(status: Option<&BindingStatus>) -> Option<&str> {
    status?.scheduler_observing_affinity_name.as_deref()
}

/// Triggers the scheduling of a binding from scratch, as Karmada's WorkloadRebalancer does.
async fn rebalance(plane: &Plane, name: &str) {
    let bindings = plane.api::<ResourceBinding>();
    let now = wait_for_next_second_after(&bindings.get(name).await.unwrap()).await;
    let trigger = json!({ "spec": { "rescheduleTriggeredAt": Time(now) } });
    plane.edit(&bindings, name, trigger).await;
}

/// The binding moves to the second group when the first group has no cluster. A new cluster in the first group does not
/// move the binding back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_fitting_group_is_used_and_only_a_rebalance_returns_to_it() {
    let plane = Plane::start().await;
    label_site(&plane, "member1", "one").await;
    label_site(&plane, "member2", "two").await;
    let nginx = deployment("nginx", 2);
    plane
        .create_all([policy("p", &[&nginx], two_sites()), nginx])
        .await;
    let first = wait_until_placed(&plane, "nginx-deployment", &[("member1", 2)]).await;
    assert_eq!(group_in_use(first.status.as_ref()), Some("first"));

    label_site(&plane, "member1", "none").await;
    let second = wait_until_placed(&plane, "nginx-deployment", &[("member2", 2)]).await;
    assert_eq!(group_in_use(second.status.as_ref()), Some("second"));
    wait_for_event(
        &plane,
        "Deployment",
        "nginx",
        "ScheduleBindingFailed",
        "with clusterAffiliates index(0): 0/3 clusters are available",
    )
    .await;

    label_site(&plane, "member1", "one").await;
    wait_until_placed(&plane, "nginx-deployment", &[("member2", 2)]).await;

    rebalance(&plane, "nginx-deployment").await;
    let back = wait_until_placed(&plane, "nginx-deployment", &[("member1", 2)]).await;
    assert_eq!(group_in_use(back.status.as_ref()), Some("first"));
    let time = |binding: &ResourceBinding| {
        let status = binding.status.as_ref().unwrap();
        status.last_scheduled_time.as_ref().unwrap().0
    };
    assert!(time(&back) > time(&second));
    plane.stop().await;
}

/// A ClusterRole moves to the second group when the first group has no cluster.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn affinity_groups_apply_to_cluster_scoped_templates() {
    let plane = Plane::start().await;
    label_site(&plane, "member1", "one").await;
    label_site(&plane, "member2", "two").await;
    let (name, role) = (plane.unique("p"), cluster_role(&plane.unique("reader")));
    let binding = format!("{}-clusterrole", plane.unique("reader"));
    plane
        .create_all([cluster_policy(&name, &[&role], two_sites()), role])
        .await;
    let bindings = plane.all::<berth_api::ClusterResourceBinding>();
    wait_until_placed_in(&plane, &bindings, &binding, &[("member1", 0)]).await;
    label_site(&plane, "member1", "none").await;
    let second = wait_until_placed_in(&plane, &bindings, &binding, &[("member2", 0)]).await;
    assert_eq!(group_in_use(second.status.as_ref()), Some("second"));
    plane.stop().await;
}

/// The only cluster of the first group has a NoExecute taint.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tainted_group_is_skipped() {
    let plane = Plane::start().await;
    label_site(&plane, "member1", "one").await;
    label_site(&plane, "member2", "two").await;
    let taints = json!({ "spec": { "taints": [{ "key": "down", "effect": "NoExecute" }] } });
    let member = plane.edit(&plane.all::<Cluster>(), "member1", taints).await;
    wait_for_member_changes(&plane).await;
    if plane.admits_as_karmada() {
        assert!(member.spec.taints[0].time_added.is_some());
    }
    let nginx = deployment("nginx", 2);
    plane
        .create_all([policy("p", &[&nginx], two_sites()), nginx])
        .await;
    wait_until_placed(&plane, "nginx-deployment", &[("member2", 2)]).await;
    plane.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn if_no_group_fits_the_condition_describes_the_first() {
    let plane = Plane::start().await;
    let nginx = deployment("nginx", 2);
    plane
        .create_all([policy("p", &[&nginx], two_sites()), nginx])
        .await;
    let binding = wait_for_failure(&plane, "nginx-deployment", "NoClusterFit").await;
    assert_eq!(
        message(&binding),
        "0/3 clusters are available: 3 cluster(s) did not match the placement cluster affinity constraint."
    );
    // A new member of the second group requeues the binding.
    label_site(&plane, "member3", "two").await;
    wait_until_placed(&plane, "nginx-deployment", &[("member3", 2)]).await;
    plane.stop().await;
}

/// The binding follows a policy whose placement changes from `clusterAffinity` to `clusterAffinities` and back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn edits_between_a_single_affinity_and_groups_move_the_workload() {
    let plane = Plane::start().await;
    let nginx = deployment("nginx", 1);
    plane
        .create_all([policy("p", &[&nginx], on_clusters(&["member1"])), nginx])
        .await;
    wait_until_placed(&plane, "nginx-deployment", &[("member1", 1)]).await;
    let policies = plane.api::<PropagationPolicy>();
    let groups = json!({ "spec": { "placement": {
        "clusterAffinity": null,
        "clusterAffinities": [{ "affinityName": "first", "clusterNames": ["member2"] }],
    } } });
    plane.edit(&policies, "p", groups).await;
    let binding = wait_until_placed(&plane, "nginx-deployment", &[("member2", 1)]).await;
    assert_eq!(group_in_use(binding.status.as_ref()), Some("first"));

    let single = json!({ "spec": { "placement": {
        "clusterAffinity": { "clusterNames": ["member3"] }, "clusterAffinities": null } } });
    plane.edit(&policies, "p", single).await;
    wait_until_placed(&plane, "nginx-deployment", &[("member3", 1)]).await;
    plane.stop().await;
}

/// Replicas that do not fit into the first cluster are placed in the overflow group. Scaling down removes the replicas
/// from this group.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_overflow_and_return() {
    let plane = Plane::start().await;
    for member in ["member1", "member2"] {
        plane.report(member, free_cpu(2)).await;
    }
    wait_for_member_changes(&plane).await;
    let overflowing = json!({ "clusterAffinities": [{
        "affinityName": "own",
        "clusterNames": ["member1"],
        "overflowAffinities": [{ "affinityName": "rented", "clusterNames": ["member2"] }],
    }] });
    let nginx = deployment_with_cpu("nginx", 2, "1");
    plane
        .create_all([
            policy("p", &[&nginx], merged(aggregated(), overflowing)),
            nginx,
        ])
        .await;
    let deployments = plane.api::<Deployment>();
    let scale = async |replicas: i32| {
        let change = json!({ "spec": { "replicas": replicas } });
        plane.edit(&deployments, "nginx", change).await;
    };
    wait_until_placed(&plane, "nginx-deployment", &[("member1", 2)]).await;
    plane.report("member1", free_cpu(0)).await;
    wait_for_member_changes(&plane).await;
    scale(4).await;
    wait_until_placed(
        &plane,
        "nginx-deployment",
        &[("member1", 2), ("member2", 2)],
    )
    .await;
    plane.report("member2", free_cpu(0)).await;
    wait_for_member_changes(&plane).await;
    scale(5).await;
    let full = wait_for_failure(&plane, "nginx-deployment", "Unschedulable").await;
    assert_eq!(
        message(&full),
        "failed to assign replicas: Clusters available replicas are not enough to schedule."
    );
    assert_eq!(targets(&full), [("member1", 2), ("member2", 2)]);
    scale(2).await;
    wait_until_placed(&plane, "nginx-deployment", &[("member1", 2)]).await;
    plane.stop().await;
}

/// A changed capacity of the members has no effect on the division until a rebalance.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rebalance_divides_replicas_from_scratch() {
    let plane = Plane::start().await;
    let site = json!({ "metadata": { "labels": { "site": "one" } } });
    let clusters = plane.all::<Cluster>();
    for member in ["member1", "member2"] {
        plane.edit(&clusters, member, site.clone()).await;
        plane.report(member, free_cpu(10)).await;
    }
    wait_for_member_changes(&plane).await;
    let nginx = deployment_with_cpu("nginx", 8, "1");
    let placement = merged(
        crate::manifests::by_available_replicas(),
        crate::manifests::on_labelled_clusters("site", "one"),
    );
    plane
        .create_all([policy("p", &[&nginx], placement), nginx])
        .await;
    wait_until_placed(
        &plane,
        "nginx-deployment",
        &[("member1", 4), ("member2", 4)],
    )
    .await;
    // Each member runs four replicas. member1 has capacity for two more, member2 for fourteen more.
    plane.report("member1", free_cpu(2)).await;
    plane.report("member2", free_cpu(14)).await;
    wait_for_member_changes(&plane).await;
    wait_until_placed(
        &plane,
        "nginx-deployment",
        &[("member1", 4), ("member2", 4)],
    )
    .await;
    rebalance(&plane, "nginx-deployment").await;
    wait_until_placed(
        &plane,
        "nginx-deployment",
        &[("member1", 2), ("member2", 6)],
    )
    .await;
    plane.stop().await;
}
