//! Clusters, placements and bindings for the service tests.

use berth_api::{Cluster, ResourceBinding};
use serde_json::{Value, json};

/// Returns a ready cluster with a number of free CPUs.
pub(crate) fn cluster(name: &str, cpus: u32) -> Cluster {
    let now = "2026-01-01T00:00:00Z";
    let condition = |kind: &str| {
        json!({ "type": kind, "status": "True", "reason": "Ok", "message": "",
                "lastTransitionTime": now })
    };
    serde_json::from_value(json!({
        "metadata": { "name": name },
        "spec": { "syncMode": "Push" },
        "status": {
            "apiEnablements": [
                { "groupVersion": "apps/v1",
                  "resources": [{ "name": "deployments", "kind": "Deployment" }] },
                { "groupVersion": "v1",
                  "resources": [{ "name": "configmaps", "kind": "ConfigMap" }] },
            ],
            "conditions": [condition("Ready"), condition("CompleteAPIEnablements")],
            "resourceSummary": {
                "allocatable": { "cpu": cpus.to_string(), "memory": "1000Gi", "pods": "100000" },
                "allocated": {},
            },
        },
    }))
    .unwrap()
}

/// Returns clusters named `m1`, `m2` and so on with increasing capacity.
pub(crate) fn fleet(count: u32) -> Vec<Cluster> {
    (1..=count)
        .map(|index| cluster(&format!("m{index}"), 100 * index))
        .collect()
}

/// Returns a placement that divides replicas in proportion to the available replicas of the clusters.
pub(crate) fn by_available_replicas() -> Value {
    json!({ "replicaScheduling": {
        "replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted",
        "weightPreference": { "dynamicWeight": "AvailableReplicas" },
    }})
}

/// Returns a placement on one cluster.
pub(crate) fn on_cluster(cluster: &str) -> Value {
    json!({ "clusterAffinity": { "clusterNames": [cluster] } })
}

/// Returns a placement that divides replicas among as few clusters as possible.
pub(crate) fn aggregated() -> Value {
    json!({ "replicaScheduling": {
        "replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated",
    }})
}

/// Returns a binding of a Deployment, as the detector creates it. Each replica requests one CPU.
pub(crate) fn binding(name: &str, replicas: i32, placement: Value) -> ResourceBinding {
    serde_json::from_value(raw_binding(name, replicas, placement)).unwrap()
}

/// Returns the JSON of a binding of a Deployment. Each replica requests one CPU.
pub(crate) fn raw_binding(name: &str, replicas: i32, placement: Value) -> Value {
    json!({
        "apiVersion": "work.karmada.io/v1alpha2",
        "kind": "ResourceBinding",
        "metadata": {
            "name": name,
            "namespace": "default",
            "labels": { "propagationpolicy.karmada.io/permanent-id": "p" },
        },
        "spec": {
            "resource": {
                "apiVersion": "apps/v1", "kind": "Deployment",
                "namespace": "default", "name": name, "uid": format!("uid-of-{name}"),
            },
            "replicas": replicas,
            "replicaRequirements": { "resourceRequest": { "cpu": "1" } },
            "placement": placement,
        },
    })
}

/// Returns bindings with different replicas and placements for the clusters of [`fleet`].
pub(crate) fn mixed(prefix: &str, count: u32) -> Vec<ResourceBinding> {
    (0..count)
        .map(|index| {
            let placement = match index % 3 {
                0 => by_available_replicas(),
                1 => on_cluster("m2"),
                _ => aggregated(),
            };
            let replicas = i32::try_from(index % 7 + 1).unwrap();
            binding(&format!("{prefix}{index}"), replicas, placement)
        })
        .collect()
}
