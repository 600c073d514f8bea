//! The Clusters and ResourceBindings that load scenarios create.

use berth_api::{Cluster, ResourceBinding};
use serde_json::{Value, json};

/// Returns Clusters with different capacities. Every tenth Cluster has a taint with the effect `NoSchedule`.
pub(super) fn clusters(count: usize) -> Result<Vec<Cluster>, super::LoadError> {
    let made = (0..count).map(|index| {
        let taints = match index % 10 {
            9 => json!([{ "key": "maintenance", "effect": "NoSchedule" }]),
            _ => json!([]),
        };
        let condition = |kind: &str| {
            json!({ "type": kind, "status": "True", "reason": "Ok", "message": "",
                    "lastTransitionTime": "2026-01-01T00:00:00Z" })
        };
        let apis: Vec<Value> = ["apps/v1", "v1", "batch/v1", "networking.k8s.io/v1"]
            .iter()
            .map(|version| {
                json!({ "groupVersion": version, "resources": [
                    { "name": "deployments", "kind": "Deployment" },
                    { "name": "services", "kind": "Service" } ] })
            })
            .collect();
        serde_json::from_value(json!({
            "metadata": { "name": format!("member-{index}"),
                          "labels": { "env": if index % 2 == 0 { "prod" } else { "dev" } } },
            "spec": { "syncMode": "Push", "region": format!("region-{}", index % 8),
                      "taints": taints },
            "status": {
                "apiEnablements": apis,
                "conditions": [condition("Ready"), condition("CompleteAPIEnablements")],
                "resourceSummary": {
                    "allocatable": { "cpu": (100 + index % 50 * 20).to_string(),
                                     "memory": "4000Gi", "pods": "100000" },
                    "allocated": { "cpu": (index % 37).to_string() },
                },
            },
        }))
        .map_err(|error| super::LoadError::Unexpected(error.to_string()))
    });
    made.collect()
}

/// Returns bindings, distributed over these namespaces. Their placement divides the replicas by the free capacity of
/// the clusters.
pub(super) fn bindings(
    prefix: &str,
    count: usize,
    namespaces: &[String],
    scheduler: &str,
) -> Result<Vec<ResourceBinding>, super::LoadError> {
    let made = (0..count).map(|index| {
        let name = format!("{prefix}{index}");
        let namespace = &namespaces[index % namespaces.len()];
        serde_json::from_value(json!({
            "metadata": { "name": format!("{name}-deployment"), "namespace": namespace,
                "labels": { "propagationpolicy.karmada.io/permanent-id": "p" } },
            "spec": {
                "schedulerName": scheduler,
                "resource": { "apiVersion": "apps/v1", "kind": "Deployment",
                    "namespace": namespace, "name": name, "uid": format!("uid-{name}") },
                "replicas": index % 9 + 2,
                "replicaRequirements": {
                    "resourceRequest": { "cpu": "250m", "memory": "512Mi" } },
                "placement": {
                    "clusterAffinity": { "labelSelector": { "matchLabels": { "env": "prod" } } },
                    "replicaScheduling": {
                        "replicaSchedulingType": "Divided",
                        "replicaDivisionPreference": "Weighted",
                        "weightPreference": { "dynamicWeight": "AvailableReplicas" } } },
            },
        }))
        .map_err(|error| super::LoadError::Unexpected(error.to_string()))
    });
    made.collect()
}
