//! Clusters and bindings for tests of a scheduler without controllers.

use berth_api::{Cluster, ResourceBinding};
use serde_json::{Value, json};

/// Returns a ready cluster that serves Deployments and ConfigMaps. `changes` is merged into the cluster.
///
/// # Panics
/// If the merged cluster is not a Cluster.
#[expect(clippy::unwrap_used, reason = "this is how a test fails")]
pub fn cluster(name: &str, changes: Value) -> Cluster {
    let condition = |kind: &str| {
        json!({ "type": kind, "status": "True", "reason": "Ok", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z" })
    };
    let cluster = json!({
        "metadata": { "name": name },
        "spec": { "syncMode": "Push" },
        "status": {
            "apiEnablements": [
                { "groupVersion": "apps/v1", "resources": [{ "name": "deployments", "kind": "Deployment" }] },
                { "groupVersion": "v1", "resources": [{ "name": "configmaps", "kind": "ConfigMap" }] },
            ],
            "conditions": [condition("Ready"), condition("CompleteAPIEnablements")],
        },
    });
    serde_json::from_value(merged(cluster, changes)).unwrap()
}

/// Returns a ready cluster with this allocatable CPU and number of pods. Nothing is allocated.
pub fn cluster_with_capacity(name: &str, cpu: u32, pods: u32) -> Cluster {
    let allocatable =
        json!({ "cpu": cpu.to_string(), "memory": "1000Gi", "pods": pods.to_string() });
    let summary = json!({ "allocatable": allocatable, "allocated": {} });
    cluster(name, json!({ "status": { "resourceSummary": summary } }))
}

/// Returns a binding of a Deployment with one replica in the namespace `default`, with the fields that the detector
/// writes. `changes` is merged into the binding.
///
/// # Panics
/// If the merged binding is not a ResourceBinding.
#[expect(clippy::unwrap_used, reason = "this is how a test fails")]
pub fn binding(name: &str, changes: Value) -> ResourceBinding {
    serde_json::from_value(raw_binding(name, changes)).unwrap()
}

/// Returns the JSON of a binding that [`binding`] returns.
pub fn raw_binding(name: &str, changes: Value) -> Value {
    let binding = json!({
        "apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding",
        "metadata": { "name": name, "namespace": "default",
            "labels": { "propagationpolicy.karmada.io/permanent-id": "p" } },
        "spec": {
            "resource": { "apiVersion": "apps/v1", "kind": "Deployment", "namespace": "default",
                "name": name, "uid": format!("uid-of-{name}") },
            "replicas": 1,
        },
    });
    merged(binding, changes)
}

/// Returns a placement that divides replicas in proportion to the available replicas of the clusters.
pub fn by_available_replicas() -> Value {
    json!({ "replicaScheduling": {
        "replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted",
        "weightPreference": { "dynamicWeight": "AvailableReplicas" } } })
}

/// Returns a placement that selects one cluster, which is the cluster with the best score.
pub fn on_best_cluster() -> Value {
    json!({ "spreadConstraints": [
        { "spreadByField": "cluster", "minGroups": 1, "maxGroups": 1 }] })
}

/// Returns a JSON value after a recursive merge of the changes. A change to null stays in the value as null.
pub fn merged(mut value: Value, changes: Value) -> Value {
    merge(&mut value, changes);
    value
}

fn merge(target: &mut Value, changes: Value) {
    match (target, changes) {
        (Value::Object(target), Value::Object(changes)) => {
            for (key, change) in changes {
                merge(target.entry(key).or_insert(Value::Null), change);
            }
        }
        (target, changes) => *target = changes,
    }
}
