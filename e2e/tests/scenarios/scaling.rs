//! Scenarios about the division of replicas among members, and its update when a user scales the workload.

use berth_e2e::Plane;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::batch::v1::Job;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::assertions::{wait_for_member_changes, wait_until_placed};
use crate::manifests::{
    aggregated, by_available_replicas, by_weights, deployment, deployment_with_cpu, equal_shares,
    free_cpu, job, on_all_clusters, policy,
};

/// Patches the scale subresource, as `kubectl scale` does.
async fn scale(plane: &Plane, name: &str, replicas: i32) {
    let patch = Patch::Merge(json!({ "spec": { "replicas": replicas } }));
    plane
        .api::<Deployment>()
        .patch_scale(name, &PatchParams::default(), &patch)
        .await
        .unwrap();
}

/// Returns the wanted replicas of the three members.
fn on_members(replicas: [i32; 3]) -> [(&'static str, i32); 3] {
    [
        ("member1", replicas[0]),
        ("member2", replicas[1]),
        ("member3", replicas[2]),
    ]
}

/// Creates a Deployment with a policy, scales it step by step, and waits for the wanted division after each step. A
/// step is the number of replicas and their division.
async fn check_scaling(placement: Value, steps: &[(i32, &[(&str, i32)])]) {
    let plane = Plane::start().await;
    let nginx = deployment_with_cpu("nginx", steps[0].0, "1");
    plane
        .create_all([policy("p", &[&nginx], placement), nginx])
        .await;
    for (index, (replicas, wanted)) in steps.iter().enumerate() {
        if index > 0 {
            scale(&plane, "nginx", *replicas).await;
        }
        wait_until_placed(&plane, "nginx-deployment", wanted).await;
    }
    plane.stop().await;
}

/// Without a replica division, each member gets the replicas of the template.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn duplicated_scheduling_gives_every_member_all_replicas() {
    check_scaling(
        on_all_clusters(),
        &[(3, &on_members([3, 3, 3])), (2, &on_members([2, 2, 2]))],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_are_divided_equally_without_weights() {
    check_scaling(
        equal_shares(),
        &[(6, &on_members([2, 2, 2])), (9, &on_members([3, 3, 3]))],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn static_weights_apply_after_scaling() {
    check_scaling(
        by_weights(&[("member1", 1), ("member2", 2), ("member3", 3)]),
        &[
            (6, &on_members([1, 2, 3])),
            (12, &on_members([2, 4, 6])),
            (6, &on_members([1, 2, 3])),
        ],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_without_a_weight_get_no_replicas() {
    check_scaling(
        by_weights(&[("member1", 1), ("member3", 1)]),
        &[(4, &[("member1", 2), ("member3", 2)])],
    )
    .await;
}

/// The weights of the members are their available replicas.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dynamic_weights_follow_available_replicas() {
    // The simulated members have 28, 56 and 112 free cores.
    check_scaling(
        by_available_replicas(),
        &[
            (7, &on_members([1, 2, 4])),
            (14, &on_members([2, 4, 8])),
            (7, &on_members([1, 2, 4])),
        ],
    )
    .await;
}

/// Additional replicas first use the free capacity of the current member. After scaling down, one member has all
/// replicas.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn aggregated_scheduling_uses_few_members_and_prefers_current_members() {
    let plane = Plane::start().await;
    for (member, cpu) in [("member1", 6), ("member2", 4), ("member3", 2)] {
        plane.report(member, free_cpu(cpu)).await;
    }
    wait_for_member_changes(&plane).await;
    let nginx = deployment_with_cpu("nginx", 5, "1");
    plane
        .create_all([policy("p", &[&nginx], aggregated()), nginx])
        .await;
    wait_until_placed(&plane, "nginx-deployment", &[("member1", 5)]).await;
    // member1 has one free core left. The other new replicas are placed on the member with the most free cores.
    plane.report("member1", free_cpu(1)).await;
    wait_for_member_changes(&plane).await;
    scale(&plane, "nginx", 8).await;
    wait_until_placed(
        &plane,
        "nginx-deployment",
        &[("member1", 6), ("member2", 2)],
    )
    .await;
    scale(&plane, "nginx", 3).await;
    wait_until_placed(&plane, "nginx-deployment", &[("member1", 3)]).await;
    plane.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_parallelism_of_a_job_is_divided() {
    let plane = Plane::start().await;
    let pi = job("pi", 6, 12);
    let weights = by_weights(&[("member1", 1), ("member2", 2), ("member3", 3)]);
    plane.create_all([policy("p", &[&pi], weights), pi]).await;
    wait_until_placed(&plane, "pi-job", &on_members([1, 2, 3])).await;
    let more = json!({ "spec": { "parallelism": 12 } });
    plane.edit(&plane.api::<Job>(), "pi", more).await;
    wait_until_placed(&plane, "pi-job", &on_members([2, 4, 6])).await;
    plane.stop().await;
}

/// Zero replicas remove a workload with resource requests from all members. A workload without requests stays in its
/// members.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scaling_to_zero_withdraws_workloads_with_requests() {
    let plane = Plane::start().await;
    let (requesting, free) = (
        deployment_with_cpu("requesting", 3, "1"),
        deployment("free", 3),
    );
    plane
        .create_all([
            policy("requesting", &[&requesting], equal_shares()),
            policy("free", &[&free], equal_shares()),
            requesting,
            free,
        ])
        .await;
    for name in ["requesting", "free"] {
        wait_until_placed(
            &plane,
            &format!("{name}-deployment"),
            &on_members([1, 1, 1]),
        )
        .await;
        scale(&plane, name, 0).await;
    }
    wait_until_placed(&plane, "requesting-deployment", &[]).await;
    // Zero replicas without requests are propagated to all members, as in Karmada.
    wait_until_placed(&plane, "free-deployment", &on_members([0, 0, 0])).await;
    scale(&plane, "requesting", 6).await;
    wait_until_placed(&plane, "requesting-deployment", &on_members([2, 2, 2])).await;
    plane.stop().await;
}
