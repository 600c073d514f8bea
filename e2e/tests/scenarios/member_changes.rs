//! Scenarios in which members change: taints, labels, new members, deleted members, new APIs and free capacity.

use std::time::Instant;

use berth_api::Cluster;
use berth_e2e::Plane;
use kube::api::DeleteParams;
use serde_json::{Value, json};

use crate::assertions::{
    REACTION_LIMIT, message, wait_for_failure, wait_for_member_changes, wait_until_placed,
};
use crate::manifests::{
    by_available_replicas, by_weights, deployment, deployment_with_cpu, equal_shares, free_cpu,
    on_all_clusters, on_clusters, on_labelled_clusters, policy,
};

const FINALIZER: &str = "karmada.io/cluster-controller";

/// After the taint is removed, the new workload is placed on the member, too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_no_schedule_taint_rejects_new_workloads_and_keeps_old_ones() {
    let plane = Plane::start().await;
    let old = deployment("old", 1);
    plane
        .create_all([
            policy("old", &[&old], on_clusters(&["member1", "member2"])),
            old,
        ])
        .await;
    wait_until_placed(&plane, "old-deployment", &[("member1", 1), ("member2", 1)]).await;

    let taints = json!({ "spec": { "taints": [{ "key": "down", "effect": "NoSchedule" }] } });
    plane.edit(&plane.all::<Cluster>(), "member1", taints).await;
    wait_for_member_changes(&plane).await;
    let new = deployment("new", 1);
    plane
        .create_all([
            policy("new", &[&new], on_clusters(&["member1", "member2"])),
            new,
        ])
        .await;
    wait_until_placed(&plane, "new-deployment", &[("member2", 1)]).await;
    wait_until_placed(&plane, "old-deployment", &[("member1", 1), ("member2", 1)]).await;

    let no_taints = json!({ "spec": { "taints": null } });
    plane
        .edit(&plane.all::<Cluster>(), "member1", no_taints)
        .await;
    wait_until_placed(&plane, "new-deployment", &[("member1", 1), ("member2", 1)]).await;
    plane.stop().await;
}

/// One workload tolerates the taint of one member, one tolerates the taints of all members, and one tolerates no taint.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_workload_is_placed_only_where_it_tolerates_the_taint() {
    let plane = Plane::start().await;
    let clusters = plane.all::<Cluster>();
    for member in ["member1", "member2", "member3"] {
        let taints = json!([{ "key": "dedicated", "value": member, "effect": "NoSchedule" }]);
        plane
            .edit(&clusters, member, json!({ "spec": { "taints": taints } }))
            .await;
    }
    wait_for_member_changes(&plane).await;
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
            policy("none", &[&none], on_all_clusters()),
            one,
            all,
            none,
        ])
        .await;
    wait_until_placed(&plane, "one-deployment", &[("member2", 1)]).await;
    wait_until_placed(
        &plane,
        "all-deployment",
        &[("member1", 1), ("member2", 1), ("member3", 1)],
    )
    .await;
    let none = wait_for_failure(&plane, "none-deployment", "NoClusterFit").await;
    assert_eq!(
        message(&none),
        "0/3 clusters are available: \
         1 cluster(s) had untolerated taint {dedicated=member1:NoSchedule}, \
         1 cluster(s) had untolerated taint {dedicated=member2:NoSchedule}, \
         1 cluster(s) had untolerated taint {dedicated=member3:NoSchedule}."
    );
    plane.stop().await;
}

