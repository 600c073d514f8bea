//! Scenarios with workloads that the scheduler cannot place. The binding has a condition, and events report the failure
//! for the binding and the template.

use berth_api::Cluster;
use berth_e2e::Plane;
use serde_json::json;

use crate::assertions::{
    event_source, message, targets, wait_for_event, wait_for_failure, wait_for_member_changes,
    wait_until_placed,
};
use crate::manifests::{
    aggregated, by_available_replicas, deployment, deployment_with_cpu, merged, on_all_clusters,
    on_labelled_clusters, policy, spread,
};

/// The events are about the binding and the template, and contain the message of the condition.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_failure_has_a_reason_a_message_and_two_events() {
    let plane = Plane::start().await;
    let cases = [
        (
            "affinity",
            on_labelled_clusters("site", "nowhere"),
            "NoClusterFit",
            "0/3 clusters are available: 3 cluster(s) did not match the placement cluster affinity constraint.",
        ),
        (
            "capacity",
            by_available_replicas(),
            "Unschedulable",
            "failed to assign replicas: failed to scale up: \
             Clusters available replicas 196 are not enough to schedule.",
        ),
        (
            "aggregated-capacity",
            aggregated(),
            "Unschedulable",
            "failed to assign replicas: failed to scale up: \
             Clusters available replicas 196 are not enough to schedule.",
        ),
        (
            "spread",
            spread(4, 5),
            "SchedulerError",
            "failed to select clusters: the number of feasible clusters is less than spreadConstraint.MinGroups",
        ),
        (
            "selected-capacity",
            merged(by_available_replicas(), spread(1, 2)),
            "SchedulerError",
            "failed to select clusters: no enough resource when selecting 2 clusters",
        ),
    ];
    for (name, placement, reason, text) in cases {
        let template = deployment_with_cpu(name, 1000, "1");
        plane
            .create_all([policy(name, &[&template], placement), template])
            .await;
        let binding = format!("{name}-deployment");
        let stored = wait_for_failure(&plane, &binding, reason).await;
        assert_eq!(message(&stored), text, "{name}");
        assert!(targets(&stored).is_empty(), "{name}");
        for (kind, object) in [("ResourceBinding", &*binding), ("Deployment", name)] {
            let event = wait_for_event(&plane, kind, object, "ScheduleBindingFailed", text).await;
            assert_eq!(event.type_.as_deref(), Some("Warning"), "{name}");
            assert_eq!(event_source(&event), "default-scheduler", "{name}");
        }
    }
    plane.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kind_that_no_member_serves_is_unschedulable() {
    let plane = Plane::start().await;
    let nginx = deployment("nginx", 1);
    let only_config_maps = json!([{ "groupVersion": "v1",
        "resources": [{ "name": "configmaps", "kind": "ConfigMap" }] }]);
    for member in ["member1", "member2", "member3"] {
        plane
            .report(member, json!({ "apiEnablements": only_config_maps }))
            .await;
    }
    wait_for_member_changes(&plane).await;
    plane
        .create_all([policy("p", &[&nginx], on_all_clusters()), nginx])
        .await;
    let binding = wait_for_failure(&plane, "nginx-deployment", "NoClusterFit").await;
    assert_eq!(
        message(&binding),
        "0/3 clusters are available: 3 cluster(s) did not have the API resource."
    );
    plane.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_members_the_message_reports_no_cluster() {
    let plane = Plane::start_with(berth_e2e::Setup { members: 0 }).await;
    let nginx = deployment("nginx", 1);
    plane
        .create_all([policy("p", &[&nginx], on_all_clusters()), nginx])
        .await;
    let binding = wait_for_failure(&plane, "nginx-deployment", "NoClusterFit").await;
    assert_eq!(
        message(&binding),
        "0/0 clusters are available: no cluster exists."
    );
    plane.stop().await;
}

/// The only member loses the label that the policy selects. The binding loses its clusters until the member has the
/// label again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_workload_that_fits_nowhere_any_more_is_withdrawn() {
    let plane = Plane::start().await;
    let site = |value| json!({ "metadata": { "labels": { "site": value } } });
    let clusters = plane.all::<Cluster>();
    plane.edit(&clusters, "member1", site("hall")).await;
    let nginx = deployment("nginx", 1);
    plane
        .create_all([
            policy("p", &[&nginx], on_labelled_clusters("site", "hall")),
            nginx,
        ])
        .await;
    wait_until_placed(&plane, "nginx-deployment", &[("member1", 1)]).await;
    plane.edit(&clusters, "member1", site("yard")).await;
    let binding = wait_for_failure(&plane, "nginx-deployment", "NoClusterFit").await;
    assert!(targets(&binding).is_empty());
    plane.edit(&clusters, "member1", site("hall")).await;
    wait_until_placed(&plane, "nginx-deployment", &[("member1", 1)]).await;
    plane.stop().await;
}

/// The members have too few free cores for the new number of replicas.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_workload_that_cannot_scale_up_keeps_its_replicas() {
    let plane = Plane::start().await;
    let nginx = deployment_with_cpu("nginx", 7, "1");
    plane
        .create_all([policy("p", &[&nginx], by_available_replicas()), nginx])
        .await;
    let before = [("member1", 1), ("member2", 2), ("member3", 4)];
    wait_until_placed(&plane, "nginx-deployment", &before).await;
    let replicas = json!({ "spec": { "replicas": 1000 } });
    let deployments = plane.api::<k8s_openapi::api::apps::v1::Deployment>();
    plane.edit(&deployments, "nginx", replicas).await;
    let binding = wait_for_failure(&plane, "nginx-deployment", "Unschedulable").await;
    assert_eq!(targets(&binding), before);
    plane.stop().await;
}
