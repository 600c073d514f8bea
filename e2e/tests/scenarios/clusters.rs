//! What changes of the members do: taints, labels, joining, leaving, new APIs, more room.

use std::time::Instant;

use berth_api::Cluster;
use berth_e2e::Plane;
use kube::api::DeleteParams;
use serde_json::{Value, json};

use crate::manifests::{
    by_free_room, deployment, deployment_of, equal_shares, everywhere, free_cpu, labelled, on,
    policy, weighted,
};
use crate::watching::{AT_ONCE, after_changes_of_members, message, not_placed, placed};

const FINALIZER: &str = "karmada.io/cluster-controller";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_taint_keeps_new_workloads_away_and_old_ones_in_place() {
    let plane = Plane::start().await;
    let old = deployment("old", 1);
    plane
        .create_all([policy("old", &[&old], on(&["member1", "member2"])), old])
        .await;
    placed(&plane, "old-deployment", &[("member1", 1), ("member2", 1)]).await;

    let taints = json!({ "spec": { "taints": [{ "key": "down", "effect": "NoSchedule" }] } });
    plane.edit(&plane.all::<Cluster>(), "member1", taints).await;
    after_changes_of_members(&plane).await;
    let new = deployment("new", 1);
    plane
        .create_all([policy("new", &[&new], on(&["member1", "member2"])), new])
        .await;
    placed(&plane, "new-deployment", &[("member2", 1)]).await;
    placed(&plane, "old-deployment", &[("member1", 1), ("member2", 1)]).await;

    let no_taints = json!({ "spec": { "taints": null } });
    plane
        .edit(&plane.all::<Cluster>(), "member1", no_taints)
        .await;
    placed(&plane, "new-deployment", &[("member1", 1), ("member2", 1)]).await;
    plane.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_the_tolerated_taint_lets_a_workload_in() {
    let plane = Plane::start().await;
    let clusters = plane.all::<Cluster>();
    for member in ["member1", "member2", "member3"] {
        let taints = json!([{ "key": "dedicated", "value": member, "effect": "NoSchedule" }]);
        plane
            .edit(&clusters, member, json!({ "spec": { "taints": taints } }))
            .await;
    }
    after_changes_of_members(&plane).await;
    let (one, all, none) = (
        deployment("one", 1),
        deployment("all", 1),
        deployment("none", 1),
    );
    let tolerating = |tolerations: Value| json!({ "clusterTolerations": tolerations });
    plane
        .create_all([
            policy(
                "one",
                &[&one],
                tolerating(
                    json!([{ "key": "dedicated", "operator": "Equal", "value": "member2",
                    "effect": "NoSchedule" }]),
                ),
            ),
            policy(
                "all",
                &[&all],
                tolerating(json!([{ "key": "dedicated", "operator": "Exists" }])),
            ),
            policy("none", &[&none], everywhere()),
            one,
            all,
            none,
        ])
        .await;
    placed(&plane, "one-deployment", &[("member2", 1)]).await;
    placed(
        &plane,
        "all-deployment",
        &[("member1", 1), ("member2", 1), ("member3", 1)],
    )
    .await;
    let none = not_placed(&plane, "none-deployment", "NoClusterFit").await;
    assert_eq!(
        message(&none),
        "0/3 clusters are available: \
         1 cluster(s) had untolerated taint {dedicated=member1:NoSchedule}, \
         1 cluster(s) had untolerated taint {dedicated=member2:NoSchedule}, \
         1 cluster(s) had untolerated taint {dedicated=member3:NoSchedule}."
    );
    plane.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leaving_member_loses_its_workloads() {
    let plane = Plane::start().await;
    let clusters = plane.all::<Cluster>();
    // In Karmada a controller keeps a leaving Cluster until its workloads are gone.
    let held = json!({ "metadata": { "finalizers": [FINALIZER] } });
    plane.edit(&clusters, "member3", held).await;
    let (copied, shared) = (deployment("copied", 1), deployment("shared", 6));
    plane
        .create_all([
            policy("copied", &[&copied], everywhere()),
            policy("shared", &[&shared], equal_shares()),
            copied,
            shared,
        ])
        .await;
    let all = |replicas| {
        [
            ("member1", replicas),
            ("member2", replicas),
            ("member3", replicas),
        ]
    };
    placed(&plane, "copied-deployment", &all(1)).await;
    placed(&plane, "shared-deployment", &all(2)).await;

    clusters
        .delete("member3", &DeleteParams::default())
        .await
        .unwrap();
    placed(
        &plane,
        "copied-deployment",
        &[("member1", 1), ("member2", 1)],
    )
    .await;
    placed(
        &plane,
        "shared-deployment",
        &[("member1", 3), ("member2", 3)],
    )
    .await;
    let released = json!({ "metadata": { "finalizers": null } });
    plane.edit(&clusters, "member3", released).await;
    plane.until_gone(&clusters, "member3").await;
    plane.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_is_gone_at_once_loses_its_workloads_too() {
    let plane = Plane::start().await;
    let (copied, shared) = (deployment("copied", 1), deployment("shared", 6));
    plane
        .create_all([
            policy("copied", &[&copied], on(&["member1", "member2"])),
            policy(
                "shared",
                &[&shared],
                weighted(&[("member1", 1), ("member2", 2)]),
            ),
            copied,
            shared,
        ])
        .await;
    placed(
        &plane,
        "copied-deployment",
        &[("member1", 1), ("member2", 1)],
    )
    .await;
    placed(
        &plane,
        "shared-deployment",
        &[("member1", 2), ("member2", 4)],
    )
    .await;

    plane
        .all::<Cluster>()
        .delete("member2", &DeleteParams::default())
        .await
        .unwrap();
    placed(&plane, "copied-deployment", &[("member1", 1)]).await;
    placed(&plane, "shared-deployment", &[("member1", 6)]).await;
    plane.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_label_lets_a_member_in_and_out() {
    let plane = Plane::start().await;
    let clusters = plane.all::<Cluster>();
    let label = |value: Value| json!({ "metadata": { "labels": { "site": value } } });
    for member in ["member1", "member2"] {
        plane.edit(&clusters, member, label(json!("hall-1"))).await;
    }
    let nginx = deployment("nginx", 2);
    plane
        .create_all([policy("p", &[&nginx], labelled("site", "hall-1")), nginx])
        .await;
    let both = [("member1", 2), ("member2", 2)];
    placed(&plane, "nginx-deployment", &both).await;
    plane.edit(&clusters, "member1", label(json!(null))).await;
    placed(&plane, "nginx-deployment", &[("member2", 2)]).await;
    plane
        .edit(&clusters, "member1", label(json!("hall-1")))
        .await;
    placed(&plane, "nginx-deployment", &both).await;
    plane.stop().await;
}

/// A Cluster that joins as Karmada's controllers let it: tainted until it is ready.
fn newcomer() -> Value {
    json!({
        "apiVersion": "cluster.karmada.io/v1alpha1",
        "kind": "Cluster",
        "metadata": { "name": "member9", "annotations": { "e2e.berth/member": "" } },
        "spec": {
            "syncMode": "Push",
            "taints": [{ "key": "cluster.karmada.io/not-ready", "effect": "NoSchedule" }],
        },
    })
}

fn deployments_are_served() -> Value {
    json!({ "apiEnablements": [{
        "groupVersion": "apps/v1",
        "resources": [{ "name": "deployments", "kind": "Deployment" }],
    }] })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_joins_gets_what_goes_everywhere() {
    let plane = Plane::start().await;
    let (everyone, shared) = (deployment("everyone", 1), deployment("shared", 6));
    plane
        .create_all([
            policy("everyone", &[&everyone], everywhere()),
            policy("shared", &[&shared], equal_shares()),
            everyone,
            shared,
        ])
        .await;
    let three = [("member1", 1), ("member2", 1), ("member3", 1)];
    placed(&plane, "everyone-deployment", &three).await;
    let thirds = [("member1", 2), ("member2", 2), ("member3", 2)];
    placed(&plane, "shared-deployment", &thirds).await;

    plane.create(newcomer()).await.unwrap();
    plane.report("member9", deployments_are_served()).await;
    let ready = json!({ "spec": { "taints": null } });
    plane.edit(&plane.all::<Cluster>(), "member9", ready).await;
    let four = [three.as_slice(), &[("member9", 1)]].concat();
    placed(&plane, "everyone-deployment", &four).await;
    // What is divided stays where it is.
    placed(&plane, "shared-deployment", &thirds).await;
    plane.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_workload_that_fitted_nowhere_goes_to_the_member_that_joins() {
    let plane = Plane::start().await;
    let nginx = deployment("nginx", 2);
    plane
        .create_all([policy("p", &[&nginx], on(&["member9"])), nginx])
        .await;
    not_placed(&plane, "nginx-deployment", "NoClusterFit").await;

    let mut member = newcomer();
    member["spec"]["taints"] = json!([]);
    plane.create(member).await.unwrap();
    let began = Instant::now();
    plane.report("member9", deployments_are_served()).await;
    placed(&plane, "nginx-deployment", &[("member9", 2)]).await;
    assert!(began.elapsed() < AT_ONCE, "{:?}", began.elapsed());
    plane.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiting_workload_is_placed_as_soon_as_there_is_room() {
    let plane = Plane::start().await;
    plane.report("member1", free_cpu(2)).await;
    after_changes_of_members(&plane).await;
    let nginx = deployment_of("nginx", 4, "1");
    let placement = crate::manifests::but(by_free_room(), on(&["member1"]));
    plane
        .create_all([policy("p", &[&nginx], placement), nginx])
        .await;
    let waiting = not_placed(&plane, "nginx-deployment", "Unschedulable").await;
    assert_eq!(
        message(&waiting),
        "failed to assign replicas: failed to scale up: \
         Clusters available replicas 2 are not enough to schedule."
    );
    // Less room, or no more in another member, wakes nobody.
    plane.report("member1", free_cpu(1)).await;
    plane.report("member2", free_cpu(500)).await;
    after_changes_of_members(&plane).await;
    not_placed(&plane, "nginx-deployment", "Unschedulable").await;

    let began = Instant::now();
    plane.report("member1", free_cpu(4)).await;
    placed(&plane, "nginx-deployment", &[("member1", 4)]).await;
    assert!(began.elapsed() < AT_ONCE, "{:?}", began.elapsed());
    plane.stop().await;
}
