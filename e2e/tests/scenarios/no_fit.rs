//! A workload that cannot be placed says why, on the binding and to whoever looks at the template.

use berth_api::{Cluster, ResourceBinding};
use berth_e2e::Plane;
use serde_json::json;

use crate::manifests::{
    aggregated, but, by_free_room, deployment, deployment_of, everywhere, labelled, on, policy,
    spread,
};
use crate::watching::{
    after_all_else, after_changes_of_members, component, events_about, message, not_placed, placed,
    targets, told, version,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_failure_has_its_reason_its_message_and_two_events() {
    let plane = Plane::start().await;
    let cases = [
        (
            "affinity",
            labelled("site", "nowhere"),
            "NoClusterFit",
            "0/3 clusters are available: 3 cluster(s) did not match the placement cluster affinity constraint.",
        ),
        (
            "room",
            by_free_room(),
            "Unschedulable",
            "failed to assign replicas: failed to scale up: \
             Clusters available replicas 196 are not enough to schedule.",
        ),
        (
            "aggregated-room",
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
            "selected-room",
            but(by_free_room(), spread(1, 2)),
            "SchedulerError",
            "failed to select clusters: no enough resource when selecting 2 clusters",
        ),
    ];
    for (name, placement, reason, text) in cases {
        let template = deployment_of(name, 1000, "1");
        plane
            .create_all([policy(name, &[&template], placement), template])
            .await;
        let binding = format!("{name}-deployment");
        let stored = not_placed(&plane, &binding, reason).await;
        assert_eq!(message(&stored), text, "{name}");
        assert!(targets(&stored).is_empty(), "{name}");
        for (kind, object) in [("ResourceBinding", &*binding), ("Deployment", name)] {
            let event = told(&plane, kind, object, "ScheduleBindingFailed", text).await;
            assert_eq!(event.type_.as_deref(), Some("Warning"), "{name}");
            assert_eq!(component(&event), "default-scheduler", "{name}");
        }
    }
    plane.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kind_that_no_member_serves_fits_nowhere() {
    let plane = Plane::start().await;
    let nginx = deployment("nginx", 1);
    let only_config_maps = json!([{ "groupVersion": "v1",
        "resources": [{ "name": "configmaps", "kind": "ConfigMap" }] }]);
    for member in ["member1", "member2", "member3"] {
        plane
            .report(member, json!({ "apiEnablements": only_config_maps }))
            .await;
    }
    after_changes_of_members(&plane).await;
    plane
        .create_all([policy("p", &[&nginx], everywhere()), nginx])
        .await;
    let binding = not_placed(&plane, "nginx-deployment", "NoClusterFit").await;
    assert_eq!(
        message(&binding),
        "0/3 clusters are available: 3 cluster(s) did not have the API resource."
    );
    plane.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_members_there_is_no_cluster() {
    let plane = Plane::start_with(berth_e2e::Setup { members: 0 }).await;
    let nginx = deployment("nginx", 1);
    plane
        .create_all([policy("p", &[&nginx], everywhere()), nginx])
        .await;
    let binding = not_placed(&plane, "nginx-deployment", "NoClusterFit").await;
    assert_eq!(
        message(&binding),
        "0/0 clusters are available: no cluster exists."
    );
    plane.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_fits_nowhere_any_more_is_withdrawn() {
    let plane = Plane::start().await;
    let site = |value| json!({ "metadata": { "labels": { "site": value } } });
    let clusters = plane.all::<Cluster>();
    plane.edit(&clusters, "member1", site("hall")).await;
    let nginx = deployment("nginx", 1);
    plane
        .create_all([policy("p", &[&nginx], labelled("site", "hall")), nginx])
        .await;
    placed(&plane, "nginx-deployment", &[("member1", 1)]).await;
    plane.edit(&clusters, "member1", site("yard")).await;
    let binding = not_placed(&plane, "nginx-deployment", "NoClusterFit").await;
    assert!(targets(&binding).is_empty());
    plane.edit(&clusters, "member1", site("hall")).await;
    placed(&plane, "nginx-deployment", &[("member1", 1)]).await;
    plane.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_lacks_room_keeps_what_it_has() {
    let plane = Plane::start().await;
    let nginx = deployment_of("nginx", 7, "1");
    plane
        .create_all([policy("p", &[&nginx], by_free_room()), nginx])
        .await;
    let before = [("member1", 1), ("member2", 2), ("member3", 4)];
    placed(&plane, "nginx-deployment", &before).await;
    let replicas = json!({ "spec": { "replicas": 1000 } });
    let deployments = plane.api::<k8s_openapi::api::apps::v1::Deployment>();
    plane.edit(&deployments, "nginx", replicas).await;
    let binding = not_placed(&plane, "nginx-deployment", "Unschedulable").await;
    assert_eq!(targets(&binding), before);
    plane.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failure_is_told_once() {
    let plane = Plane::start().await;
    // Each of these is retried after a second, or woken by a change of the fleet.
    let (spread_out, homeless) = (deployment("spread-out", 1), deployment("homeless", 1));
    plane
        .create_all([
            policy("spread-out", &[&spread_out], spread(4, 5)),
            policy("homeless", &[&homeless], on(&["nowhere"])),
            spread_out,
            homeless,
        ])
        .await;
    let names = ["spread-out-deployment", "homeless-deployment"];
    let reasons = ["SchedulerError", "NoClusterFit"];
    let mut before = Vec::new();
    for (name, reason) in names.into_iter().zip(reasons) {
        before.push(version(&not_placed(&plane, name, reason).await));
        told(&plane, "ResourceBinding", name, "ScheduleBindingFailed", "").await;
    }
    let bindings = plane.api::<ResourceBinding>();
    let quiet = std::time::Duration::from_millis(2500);
    berth_e2e::eventually::never("another write", quiet, async || {
        for (name, before) in names.iter().zip(&before) {
            let now = version(&bindings.get(name).await.unwrap());
            if now != *before {
                return Err(format!("{name} went from {before} to {now}"));
            }
        }
        Ok(())
    })
    .await;
    after_all_else(&plane).await;
    for name in names {
        let events = events_about(&plane, "ResourceBinding", name).await;
        assert_eq!(events.len(), 1, "{events:?}");
        assert_eq!(events[0].count, Some(1), "{events:?}");
    }
    plane.stop().await;
}
