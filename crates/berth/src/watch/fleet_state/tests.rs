use berth_api::{BindingKind, ResourceBinding};
use serde_json::json;

use super::super::lines;
use super::*;

fn binding(clusters: &Value, tasks: &Value, status: &Value) -> WatchEvent {
    let binding: ResourceBinding = serde_json::from_value(json!({
        "metadata": { "name": "web-deployment", "namespace": "shop",
            "annotations": { "propagationpolicy.karmada.io/name": "web" } },
        "spec": {
            "resource": { "apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "web" },
            "replicas": 2, "clusters": clusters, "gracefulEvictionTasks": tasks },
        "status": status,
    }))
    .unwrap();
    WatchEvent::BindingApplied(Box::new(binding.into()))
}

fn lines_of(fleet: &mut FleetState, event: WatchEvent) -> Vec<String> {
    let time = jiff::Timestamp::from_second(0).unwrap();
    let changes = fleet.apply(event);
    let lines = changes
        .iter()
        .map(|change| lines::line(&time, change).to_string());
    lines
        .map(|line| line.split_once("  ").unwrap().1.to_owned())
        .collect()
}

#[test]
fn each_change_of_a_binding_is_a_line() {
    let mut fleet = FleetState::default();
    let (none, on_m1) = (json!([]), json!([{ "name": "m1", "replicas": 2 }]));
    let on_m2 = json!([{ "name": "m2", "replicas": 2 }]);
    let task = json!([{ "fromCluster": "m1", "reason": "r", "producer": "p" }]);
    let reports = |cluster: &str, ready: i64, health: &str| {
        json!({ "aggregatedStatus": [{ "clusterName": cluster, "health": health,
            "status": { "readyReplicas": ready } }] })
    };
    let unfit = json!({ "conditions": [{ "type": "Scheduled", "status": "False", "reason": "NoClusterFit",
        "message": "0/2 clusters are available", "lastTransitionTime": "2026-01-01T00:00:00Z" }] });
    for (event, expected) in [
        (
            binding(&none, &none, &json!({})),
            &["shop/web-deployment  exists      Deployment of policy web, 2 replicas: no clusters"]
                [..],
        ),
        (
            binding(&none, &none, &unfit),
            &["shop/web-deployment  not placed  0/2 clusters are available"],
        ),
        (
            binding(&on_m1, &none, &json!({})),
            &["shop/web-deployment  placed      m1:2"],
        ),
        (
            binding(&on_m1, &none, &reports("m1", 1, "Unhealthy")),
            &["shop/web-deployment  reported    m1 1/2 ready, Unhealthy"],
        ),
        (binding(&on_m1, &none, &reports("m1", 1, "Unhealthy")), &[]),
        (
            binding(&on_m1, &none, &reports("m1", 2, "Healthy")),
            &["shop/web-deployment  reported    m1 2/2 ready, Healthy"],
        ),
        (
            binding(&on_m2, &task, &reports("m1", 2, "Healthy")),
            &[
                "shop/web-deployment  leaving     m1, when the new copies are healthy",
                "shop/web-deployment  moved       m1:2 -> m2:2",
            ],
        ),
        (
            binding(&on_m2, &none, &reports("m2", 2, "Healthy")),
            &[
                "shop/web-deployment  reported    m2 2/2 ready, Healthy",
                "shop/web-deployment  left        m1",
            ],
        ),
        (
            WatchEvent::BindingsListed(BindingKind::Cluster, BTreeSet::new()),
            &[],
        ),
        (
            WatchEvent::BindingsListed(BindingKind::Namespaced, BTreeSet::new()),
            &["shop/web-deployment  gone"],
        ),
    ] {
        assert_eq!(lines_of(&mut fleet, event), expected);
    }
}

#[test]
fn a_binding_with_the_condition_migrating_is_marked() {
    let (none, task) = (
        json!([]),
        json!([{ "fromCluster": "m1", "reason": "r", "producer": "p" }]),
    );
    let migrating = |reason: &str| {
        json!({ "conditions": [{ "type": "Migrating", "status": "True", "reason": reason, "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z" }] })
    };
    for (tasks, status, expected) in [
        (&none, json!({}), None),
        (&task, json!({}), None),
        (&task, migrating("WaitingForReplicas"), Some("moving")),
        (&none, migrating("LastHealthyCopy"), Some("last copy")),
    ] {
        let mut fleet = FleetState::default();
        fleet.apply(binding(&none, tasks, &status));
        let row = fleet.rows.into_values().next().unwrap();
        assert_eq!(row.migration.map(MigrationState::as_str), expected);
    }
}

#[test]
fn duplicated_replicas_are_shown_as_replicas_in_each_cluster() {
    let binding = |placement: Value| {
        let binding: ResourceBinding = serde_json::from_value(json!({
            "metadata": { "name": "web", "namespace": "shop" },
            "spec": {
                "resource": { "apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "web" },
                "replicas": 2, "placement": placement,
                "clusters": [{ "name": "m1", "replicas": 2 }, { "name": "m2", "replicas": 2 }] },
        }))
        .unwrap();
        WatchEvent::BindingApplied(Box::new(binding.into()))
    };
    let divided = json!({ "replicaScheduling": { "replicaSchedulingType": "Divided" } });
    for (placement, expected) in [
        (json!({}), "2 replicas in each cluster: m1 ?/2, m2 ?/2"),
        (divided, "2 replicas: m1 ?/2, m2 ?/2"),
    ] {
        let line = lines_of(&mut FleetState::default(), binding(placement)).remove(0);
        assert!(line.ends_with(&format!("Deployment, {expected}")), "{line}");
    }
}

#[test]
fn a_required_resource_is_shown_in_the_clusters_of_the_binding_that_depends_on_it() {
    let mut fleet = FleetState::default();
    let settings = |clusters: &Value| {
        let binding: ResourceBinding = serde_json::from_value(json!({
            "metadata": { "name": "settings-configmap", "namespace": "shop" },
            "spec": {
                "resource": { "apiVersion": "v1", "kind": "ConfigMap", "namespace": "shop", "name": "settings" },
                "requiredBy": [{ "namespace": "shop", "name": "web-deployment", "clusters": clusters }] },
        }))
        .unwrap();
        WatchEvent::BindingApplied(Box::new(binding.into()))
    };
    let on = |cluster: &str| json!([{ "name": cluster, "replicas": 2 }]);
    for (event, expected) in [
        (
            settings(&on("m1")),
            "shop/settings-configmap  exists      ConfigMap follows web-deployment: m1",
        ),
        (
            settings(&on("m2")),
            "shop/settings-configmap  moved       m1 -> m2",
        ),
    ] {
        assert_eq!(lines_of(&mut fleet, event), [expected]);
    }
}

#[test]
fn each_change_of_a_clusters_readiness_is_a_line() {
    let mut fleet = FleetState::default();
    let cluster = |ready: &str| {
        let cluster = json!({ "metadata": { "name": "m1" }, "spec": { "syncMode": "Push" },
            "status": { "conditions": [{ "type": "Ready", "status": ready, "reason": "r", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z" }] } });
        WatchEvent::ClusterApplied(Box::new(serde_json::from_value(cluster).unwrap()))
    };
    for (event, expected) in [
        (cluster("True"), &["m1  cluster     ready"][..]),
        (cluster("True"), &[]),
        (cluster("Unknown"), &["m1  cluster     not ready"]),
        (
            WatchEvent::ClustersListed(BTreeSet::new()),
            &["m1  cluster     gone"],
        ),
    ] {
        assert_eq!(lines_of(&mut fleet, event), expected);
    }
}
