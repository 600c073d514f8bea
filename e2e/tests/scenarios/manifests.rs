//! Builders of the manifests of the scenarios.

pub(crate) use berth_e2e::sample::{by_available_replicas, merged};
use serde_json::{Value, json};

/// Returns a Deployment of nginx without resource requests.
pub(crate) fn deployment(name: &str, replicas: i32) -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": { "name": name, "labels": { "app": name } },
        "spec": {
            "replicas": replicas,
            "selector": { "matchLabels": { "app": name } },
            "template": {
                "metadata": { "labels": { "app": name } },
                "spec": { "containers": [{ "name": "nginx", "image": "nginx" }] },
            },
        },
    })
}

/// Returns a Deployment of nginx with a CPU request per replica.
pub(crate) fn deployment_with_cpu(name: &str, replicas: i32, cpu: &str) -> Value {
    let mut manifest = deployment(name, replicas);
    manifest["spec"]["template"]["spec"]["containers"][0]["resources"] =
        json!({ "requests": { "cpu": cpu } });
    manifest
}

/// Returns a Job.
pub(crate) fn job(name: &str, parallelism: i32, completions: i32) -> Value {
    json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": { "name": name },
        "spec": {
            "parallelism": parallelism,
            "completions": completions,
            "template": { "spec": {
                "restartPolicy": "Never",
                "containers": [{ "name": "pi", "image": "perl" }],
            } },
        },
    })
}

/// Returns a ConfigMap, as an example of a kind without replicas.
pub(crate) fn config_map(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name }, "data": { "a": "1" } })
}

/// Returns a ClusterRole, as an example of a cluster-scoped kind.
pub(crate) fn cluster_role(name: &str) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": { "name": name },
        "rules": [{ "apiGroups": [""], "resources": ["pods"], "verbs": ["get"] }],
    })
}

/// Returns a PropagationPolicy that selects templates by name.
pub(crate) fn policy(name: &str, templates: &[&Value], placement: Value) -> Value {
    of_kind(
        "PropagationPolicy",
        name,
        templates.iter().copied().map(selector_for).collect(),
        placement,
    )
}

/// Returns a ClusterPropagationPolicy that selects templates by name.
pub(crate) fn cluster_policy(name: &str, templates: &[&Value], placement: Value) -> Value {
    of_kind(
        "ClusterPropagationPolicy",
        name,
        templates.iter().copied().map(selector_for).collect(),
        placement,
    )
}

/// Returns a PropagationPolicy with these resource selectors.
pub(crate) fn policy_with_selectors(name: &str, selectors: Value, placement: Value) -> Value {
    of_kind("PropagationPolicy", name, selectors, placement)
}

fn of_kind(kind: &str, name: &str, selectors: Value, placement: Value) -> Value {
    json!({
        "apiVersion": "policy.karmada.io/v1alpha1",
        "kind": kind,
        "metadata": { "name": name },
        "spec": { "resourceSelectors": selectors, "placement": placement },
    })
}

/// Returns a resource selector that selects a template by name.
pub(crate) fn selector_for(template: &Value) -> Value {
    json!({
        "apiVersion": template["apiVersion"],
        "kind": template["kind"],
        "name": template["metadata"]["name"],
    })
}

/// Returns a placement on all clusters. Each cluster gets all replicas.
pub(crate) fn on_all_clusters() -> Value {
    json!({ "clusterAffinity": {} })
}

/// Returns a placement on the named clusters. Each cluster gets all replicas.
pub(crate) fn on_clusters(clusters: &[&str]) -> Value {
    json!({ "clusterAffinity": { "clusterNames": clusters } })
}

/// Returns a placement on the clusters with a label. Each cluster gets all replicas.
pub(crate) fn on_labelled_clusters(key: &str, value: &str) -> Value {
    json!({ "clusterAffinity": { "labelSelector": { "matchLabels": { key: value } } } })
}

/// Returns a placement that divides replicas equally among all clusters.
pub(crate) fn equal_shares() -> Value {
    divided(json!({ "replicaDivisionPreference": "Weighted" }))
}

/// Returns a placement that divides replicas by static weights of the clusters.
pub(crate) fn by_weights(weights: &[(&str, i64)]) -> Value {
    let list: Vec<Value> = weights
        .iter()
        .map(|(cluster, weight)| {
            json!({ "targetCluster": { "clusterNames": [cluster] }, "weight": weight })
        })
        .collect();
    divided(json!({
        "replicaDivisionPreference": "Weighted",
        "weightPreference": { "staticWeightList": list },
    }))
}

/// Returns a placement that divides replicas among as few clusters as possible.
pub(crate) fn aggregated() -> Value {
    divided(json!({ "replicaDivisionPreference": "Aggregated" }))
}

fn divided(preference: Value) -> Value {
    json!({ "replicaScheduling": merged(json!({ "replicaSchedulingType": "Divided" }), preference) })
}

/// Returns a placement with a spread constraint on the number of clusters.
pub(crate) fn spread(min: i32, max: i32) -> Value {
    json!({ "spreadConstraints": [{ "spreadByField": "cluster", "minGroups": min, "maxGroups": max }] })
}

/// Returns the status of a member with this amount of free CPU.
pub(crate) fn free_cpu(cpu: u32) -> Value {
    json!({ "resourceSummary": {
        "allocatable": { "cpu": cpu.to_string(), "memory": "64Gi", "pods": "110" },
        "allocated": null,
        "allocating": null,
    } })
}

/// Returns a placement with two affinity groups. The label `site` of a cluster decides its group.
pub(crate) fn two_sites() -> Value {
    json!({ "clusterAffinities": [
        { "affinityName": "first", "labelSelector": { "matchLabels": { "site": "one" } } },
        { "affinityName": "second", "labelSelector": { "matchLabels": { "site": "two" } } },
    ] })
}
