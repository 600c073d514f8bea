//! Fixtures that build fleets, bindings and engines, and format decisions as text.

use berth_api::BindingKey;
use berth_api::binding::{BindingSpec, BindingStatus};
use berth_api::cluster::Cluster;
use berth_api::feature_gates::EngineGates;
use berth_engine::{Engine, EngineOptions, Fleet, Outcome, Request};
use serde_json::{Value, json};

/// Returns a cluster that serves Deployments and has capacity for `pods` pods.
pub(crate) fn cluster(name: &str, pods: i64) -> Value {
    json!({
        "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster",
        "metadata": {"name": name, "labels": {}},
        "spec": {"syncMode": "Push"},
        "status": {
            "apiEnablements": [{"groupVersion": "apps/v1", "resources": [{"name": "deployments", "kind": "Deployment"}]}],
            "resourceSummary": {"allocatable": {"pods": pods.to_string(), "cpu": "1000", "memory": "1000Gi"}},
        },
    })
}

/// Returns the cluster with the fields of `spec` written to its spec.
pub(crate) fn with_spec(mut cluster: Value, spec: Value) -> Value {
    for (key, value) in spec.as_object().unwrap() {
        cluster["spec"][key] = value.clone();
    }
    cluster
}

/// Returns the cluster with an additional label.
pub(crate) fn with_label(mut cluster: Value, key: &str, value: &str) -> Value {
    cluster["metadata"]["labels"][key] = json!(value);
    cluster
}

pub(crate) fn fleet(clusters: &[Value]) -> Fleet {
    let mut fleet = Fleet::new();
    for cluster in clusters {
        fleet.apply(&serde_json::from_value::<Cluster>(cluster.clone()).unwrap());
    }
    fleet
}

/// Returns the binding of a Deployment whose replicas each request one cpu.
pub(crate) fn binding(replicas: i32, placement: Value) -> Value {
    json!({
        "spec": {
            "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "web"},
            "replicas": replicas, "replicaRequirements": {"resourceRequest": {"cpu": "1"}}, "placement": placement,
        },
        "status": {},
    })
}

/// Returns the binding with the fields of `spec` written to its spec.
pub(crate) fn with_binding_spec(mut binding: Value, spec: Value) -> Value {
    for (key, value) in spec.as_object().unwrap() {
        binding["spec"][key] = value.clone();
    }
    binding
}

/// Returns the binding with a request for rescheduling.
pub(crate) fn with_reschedule_request(mut binding: Value) -> Value {
    binding["spec"]["rescheduleTriggeredAt"] = json!("2026-01-01T01:00:00Z");
    binding["status"]["lastScheduledTime"] = json!("2026-01-01T00:00:00Z");
    binding
}

pub(crate) fn request(binding: &Value) -> Request {
    let spec: BindingSpec = serde_json::from_value(binding["spec"].clone()).unwrap();
    let status: BindingStatus = serde_json::from_value(binding["status"].clone()).unwrap();
    let key = BindingKey::new("shop", "web-deployment");
    Request::new(&key, &spec, &status).unwrap()
}

pub(crate) fn engine(gates: EngineGates) -> Engine {
    Engine::new(EngineOptions {
        gates,
        ..EngineOptions::default()
    })
    .unwrap()
}

pub(crate) fn decide_with(gates: EngineGates, clusters: &[Value], binding: &Value) -> Outcome {
    engine(gates).schedule(&fleet(clusters).snapshot(), &request(binding))
}

pub(crate) fn decide(clusters: &[Value], binding: &Value) -> Outcome {
    decide_with(EngineGates::default(), clusters, binding)
}

/// Formats the targets sorted by name, for example `m1:2 m2:3`. Formats the error if the decision failed.
pub(crate) fn text(outcome: &Outcome) -> String {
    match &outcome.result {
        Ok(placement) => {
            let mut parts: Vec<String> = placement
                .targets
                .iter()
                .map(|target| format!("{}:{}", target.name, target.replicas))
                .collect();
            parts.sort();
            parts.join(" ")
        }
        Err(error) => error.to_string(),
    }
}

pub(crate) fn duplicated() -> Value {
    json!({"replicaSchedulingType": "Duplicated"})
}

pub(crate) fn aggregated() -> Value {
    json!({"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"})
}

pub(crate) fn dynamic() -> Value {
    json!({"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted",
        "weightPreference": {"dynamicWeight": "AvailableReplicas"}})
}

pub(crate) fn static_weights(weights: &[(&str, i64)]) -> Value {
    let list: Vec<Value> = weights
        .iter()
        .map(|(name, weight)| json!({"targetCluster": {"clusterNames": [name]}, "weight": weight}))
        .collect();
    json!({"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted",
        "weightPreference": {"staticWeightList": list}})
}
