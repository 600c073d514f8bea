//! Short builders of the manifests that the scenarios apply.

use serde_json::{Value, json};

/// A Deployment of nginx that asks for no resources.
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

/// A Deployment each replica of which asks for this much cpu.
pub(crate) fn deployment_of(name: &str, replicas: i32, cpu: &str) -> Value {
    let mut manifest = deployment(name, replicas);
    manifest["spec"]["template"]["spec"]["containers"][0]["resources"] =
        json!({ "requests": { "cpu": cpu } });
    manifest
}

/// A Job with this parallelism.
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

/// A ConfigMap: something that has no replicas.
pub(crate) fn config_map(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name }, "data": { "a": "1" } })
}

/// A ClusterRole: something without a namespace.
pub(crate) fn cluster_role(name: &str) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": { "name": name },
        "rules": [{ "apiGroups": [""], "resources": ["pods"], "verbs": ["get"] }],
    })
}

/// A PropagationPolicy that names its templates.
pub(crate) fn policy(name: &str, templates: &[&Value], placement: Value) -> Value {
    of_kind(
        "PropagationPolicy",
        name,
        templates.iter().copied().map(named).collect(),
        placement,
    )
}

/// A ClusterPropagationPolicy that names its templates.
pub(crate) fn cluster_policy(name: &str, templates: &[&Value], placement: Value) -> Value {
    of_kind(
        "ClusterPropagationPolicy",
        name,
        templates.iter().copied().map(named).collect(),
        placement,
    )
}

/// A PropagationPolicy with these selectors.
pub(crate) fn selecting(name: &str, selectors: Value, placement: Value) -> Value {
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

/// The selector that names a template.
pub(crate) fn named(template: &Value) -> Value {
    json!({
        "apiVersion": template["apiVersion"],
        "kind": template["kind"],
        "name": template["metadata"]["name"],
    })
}

/// The same manifest with these changes merged into it.
pub(crate) fn but(mut manifest: Value, changes: Value) -> Value {
    merge(&mut manifest, changes);
    manifest
}

fn merge(target: &mut Value, changes: Value) {
    match (target, changes) {
        (Value::Object(target), Value::Object(changes)) => {
            for (key, value) in changes {
                merge(target.entry(key).or_insert(Value::Null), value);
            }
        }
        (target, changes) => *target = changes,
    }
}

/// Placement: every cluster, all replicas in each.
pub(crate) fn everywhere() -> Value {
    json!({ "clusterAffinity": {} })
}

/// Placement: these clusters, all replicas in each.
pub(crate) fn on(clusters: &[&str]) -> Value {
    json!({ "clusterAffinity": { "clusterNames": clusters } })
}

/// Placement: the clusters with this label.
pub(crate) fn labelled(key: &str, value: &str) -> Value {
    json!({ "clusterAffinity": { "labelSelector": { "matchLabels": { key: value } } } })
}

/// Placement: replicas divided equally among all clusters.
pub(crate) fn equal_shares() -> Value {
    divided(json!({ "replicaDivisionPreference": "Weighted" }))
}

/// Placement: replicas divided by these weights.
pub(crate) fn weighted(weights: &[(&str, i64)]) -> Value {
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

/// Placement: replicas divided by what is free.
pub(crate) fn by_free_room() -> Value {
    divided(json!({
        "replicaDivisionPreference": "Weighted",
        "weightPreference": { "dynamicWeight": "AvailableReplicas" },
    }))
}

/// Placement: replicas in as few clusters as possible.
pub(crate) fn aggregated() -> Value {
    divided(json!({ "replicaDivisionPreference": "Aggregated" }))
}

fn divided(preference: Value) -> Value {
    json!({ "replicaScheduling": but(json!({ "replicaSchedulingType": "Divided" }), preference) })
}

/// Spread over this many clusters.
pub(crate) fn spread(min: i32, max: i32) -> Value {
    json!({ "spreadConstraints": [{ "spreadByField": "cluster", "minGroups": min, "maxGroups": max }] })
}

/// The status of a member with this much cpu free for replicas.
pub(crate) fn free_cpu(cpu: u32) -> Value {
    json!({ "resourceSummary": {
        "allocatable": { "cpu": cpu.to_string(), "memory": "64Gi", "pods": "110" },
        "allocated": null,
        "allocating": null,
    } })
}