/// A finalizer keeps the deleted Cluster. The other members get its replicas.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workloads_move_off_a_member_that_is_being_deleted() {
    let plane = Plane::start().await;
    let clusters = plane.all::<Cluster>();
    // In Karmada, a finalizer keeps a deleted Cluster until its workloads are removed.
    let finalizer = json!({ "metadata": { "finalizers": [FINALIZER] } });
    plane.edit(&clusters, "member3", finalizer).await;
    let (copied, shared) = (deployment("copied", 1), deployment("shared", 6));
    plane
        .create_all([
            policy("copied", &[&copied], on_all_clusters()),
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
    wait_until_placed(&plane, "copied-deployment", &all(1)).await;
    wait_until_placed(&plane, "shared-deployment", &all(2)).await;

    clusters
        .delete("member3", &DeleteParams::default())
        .await
        .unwrap();
    wait_until_placed(
        &plane,
        "copied-deployment",
        &[("member1", 1), ("member2", 1)],
    )
    .await;
    wait_until_placed(
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

/// A Cluster without a finalizer is deleted at once. The other member gets its replicas.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workloads_move_off_a_member_that_disappears() {
    let plane = Plane::start().await;
    let (copied, shared) = (deployment("copied", 1), deployment("shared", 6));
    plane
        .create_all([
            policy("copied", &[&copied], on_clusters(&["member1", "member2"])),
            policy(
                "shared",
                &[&shared],
                by_weights(&[("member1", 1), ("member2", 2)]),
            ),
            copied,
            shared,
        ])
        .await;
    wait_until_placed(
        &plane,
        "copied-deployment",
        &[("member1", 1), ("member2", 1)],
    )
    .await;
    wait_until_placed(
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
    wait_until_placed(&plane, "copied-deployment", &[("member1", 1)]).await;
    wait_until_placed(&plane, "shared-deployment", &[("member1", 6)]).await;
    plane.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_is_used_while_its_label_matches() {
    let plane = Plane::start().await;
    let clusters = plane.all::<Cluster>();
    let label = |value: Value| json!({ "metadata": { "labels": { "site": value } } });
    for member in ["member1", "member2"] {
        plane.edit(&clusters, member, label(json!("hall-1"))).await;
    }
    let nginx = deployment("nginx", 2);
    plane
        .create_all([
            policy("p", &[&nginx], on_labelled_clusters("site", "hall-1")),
            nginx,
        ])
        .await;
    let both = [("member1", 2), ("member2", 2)];
    wait_until_placed(&plane, "nginx-deployment", &both).await;
    plane.edit(&clusters, "member1", label(json!(null))).await;
    wait_until_placed(&plane, "nginx-deployment", &[("member2", 2)]).await;
    plane
        .edit(&clusters, "member1", label(json!("hall-1")))
        .await;
    wait_until_placed(&plane, "nginx-deployment", &both).await;
    plane.stop().await;
}

/// Returns a Cluster with the not-ready taint that Karmada's controllers add to a new Cluster.
fn new_member() -> Value {
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

/// Returns the status of a member that serves Deployments.
fn serving_deployments() -> Value {
    json!({ "apiEnablements": [{
        "groupVersion": "apps/v1",
        "resources": [{ "name": "deployments", "kind": "Deployment" }],
    }] })
}

/// The binding without divided replicas gets a fourth cluster. The binding with divided replicas does not change.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_member_gets_workloads_duplicated_to_all_members() {
    let plane = Plane::start().await;
    let (everyone, shared) = (deployment("everyone", 1), deployment("shared", 6));
    plane
        .create_all([
            policy("everyone", &[&everyone], on_all_clusters()),
            policy("shared", &[&shared], equal_shares()),
            everyone,
            shared,
        ])
        .await;
    let three = [("member1", 1), ("member2", 1), ("member3", 1)];
    wait_until_placed(&plane, "everyone-deployment", &three).await;
    let thirds = [("member1", 2), ("member2", 2), ("member3", 2)];
    wait_until_placed(&plane, "shared-deployment", &thirds).await;

    plane.create(new_member()).await.unwrap();
    plane.report("member9", serving_deployments()).await;
    let ready = json!({ "spec": { "taints": null } });
    plane.edit(&plane.all::<Cluster>(), "member9", ready).await;
    let four = [three.as_slice(), &[("member9", 1)]].concat();
    wait_until_placed(&plane, "everyone-deployment", &four).await;
    // The scheduler does not redistribute divided replicas.
    wait_until_placed(&plane, "shared-deployment", &thirds).await;
    plane.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pending_workload_is_placed_on_a_new_member() {
    let plane = Plane::start().await;
    let nginx = deployment("nginx", 2);
    plane
        .create_all([policy("p", &[&nginx], on_clusters(&["member9"])), nginx])
        .await;
    wait_for_failure(&plane, "nginx-deployment", "NoClusterFit").await;

    let mut member = new_member();
    member["spec"]["taints"] = json!([]);
    plane.create(member).await.unwrap();
    let began = Instant::now();
    plane.report("member9", serving_deployments()).await;
    wait_until_placed(&plane, "nginx-deployment", &[("member9", 2)]).await;
    assert!(began.elapsed() < REACTION_LIMIT, "{:?}", began.elapsed());
    plane.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pending_workload_is_placed_as_soon_as_capacity_is_free() {
    let plane = Plane::start().await;
    plane.report("member1", free_cpu(2)).await;
    wait_for_member_changes(&plane).await;
    let nginx = deployment_with_cpu("nginx", 4, "1");
    let placement = crate::manifests::merged(by_available_replicas(), on_clusters(&["member1"]));
    plane
        .create_all([policy("p", &[&nginx], placement), nginx])
        .await;
    let waiting = wait_for_failure(&plane, "nginx-deployment", "Unschedulable").await;
    assert_eq!(
        message(&waiting),
        "failed to assign replicas: failed to scale up: \
         Clusters available replicas 2 are not enough to schedule."
    );
    // Neither less capacity in member1 nor more capacity in another member makes the binding schedulable.
    plane.report("member1", free_cpu(1)).await;
    plane.report("member2", free_cpu(500)).await;
    wait_for_member_changes(&plane).await;
    wait_for_failure(&plane, "nginx-deployment", "Unschedulable").await;

    let began = Instant::now();
    plane.report("member1", free_cpu(4)).await;
    wait_until_placed(&plane, "nginx-deployment", &[("member1", 4)]).await;
    assert!(began.elapsed() < REACTION_LIMIT, "{:?}", began.elapsed());
    plane.stop().await;
}

/// A placed resource without divided replicas reaches a member as soon as the member serves its kind, and leaves the
/// member when the member no longer serves the kind.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn placed_resources_follow_the_apis_of_a_member() {
    let plane = Plane::start().await;
    let apis = |group: &str, plural: &str, kind: &str| json!({ "apiEnablements": [{ "groupVersion": group, "resources": [{ "name": plural, "kind": kind }] }] });
    plane
        .report("member3", apis("v1", "configmaps", "ConfigMap"))
        .await;
    wait_for_member_changes(&plane).await;
    let nginx = deployment("nginx", 1);
    plane
        .create_all([policy("p", &[&nginx], on_all_clusters()), nginx])
        .await;
    let two = [("member1", 1), ("member2", 1)];
    wait_until_placed(&plane, "nginx-deployment", &two).await;
    plane
        .report("member3", apis("apps/v1", "deployments", "Deployment"))
        .await;
    let three = [("member1", 1), ("member2", 1), ("member3", 1)];
    wait_until_placed(&plane, "nginx-deployment", &three).await;
    plane
        .report("member3", apis("v1", "configmaps", "ConfigMap"))
        .await;
    wait_until_placed(&plane, "nginx-deployment", &two).await;
    plane.stop().await;
}
