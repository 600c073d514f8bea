//! Builders of the manifests that the tests apply.

use serde_json::{Value, json};

/// Returns a Deployment.
pub fn deployment(name: &str, replicas: i32) -> Value {
    json!({ "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": { "name": name, "labels": { "app": name } },
        "spec": { "replicas": replicas, "selector": { "matchLabels": { "app": name } },
            "template": { "metadata": { "labels": { "app": name } },
                "spec": { "containers": [{ "name": "main", "image": "nginx:1" }] } } } })
}

/// Returns a ConfigMap.
pub fn config_map(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name },
        "data": { "a": "1" } })
}

/// Returns a ClusterRole.
pub fn cluster_role(name: &str) -> Value {
    json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": { "name": name },
        "rules": [{ "apiGroups": [""], "resources": ["pods"], "verbs": ["get"] }] })
}

/// Returns a policy that propagates an object to clusters. Each cluster gets all replicas.
pub fn policy(template: &Value, clusters: &[&str]) -> Value {
    let kind = template["kind"].as_str().unwrap();
    let policy = if kind == "ClusterRole" {
        "ClusterPropagationPolicy"
    } else {
        "PropagationPolicy"
    };
    let name = &template["metadata"]["name"];
    json!({ "apiVersion": "policy.karmada.io/v1alpha1", "kind": policy,
        "metadata": { "name": name },
        "spec": {
            "resourceSelectors": [
                { "apiVersion": template["apiVersion"], "kind": kind, "name": name }],
            "placement": { "clusterAffinity": { "clusterNames": clusters } } } })
}

/// Returns a policy that divides the replicas of an object among clusters by weight.
pub fn divided(template: &Value, weights: &[(&str, i64)]) -> Value {
    let clusters: Vec<&str> = weights.iter().map(|(cluster, _)| *cluster).collect();
    let mut policy = policy(template, &clusters);
    let list: Vec<Value> = weights
        .iter()
        .map(|(cluster, weight)| {
            json!({ "targetCluster": { "clusterNames": [cluster] }, "weight": weight })
        })
        .collect();
    policy["spec"]["placement"]["replicaScheduling"] = json!({
        "replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted",
        "weightPreference": { "staticWeightList": list } });
    policy
}

/// Returns the object with these fields in its spec.
pub fn with_spec(mut object: Value, fields: Value) -> Value {
    for (key, value) in fields.as_object().unwrap() {
        object["spec"][key] = value.clone();
    }
    object
}
