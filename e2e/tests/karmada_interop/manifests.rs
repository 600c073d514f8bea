//! Functions that build the manifests of the tests.

use serde_json::{Value, json};

/// Returns a Deployment.
pub fn deployment(name: &str, replicas: i32) -> Value {
    json!({ "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": { "name": name, "namespace": "default", "labels": { "app": name } },
        "spec": { "replicas": replicas, "selector": { "matchLabels": { "app": name } },
            "template": { "metadata": { "labels": { "app": name } },
                "spec": { "containers": [{ "name": "main", "image": "nginx:1",
                    "resources": { "requests": { "cpu": "100m" } } }] } } } })
}

/// Returns a ConfigMap.
pub fn config_map(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": name, "namespace": "default" }, "data": { "a": "1" } })
}

/// Returns a ClusterRole.
pub fn cluster_role(name: &str) -> Value {
    json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": { "name": name },
        "rules": [{ "apiGroups": [""], "resources": ["pods"], "verbs": ["get"] }] })
}

/// Returns a policy for one resource. The policy of a cluster-scoped resource is a ClusterPropagationPolicy.
pub fn policy(template: &Value, placement: &Value) -> Value {
    let name = &template["metadata"]["name"];
    let namespace = &template["metadata"]["namespace"];
    let (kind, metadata) = if namespace.is_null() {
        ("ClusterPropagationPolicy", json!({ "name": name }))
    } else {
        (
            "PropagationPolicy",
            json!({ "name": name, "namespace": namespace }),
        )
    };
    json!({ "apiVersion": "policy.karmada.io/v1alpha1", "kind": kind, "metadata": metadata,
        "spec": {
            "resourceSelectors": [{ "apiVersion": template["apiVersion"], "kind": template["kind"], "name": name }],
            "placement": placement } })
}

/// Returns a placement that divides the replicas evenly among these clusters.
pub fn divided(clusters: &[&str]) -> Value {
    let weights: Vec<Value> = clusters
        .iter()
        .map(|name| json!({ "targetCluster": { "clusterNames": [name] }, "weight": 1 }))
        .collect();
    json!({ "clusterAffinity": { "clusterNames": clusters },
        "replicaScheduling": { "replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted",
            "weightPreference": { "staticWeightList": weights } } })
}

/// Returns a placement that selects this number of clusters.
pub fn spread(clusters: i64) -> Value {
    json!({ "spreadConstraints": [
        { "spreadByField": "cluster", "minGroups": clusters, "maxGroups": clusters }] })
}

/// Returns CustomResourceDefinitions of kinds that karmada-controller-manager watches, most of which Berth does not
/// install. Their schemas permit all fields.
pub fn definitions() -> Vec<Value> {
    [
        (
            "autoscaling",
            "CronFederatedHPA",
            "cronfederatedhpas",
            "Namespaced",
        ),
        ("autoscaling", "FederatedHPA", "federatedhpas", "Namespaced"),
        (
            "config",
            "ResourceInterpreterCustomization",
            "resourceinterpretercustomizations",
            "Cluster",
        ),
        (
            "config",
            "ResourceInterpreterWebhookConfiguration",
            "resourceinterpreterwebhookconfigurations",
            "Cluster",
        ),
        (
            "networking",
            "MultiClusterService",
            "multiclusterservices",
            "Namespaced",
        ),
        (
            "networking",
            "MultiClusterIngress",
            "multiclusteringresses",
            "Namespaced",
        ),
        ("remedy", "Remedy", "remedies", "Cluster"),
        (
            "multicluster.x-k8s.io",
            "ServiceExport",
            "serviceexports",
            "Namespaced",
        ),
        (
            "multicluster.x-k8s.io",
            "ServiceImport",
            "serviceimports",
            "Namespaced",
        ),
    ]
    .into_iter()
    .map(|(group, kind, plural, scope)| {
        let group = if group.contains('.') {
            group.to_owned()
        } else {
            format!("{group}.karmada.io")
        };
        json!({ "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": { "name": format!("{plural}.{group}"),
                // kube-apiserver requires this annotation for groups below k8s.io.
                "annotations": { "api-approved.kubernetes.io": "unapproved, for tests" } },
            "spec": { "group": group, "scope": scope,
                "names": { "kind": kind, "plural": plural, "singular": kind.to_lowercase(),
                    "listKind": format!("{kind}List") },
                "versions": [{ "name": "v1alpha1", "served": true, "storage": true,
                    "subresources": { "status": {} },
                    "schema": { "openAPIV3Schema": {
                        "type": "object", "x-kubernetes-preserve-unknown-fields": true } } }] } })
    })
    .collect()
}
