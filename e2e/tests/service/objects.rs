//! Clusters, placements and bindings for the service tests.

use berth_api::{Cluster, ResourceBinding};
use berth_e2e::sample;
pub(crate) use berth_e2e::sample::by_available_replicas;
use serde_json::{Value, json};

/// Returns a ready cluster with a number of free CPUs.
pub(crate) fn cluster(name: &str, cpus: u32) -> Cluster {
    sample::cluster_with_capacity(name, cpus, 100_000)
}

/// Returns clusters named `m1`, `m2` and so on with increasing capacity.
pub(crate) fn fleet(count: u32) -> Vec<Cluster> {
    (1..=count)
        .map(|index| cluster(&format!("m{index}"), 100 * index))
        .collect()
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
    let spec = json!({
        "replicas": replicas,
        "replicaRequirements": { "resourceRequest": { "cpu": "1" } },
        "placement": placement,
    });
    sample::raw_binding(name, json!({ "spec": spec }))
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
