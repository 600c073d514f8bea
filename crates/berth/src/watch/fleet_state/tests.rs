use berth_api::{BindingKind, ResourceBinding};
use jiff::SignedDuration;
use serde_json::{Value, json};

use super::super::lines;
use super::*;

const PLACED: &str = "2026-01-01T00:00:00Z";

/// Returns the time of the placement and this number of seconds.
fn at(seconds: i64) -> Timestamp {
    let placed: Timestamp = PLACED.parse().unwrap();
    placed + SignedDuration::from_secs(seconds)
}

fn binding(clusters: &Value, tasks: &Value, status: &Value) -> WatchEvent {
    let binding: ResourceBinding = serde_json::from_value(json!({
        "metadata": { "name": "web-deployment", "namespace": "shop", "creationTimestamp": PLACED,
            "annotations": { "propagationpolicy.karmada.io/name": "web" } },
        "spec": {
            "resource": { "apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "web" },
            "placement": { "replicaScheduling": { "replicaSchedulingType": "Divided" } },
            "replicas": 2, "clusters": clusters, "gracefulEvictionTasks": tasks },
        "status": status,
    }))
    .unwrap();
    WatchEvent::BindingApplied(Box::new(binding.into()))
}

/// Returns the status of a binding that is scheduled, and of which a cluster reports ready replicas.
fn reports(cluster: &str, ready: i64) -> Value {
    let health = if ready == 2 { "Healthy" } else { "Unhealthy" };
    json!({ "lastScheduledTime": PLACED, "conditions": [condition("Scheduled", "True", "Success", "")],
        "aggregatedStatus": [{ "clusterName": cluster, "applied": true, "health": health,
            "status": { "replicas": 2, "readyReplicas": ready } }] })
}

fn condition(kind: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({ "type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": PLACED })
}

fn cluster(name: &str, ready: &str) -> WatchEvent {
    let cluster = json!({ "metadata": { "name": name }, "spec": { "syncMode": "Push" },
        "status": { "conditions": [condition("Ready", ready, "r", "")] } });
    WatchEvent::ClusterApplied(Box::new(serde_json::from_value(cluster).unwrap()))
}

/// Returns a fleet with two ready clusters.
fn fleet() -> FleetState {
    let mut fleet = FleetState::default();
    for name in ["m1", "m2"] {
        fleet.apply(cluster(name, "True"), at(0));
    }
    let names = ["m1", "m2"].map(str::to_owned);
    fleet.apply(WatchEvent::ClustersListed(BTreeSet::from(names)), at(0));
    fleet
}

fn texts(changes: &[Change]) -> Vec<String> {
    let lines = changes
        .iter()
        .map(|change| lines::line(&Timestamp::UNIX_EPOCH, change).to_string());
    lines
        .map(|line| line.split_once("  ").unwrap().1.to_owned())
        .collect()
}

fn lines_of(fleet: &mut FleetState, event: WatchEvent) -> Vec<String> {
    texts(&fleet.apply(event, at(10)))
}

#[test]
fn each_change_of_a_binding_is_a_line() {
    let mut fleet = fleet();
    let (none, on_m1) = (json!([]), json!([{ "name": "m1", "replicas": 2 }]));
    let on_m2 = json!([{ "name": "m2", "replicas": 2 }]);
    let task = json!([{ "fromCluster": "m1", "reason": "r", "producer": "p" }]);
    let unfit = json!({ "conditions": [
        condition("Scheduled", "False", "NoClusterFit", "0/2 clusters are available")] });
    let placed = json!({ "conditions": [condition("Scheduled", "True", "Success", "")],
        "lastScheduledTime": PLACED });
    let mut migrating = reports("m1", 2);
    migrating["conditions"] = json!([condition(
        "Migrating",
        "True",
        "WaitingForReplicas",
        "m1 keeps 2"
    )]);
    for (event, expected) in [
        (
            binding(&none, &none, &json!({})),
            &["shop/web-deployment  exists      Deployment of policy web, 2 replicas: no clusters"]
                [..],
        ),
        (
            binding(&none, &none, &unfit),
            &["shop/web-deployment  stuck       0/2 clusters are available"],
        ),
        (
            binding(&on_m1, &none, &placed),
            &[
                "shop/web-deployment  placed      m1:2",
                "shop/web-deployment  waiting     it is not applied in m1 yet; placed",
            ],
        ),
        (
            binding(&on_m1, &none, &reports("m1", 1)),
            &["shop/web-deployment  reported    m1 1/2, partly ready"],
        ),
        (binding(&on_m1, &none, &reports("m1", 1)), &[]),
        (
            binding(&on_m1, &none, &reports("m1", 2)),
            &[
                "shop/web-deployment  reported    m1 2/2, well",
                "shop/web-deployment  well        2 of 2 replicas are ready in m1",
            ],
        ),
        (
            binding(&on_m2, &task, &migrating),
            &[
                "shop/web-deployment  leaving     m1, when the new copies are healthy",
                "shop/web-deployment  moved       m1:2 -> m2:2",
                "shop/web-deployment  migrating   m1 keeps 2",
                "shop/web-deployment  waiting     it moves: m1 keeps 2",
            ],
        ),
        (
            binding(&on_m2, &none, &reports("m2", 2)),
            &[
                "shop/web-deployment  reported    m2 2/2, well",
                "shop/web-deployment  left        m1",
                "shop/web-deployment  migrated    no old copy waits any more",
                "shop/web-deployment  well        2 of 2 replicas are ready in m2",
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
fn time_and_clusters_change_the_health() {
    let mut fleet = fleet();
    let (none, on_m1) = (json!([]), json!([{ "name": "m1", "replicas": 2 }]));
    let applied = binding(&on_m1, &none, &reports("m1", 0));
    assert_eq!(fleet.apply(applied, at(10)).len(), 1);
    assert_eq!(fleet.counts(at(119)).to_string(), "1 waiting");
    assert_eq!(fleet.advance(at(119)), []);
    // The counts do not wait for the next check of the clock.
    assert_eq!(fleet.counts(at(120)).to_string(), "1 broken");
    let broken =
        "shop/web-deployment  broken      0 of 2 replicas are ready in m1; placed and applied";
    assert_eq!(texts(&fleet.advance(at(120))), [broken]);
    assert_eq!(fleet.advance(at(121)), []);

    // The cause is shown when it is known.
    let mut status = reports("m1", 0);
    let known = condition(
        "Healthy",
        "False",
        "CrashLoopBackOff",
        "2 of 2 pods crash in m1: exit code 1",
    );
    status["conditions"].as_array_mut().unwrap().push(known);
    let crash =
        "shop/web-deployment  broken      2 of 2 pods crash in m1: exit code 1; placed and applied";
    let crashing = binding(&on_m1, &none, &status);
    assert_eq!(texts(&fleet.apply(crashing, at(200))), [crash]);

    fleet.apply(binding(&on_m1, &none, &reports("m1", 2)), at(200));
    assert_eq!(
        texts(&fleet.apply(cluster("m1", "Unknown"), at(200))),
        [
            "m1  cluster     not ready",
            "shop/web-deployment  broken      m1 is not ready: nothing is known about its 2 replicas; placed and applied",
        ]
    );
    let row = fleet.rows.values().next().unwrap();
    assert_eq!(
        (row.workload.ready(), lines::clusters(row)),
        ("0/2".into(), "m1 ?/2".into())
    );
    let well = "shop/web-deployment  well        2 of 2 replicas are ready in m1";
    assert_eq!(
        texts(&fleet.apply(cluster("m1", "True"), at(200))),
        ["m1  cluster     ready", well]
    );
}

#[test]
fn the_health_is_reported_when_all_clusters_are_known() {
    let mut fleet = FleetState::default();
    let on_m1 = json!([{ "name": "m1", "replicas": 2 }]);
    let event = binding(&on_m1, &json!([]), &reports("m1", 0));
    let listed = fleet.apply(event, at(300));
    assert!(
        matches!(listed[..], [Change::BindingAdded(..)]),
        "{listed:?}"
    );
    fleet.apply(cluster("m1", "True"), at(300));
    let names = WatchEvent::ClustersListed(BTreeSet::from(["m1".to_owned()]));
    let broken =
        "shop/web-deployment  broken      0 of 2 replicas are ready in m1; placed and applied";
    assert_eq!(texts(&fleet.apply(names, at(300))), [broken]);
}

#[test]
fn a_binding_with_the_condition_migrating_is_marked() {
    let (none, task) = (
        json!([]),
        json!([{ "fromCluster": "m1", "reason": "r", "producer": "p" }]),
    );
    let migrating =
        |reason: &str| json!({ "conditions": [condition("Migrating", "True", reason, "")] });
    for (tasks, status, expected) in [
        (&none, json!({}), None),
        (&task, json!({}), None),
        (&task, migrating("WaitingForReplicas"), Some("moving")),
        (&none, migrating("LastHealthyCopy"), Some("last copy")),
    ] {
        let mut fleet = fleet();
        fleet.apply(binding(&none, tasks, &status), at(0));
        let row = fleet.rows.into_values().next().unwrap();
        assert_eq!(row.migration.map(|(state, _)| state.as_str()), expected);
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
        let line = lines_of(&mut fleet(), binding(placement)).remove(0);
        assert!(line.ends_with(&format!("Deployment, {expected}")), "{line}");
    }
}

#[test]
fn a_required_resource_is_shown_in_the_clusters_of_the_binding_that_depends_on_it() {
    let mut fleet = fleet();
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
            &[
                "shop/settings-configmap  exists      ConfigMap follows web-deployment: m1 pending",
                "shop/settings-configmap  stuck       it is not applied in m1 yet; placed",
            ][..],
        ),
        (
            settings(&on("m2")),
            &["shop/settings-configmap  moved       m1 -> m2"],
        ),
    ] {
        assert_eq!(lines_of(&mut fleet, event), expected);
    }
}

#[test]
fn each_change_of_a_clusters_readiness_is_a_line() {
    let mut fleet = FleetState::default();
    for (event, expected) in [
        (cluster("m1", "True"), &["m1  cluster     ready"][..]),
        (cluster("m1", "True"), &[]),
        (cluster("m1", "Unknown"), &["m1  cluster     not ready"]),
        (
            WatchEvent::ClustersListed(BTreeSet::new()),
            &["m1  cluster     gone"],
        ),
    ] {
        assert_eq!(lines_of(&mut fleet, event), expected);
    }
}
