//! The time and the memory of a large cluster.

use std::time::{Duration, Instant};

use berth_estimator::{ClusterState, Rules, Unmeasured};
use berth_estimator_protocol::kubernetes_types::node_selector;
use berth_estimator_protocol::wire::pb;
use k8s_openapi::api::core::v1::NodeSelector;
use serde_json::{Value, json};

use crate::objects::{component, node, pod, replicas, with_selector};

const NODES: usize = 5_000;
const PODS: usize = 50_000;
const REQUESTS: usize = 2_000;

/// Returns a cluster whose nodes have the labels of a cloud provider, and taints on each tenth node.
fn cluster() -> ClusterState {
    let mut state = ClusterState::default();
    for index in 0..NODES {
        let name = format!("node-{index}");
        let mut labels: serde_json::Map<String, Value> = (0..15)
            .map(|label| {
                (
                    format!("example.com/label-{label}"),
                    json!(format!("value-{}", index % 7)),
                )
            })
            .collect();
        labels.insert("kubernetes.io/hostname".into(), json!(name));
        labels.insert(
            "topology.kubernetes.io/zone".into(),
            json!(format!("zone-{}", index % 3)),
        );
        let taints = if index % 10 == 0 {
            json!([{"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}])
        } else {
            json!([])
        };
        let allocatable =
            json!({"cpu": "16", "memory": "64Gi", "ephemeral-storage": "100Gi", "pods": "110"});
        state.nodes.apply_node(&node(
            &name,
            &labels.into(),
            &json!({"taints": taints}),
            &allocatable,
        ));
    }
    for index in 0..PODS {
        apply_pod(&mut state, index);
    }
    state
}

fn apply_pod(state: &mut ClusterState, index: usize) {
    let requests = json!({"cpu": format!("{}m", 100 + index % 40), "memory": "256Mi"});
    let node = format!("node-{}", index % NODES);
    let pod = pod(
        &format!("web-7c5ddbdf54-{index}"),
        &node,
        "Running",
        &requests,
    );
    state.nodes.apply_pod(&pod);
}

fn with_affinity(index: usize) -> pb::NodeClaim {
    let affinity: NodeSelector = serde_json::from_value(json!({"nodeSelectorTerms": [{"matchExpressions": [
        {"key": "kubernetes.io/hostname", "operator": "NotIn", "values": [format!("node-{index}")]},
        {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["zone-0", "zone-1"]},
    ]}]}))
    .unwrap();
    pb::NodeClaim {
        node_affinity_bytes: node_selector(&affinity),
        ..pb::NodeClaim::default()
    }
}

/// Runs a function with the numbers of the requests. Prints the median and the 99th percentile of its duration.
fn measure(what: &str, count: usize, mut run: impl FnMut(usize)) {
    let mut durations: Vec<Duration> = (0..count)
        .map(|index| {
            let started = Instant::now();
            run(index);
            started.elapsed()
        })
        .collect();
    durations.sort_unstable();
    let (p50, p99) = (durations[count / 2], durations[count * 99 / 100]);
    println!("{what}: p50 {p50:?}, p99 {p99:?}");
}

#[test]
#[ignore = "prints a measurement"]
fn measure_answers_about_a_large_cluster() {
    let before = berth_metrics::process::resident_memory().unwrap_or_default();
    let mut state = cluster();
    let after = berth_metrics::process::resident_memory().unwrap_or_default();
    println!(
        "{NODES} nodes and {PODS} pods: {} MiB",
        after.saturating_sub(before) >> 20
    );
    let cpu_and_memory = [("cpu", "500m"), ("memory", "1Gi")];
    for (what, claim) in [
        (
            "replicas",
            (|_| pb::NodeClaim::default()) as fn(usize) -> pb::NodeClaim,
        ),
        ("replicas with a node selector", |index| {
            with_selector("example.com/label-3", &format!("value-{}", index % 7))
        }),
        ("replicas with a node affinity", with_affinity),
    ] {
        measure(what, REQUESTS, |index| {
            let request = replicas(&cpu_and_memory, claim(index));
            assert!(
                state
                    .max_replicas(&request, Rules::default(), &mut Unmeasured)
                    .unwrap()
                    > 0
            );
        });
    }
    let sets = |replicas: i32| pb::MaxAvailableComponentSetsRequest {
        components: vec![
            component(&[("cpu", "2")], pb::NodeClaim::default(), 1),
            component(&cpu_and_memory, pb::NodeClaim::default(), replicas),
        ],
        ..pb::MaxAvailableComponentSetsRequest::default()
    };
    measure("sets of two components", 200, |_| {
        assert!(
            state
                .max_component_sets(&sets(4), Rules::default(), &mut Unmeasured)
                .unwrap()
                > 0
        );
    });
    measure("events about pods, with decoding", REQUESTS, |index| {
        apply_pod(&mut state, PODS + index);
    });
}
