//! How replicas are divided, and divided again after `kubectl scale`.

use berth_e2e::Plane;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::batch::v1::Job;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::manifests::{
    aggregated, by_free_room, deployment, deployment_of, equal_shares, everywhere, free_cpu, job,
    policy, weighted,
};
use crate::watching::{after_changes_of_members, placed};

/// What `kubectl scale` does.
async fn scale(plane: &Plane, name: &str, replicas: i32) {
    let patch = Patch::Merge(json!({ "spec": { "replicas": replicas } }));
    plane
        .api::<Deployment>()
        .patch_scale(name, &PatchParams::default(), &patch)
        .await
        .unwrap();
}

fn three(replicas: [i32; 3]) -> [(&'static str, i32); 3] {
    [
        ("member1", replicas[0]),
        ("member2", replicas[1]),
        ("member3", replicas[2]),
    ]
}

/// Places a Deployment, then scales it step by step.
async fn scaled(placement: Value, steps: &[(i32, &[(&str, i32)])]) {
    let plane = Plane::start().await;
    let nginx = deployment_of("nginx", steps[0].0, "1");
    plane
        .create_all([policy("p", &[&nginx], placement), nginx])
        .await;
    for (index, (replicas, wanted)) in steps.iter().enumerate() {
        if index > 0 {
            scale(&plane, "nginx", *replicas).await;
        }
        placed(&plane, "nginx-deployment", wanted).await;
    }
    plane.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn duplicated_gives_every_member_all_replicas() {
    scaled(
        everywhere(),
        &[(3, &three([3, 3, 3])), (2, &three([2, 2, 2]))],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_weights_the_shares_are_equal() {
    scaled(
        equal_shares(),
        &[(6, &three([2, 2, 2])), (9, &three([3, 3, 3]))],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn static_weights_hold_after_scaling() {
    scaled(
        weighted(&[("member1", 1), ("member2", 2), ("member3", 3)]),
        &[
            (6, &three([1, 2, 3])),
            (12, &three([2, 4, 6])),
            (6, &three([1, 2, 3])),
        ],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_without_a_weight_get_nothing() {
    scaled(
        weighted(&[("member1", 1), ("member3", 1)]),
        &[(4, &[("member1", 2), ("member3", 2)])],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dynamic_weights_follow_the_free_room() {
    // The made-up members have 28, 56 and 112 cores free.
    scaled(
        by_free_room(),
        &[
            (7, &three([1, 2, 4])),
            (14, &three([2, 4, 8])),
            (7, &three([1, 2, 4])),
        ],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn aggregated_fills_few_members_and_keeps_those_in_use() {
    let plane = Plane::start().await;
    for (member, cpu) in [("member1", 6), ("member2", 4), ("member3", 2)] {
        plane.report(member, free_cpu(cpu)).await;
    }
    after_changes_of_members(&plane).await;
    let nginx = deployment_of("nginx", 5, "1");
    plane
        .create_all([policy("p", &[&nginx], aggregated()), nginx])
        .await;
    placed(&plane, "nginx-deployment", &[("member1", 5)]).await;
    // One core is left in member1; what does not fit there goes to the next member with most room.
    plane.report("member1", free_cpu(1)).await;
    after_changes_of_members(&plane).await;
    scale(&plane, "nginx", 8).await;
    placed(
        &plane,
        "nginx-deployment",
        &[("member1", 6), ("member2", 2)],
    )
    .await;
    scale(&plane, "nginx", 3).await;
    placed(&plane, "nginx-deployment", &[("member1", 3)]).await;
    plane.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_parallelism_of_a_job_is_divided() {
    let plane = Plane::start().await;
    let pi = job("pi", 6, 12);
    let weights = weighted(&[("member1", 1), ("member2", 2), ("member3", 3)]);
    plane.create_all([policy("p", &[&pi], weights), pi]).await;
    placed(&plane, "pi-job", &three([1, 2, 3])).await;
    let more = json!({ "spec": { "parallelism": 12 } });
    plane.edit(&plane.api::<Job>(), "pi", more).await;
    placed(&plane, "pi-job", &three([2, 4, 6])).await;
    plane.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scaling_to_zero_withdraws_what_asks_for_resources() {
    let plane = Plane::start().await;
    let (asking, free) = (deployment_of("asking", 3, "1"), deployment("free", 3));
    plane
        .create_all([
            policy("asking", &[&asking], equal_shares()),
            policy("free", &[&free], equal_shares()),
            asking,
            free,
        ])
        .await;
    for name in ["asking", "free"] {
        placed(&plane, &format!("{name}-deployment"), &three([1, 1, 1])).await;
        scale(&plane, name, 0).await;
    }
    placed(&plane, "asking-deployment", &[]).await;
    // Without requests it is no workload any more, and goes everywhere as it is: Karmada does the same.
    placed(&plane, "free-deployment", &three([0, 0, 0])).await;
    scale(&plane, "asking", 6).await;
    placed(&plane, "asking-deployment", &three([2, 2, 2])).await;
    plane.stop().await;
}
