use std::collections::BTreeMap;

use berth_api::quantity::Quantity;
use berth_api::toleration::Toleration;
use berth_estimator_protocol::kubernetes_types::{node_selector, quantity, toleration};
use k8s_openapi::api::core::v1::{Node, NodeSelector, Pod};
use serde_json::{Value, json};

use super::*;

pub(crate) fn node(name: &str, spec: Value, labels: Value, allocatable: Value) -> Node {
    serde_json::from_value(json!({
        "metadata": {"name": name, "labels": labels}, "spec": spec, "status": {"allocatable": allocatable},
    }))
    .unwrap()
}

pub(crate) fn pod(name: &str, node: &str, requests: Value) -> Pod {
    serde_json::from_value(json!({
        "metadata": {"namespace": "default", "name": name},
        "spec": {"nodeName": node, "containers": [{"name": "c", "resources": {"requests": requests}}]},
        "status": {"phase": "Running"},
    }))
    .unwrap()
}

/// Returns three nodes with 8 cpu, 16Gi and 11 pods each. Pods leave 2 cpu, 6Gi and 8 pods on the first node, and
/// 3 cpu, 5Gi and 9 pods on the second node.
fn cluster(specs: [Value; 3], labels: [Value; 3]) -> ClusterState {
    let mut state = ClusterState::default();
    for (index, (spec, labels)) in specs.into_iter().zip(labels).enumerate() {
        let allocatable =
            json!({"cpu": "8", "memory": "16Gi", "pods": "11", "ephemeral-storage": "16Gi"});
        let name = format!("node{}", index + 1);
        state
            .nodes
            .apply_node(&node(&name, spec, labels, allocatable));
    }
    for (name, node, cpu, memory) in [
        ("a", "node1", "1", "3Gi"),
        ("b", "node1", "3", "3Gi"),
        ("c", "node1", "2", "4Gi"),
        ("d", "node2", "4", "8Gi"),
        ("e", "node2", "1", "3Gi"),
    ] {
        state
            .nodes
            .apply_pod(&pod(name, node, json!({"cpu": cpu, "memory": memory})));
    }
    state
}

fn plain() -> ClusterState {
    let nothing = || [json!({}), json!({}), json!({})];
    cluster(nothing(), nothing())
}

fn resources(requests: Value) -> BTreeMap<String, Vec<u8>> {
    let list: BTreeMap<String, String> = serde_json::from_value(requests).unwrap();
    let encode = |text: String| quantity(Quantity::parse(&text).unwrap());
    list.into_iter()
        .map(|(name, text)| (name, encode(text)))
        .collect()
}

fn replicas(requests: Value, claim: Option<pb::NodeClaim>) -> pb::MaxAvailableReplicasRequest {
    pb::MaxAvailableReplicasRequest {
        replica_requirements: Some(pb::ReplicaRequirements {
            node_claim: claim,
            resource_request_bytes: resources(requests),
            namespace: "default".into(),
            ..pb::ReplicaRequirements::default()
        }),
        ..pb::MaxAvailableReplicasRequest::default()
    }
}

fn component(requests: Value, claim: Option<pb::NodeClaim>, replicas: i32) -> pb::Component {
    pb::Component {
        name: "c".into(),
        replica_requirements: Some(pb::ComponentReplicaRequirements {
            node_claim: claim,
            resource_request_bytes: resources(requests),
            ..pb::ComponentReplicaRequirements::default()
        }),
        replicas,
    }
}

fn sets(components: Vec<pb::Component>) -> pb::MaxAvailableComponentSetsRequest {
    pb::MaxAvailableComponentSetsRequest {
        components,
        namespace: "default".into(),
        ..pb::MaxAvailableComponentSetsRequest::default()
    }
}

fn with_selector(pairs: &[(&str, &str)]) -> pb::NodeClaim {
    let pair = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    pb::NodeClaim {
        node_selector: pairs.iter().map(pair).collect(),
        ..pb::NodeClaim::default()
    }
}

fn with_affinity(terms: Value) -> pb::NodeClaim {
    let affinity: NodeSelector =
        serde_json::from_value(json!({"nodeSelectorTerms": terms})).unwrap();
    pb::NodeClaim {
        node_affinity_bytes: node_selector(&affinity),
        ..pb::NodeClaim::default()
    }
}

fn with_tolerations(list: Value) -> pb::NodeClaim {
    let list: Vec<Toleration> = serde_json::from_value(list).unwrap();
    pb::NodeClaim {
        tolerations_bytes: list.iter().map(toleration).collect(),
        ..pb::NodeClaim::default()
    }
}

fn max_replicas(state: &ClusterState, request: &pb::MaxAvailableReplicasRequest) -> i32 {
    state
        .max_replicas(request, Rules::default(), &mut Unmeasured)
        .unwrap()
}

fn max_sets(state: &ClusterState, components: Vec<pb::Component>) -> i32 {
    state
        .max_component_sets(&sets(components), Rules::default(), &mut Unmeasured)
        .unwrap()
}

#[test]
fn the_scarcest_resource_of_each_node_limits_its_replicas() {
    let state = plain();
    for (requests, expected) in [
        (json!({"cpu": "1", "memory": "2Gi"}), 2 + 2 + 8),
        (json!({"cpu": "1500m"}), 1 + 2 + 5),
        (json!({"cpu": "100m"}), 8 + 9 + 11),
        (json!({}), 8 + 9 + 11),
        (
            json!({"cpu": "0", "pods": "100", "storage": "1Ti"}),
            8 + 9 + 11,
        ),
        (json!({"cpu": "9"}), 0),
        (json!({"nvidia.com/gpu": "1"}), 0),
        (json!({"ephemeral-storage": "8Gi"}), 6),
    ] {
        assert_eq!(
            max_replicas(&state, &replicas(requests.clone(), None)),
            expected,
            "{requests}"
        );
    }
    let without_requirements = pb::MaxAvailableReplicasRequest::default();
    assert_eq!(max_replicas(&state, &without_requirements), 28);
}

#[test]
fn a_cluster_without_nodes_has_no_room() {
    let state = ClusterState::default();
    assert_eq!(max_replicas(&state, &replicas(json!({}), None)), 0);
    assert_eq!(max_sets(&state, Vec::new()), 0);
}

#[test]
fn nodes_are_selected_by_labels_and_names() {
    let labels = [json!({"a": "1"}), json!({"a": "3", "b": "2"}), json!({})];
    let state = cluster([json!({}), json!({}), json!({})], labels);
    let expression = |key: &str, operator: &str, values: &[&str]| {
        with_affinity(
            json!([{"matchExpressions": [{"key": key, "operator": operator, "values": values}]}]),
        )
    };
    let field = |key: &str, operator: &str, values: &[&str]| {
        with_affinity(
            json!([{"matchFields": [{"key": key, "operator": operator, "values": values}]}]),
        )
    };
    // With 1 cpu and 2Gi, 2 replicas fit on each of the first two nodes, and 8 on the third one.
    for (number, (claim, expected)) in [
        (with_selector(&[("a", "3")]), 2),
        (with_selector(&[("a", "3"), ("b", "1")]), 0),
        (with_selector(&[("none", "")]), 0),
        (expression("a", "In", &["1", "3"]), 4),
        (expression("a", "NotIn", &["1"]), 10),
        (expression("a", "Exists", &[]), 4),
        (expression("b", "DoesNotExist", &[]), 10),
        (expression("none", "DoesNotExist", &[]), 12),
        (expression("none", "Exists", &[]), 0),
        (expression("a", "Gt", &["1"]), 2),
        (expression("a", "Lt", &["3"]), 2),
        (expression("a", "Gt", &["x"]), 0),
        (expression("a", "Like", &["1"]), 0),
        (field("metadata.name", "In", &["node3"]), 8),
        (field("metadata.name", "NotIn", &["node3"]), 4),
        (field("metadata.name", "In", &["node1", "node3"]), 0),
        (field("metadata.name", "Exists", &[]), 0),
        (field("metadata.uid", "NotIn", &["node3"]), 12),
        (field("metadata.uid", "In", &["node3"]), 0),
        // Terms are alternatives. Empty and invalid terms select no node.
        (with_affinity(json!([{}])), 0),
        (
            with_affinity(json!([
                {}, {"matchExpressions": [{"key": "a", "operator": "Like", "values": ["1"]}]},
                {"matchExpressions": [{"key": "b", "operator": "Exists"}]},
                {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node3"]}]},
            ])),
            10,
        ),
        // All requirements of a term must hold, and the node selector, too.
        (
            with_affinity(json!([{
                "matchExpressions": [{"key": "a", "operator": "Exists"}],
                "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node3"]}],
            }])),
            0,
        ),
        (
            pb::NodeClaim {
                node_selector: with_selector(&[("a", "1")]).node_selector,
                ..expression("b", "Exists", &[])
            },
            0,
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let request = replicas(json!({"cpu": "1", "memory": "2Gi"}), Some(claim));
        assert_eq!(max_replicas(&state, &request), expected, "claim {number}");
    }
}

#[test]
fn nodes_with_taints_need_tolerations() {
    let taint =
        |key: &str, effect: &str| json!({"taints": [{"key": key, "value": "v", "effect": effect}]});
    for (spec, tolerations, expected) in [
        (json!({}), json!([]), true),
        (taint("k", "NoSchedule"), json!([]), false),
        (taint("k", "NoExecute"), json!([]), false),
        (taint("k", "PreferNoSchedule"), json!([]), true),
        (
            taint("k", "NoSchedule"),
            json!([{"key": "k", "operator": "Equal", "value": "v"}]),
            true,
        ),
        (
            taint("k", "NoSchedule"),
            json!([{"key": "k", "value": "v", "effect": "NoExecute"}]),
            false,
        ),
        (
            taint("k", "NoSchedule"),
            json!([{"key": "k", "value": "w"}]),
            false,
        ),
        (
            taint("k", "NoSchedule"),
            json!([{"key": "k", "operator": "Exists"}]),
            true,
        ),
        (
            taint("k", "NoSchedule"),
            json!([{"operator": "Exists"}]),
            true,
        ),
        (
            taint("5", "NoSchedule"),
            json!([{"key": "5", "operator": "Gt", "value": "3"}]),
            false,
        ),
        (json!({"unschedulable": true}), json!([]), false),
        (
            json!({"unschedulable": true}),
            json!([{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]),
            true,
        ),
        (
            json!({"unschedulable": true}),
            json!([{"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoExecute"}]),
            false,
        ),
    ] {
        let mut state = ClusterState::default();
        state
            .nodes
            .apply_node(&node("n", spec.clone(), json!({}), json!({"pods": "5"})));
        let request = replicas(json!({}), Some(with_tolerations(tolerations.clone())));
        let expected = if expected { 5 } else { 0 };
        assert_eq!(
            max_replicas(&state, &request),
            expected,
            "{spec} {tolerations}"
        );
    }
}

#[test]
fn only_active_pods_on_nodes_use_resources() {
    let mut state = ClusterState::default();
    // A pod can be listed before its node.
    state
        .nodes
        .apply_pod(&pod("early", "n", json!({"cpu": "1"})));
    state.nodes.apply_node(&node(
        "n",
        json!({}),
        json!({}),
        json!({"cpu": "4", "pods": "10"}),
    ));
    let free = |state: &ClusterState| max_replicas(state, &replicas(json!({"cpu": "1"}), None));
    assert_eq!(free(&state), 3);
    let mut ended = pod("ended", "n", json!({"cpu": "1"}));
    ended.status.as_mut().unwrap().phase = Some("Succeeded".into());
    state.nodes.apply_pod(&ended);
    state
        .nodes
        .apply_pod(&pod("waiting", "", json!({"cpu": "1"})));
    assert_eq!(free(&state), 3);
    state
        .nodes
        .apply_pod(&pod("early", "n", json!({"cpu": "2"})));
    assert_eq!(free(&state), 2);
    ended.metadata.name = Some("early".into());
    state.nodes.apply_pod(&ended);
    assert_eq!(free(&state), 4);
    // More requests than allocatable resources leave nothing free.
    state
        .nodes
        .apply_pod(&pod("huge", "n", json!({"cpu": "9"})));
    assert_eq!(free(&state), 0);
    state.nodes.retain_pods(|_, name| name != "huge");
    assert_eq!(free(&state), 4);
    state.nodes.retain_nodes(|_| false);
    assert_eq!((free(&state), state.nodes.count()), (0, 0));
}

#[test]
fn devices_are_resources_of_nodes_without_a_device_plugin() {
    let mut state = plain();
    let allocatable = json!({"cpu": "8", "memory": "16Gi", "pods": "11", "example.com/gpu": "4"});
    let with_plugin = node("node1", json!({}), json!({}), allocatable);
    state.nodes.apply_node(&with_plugin);
    let class =
        json!({"metadata": {"name": "gpu"}, "spec": {"extendedResourceName": "example.com/gpu"}});
    state
        .devices
        .apply_class(&serde_json::from_value(class).unwrap());
    let slice = json!({
        "metadata": {"name": "s"},
        "spec": {
            "driver": "d", "nodeName": "node2",
            "pool": {"name": "node2", "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": "d0"}, {"name": "d1"}, {"name": "d2"}],
        },
    });
    state
        .devices
        .apply_slice(&serde_json::from_value(slice).unwrap());
    // Each node has a pod with a device. The claim of the second pod contains its device.
    for (name, node) in [("g", "node1"), ("h", "node2")] {
        let with_device = pod(name, node, json!({"example.com/gpu": "1"}));
        state.nodes.apply_pod(&with_device);
    }
    let claim = json!({
        "metadata": {"namespace": "default", "name": "h"}, "spec": {},
        "status": {"allocation": {"devices": {"results": [
            {"request": "r", "driver": "d", "pool": "node2", "device": "d1"},
        ]}}},
    });
    state
        .devices
        .apply_claim(&serde_json::from_value(claim).unwrap());
    for (requests, expected) in [
        (json!({"example.com/gpu": "1"}), 3 + 2),
        (json!({"example.com/gpu": "2"}), 1 + 1),
        (json!({"example.com/gpu": "1", "cpu": "2"}), 1 + 1),
        (json!({"deviceclass.resource.kubernetes.io/gpu": "1"}), 2),
        (json!({"deviceclass.resource.kubernetes.io/nic": "1"}), 0),
    ] {
        let request = replicas(requests.clone(), None);
        assert_eq!(max_replicas(&state, &request), expected, "{requests}");
    }
    let two = vec![component(json!({"example.com/gpu": "1"}), None, 2)];
    assert_eq!(max_sets(&state, two), 2);
}

#[test]
fn a_set_contains_the_pods_of_all_components() {
    let state = plain();
    let small = || component(json!({"cpu": "1", "memory": "2Gi"}), None, 1);
    let two_large = || component(json!({"cpu": "2", "memory": "2Gi"}), None, 2);
    for (components, expected) in [
        (vec![], i32::MAX),
        (vec![small()], 12),
        // First fit: the large pods of the sets use 4, and then 4 cpu of the third node.
        (vec![two_large()], 3),
        (vec![two_large(), small()], 2),
        (vec![component(json!({"cpu": "9"}), None, 1)], 0),
        (vec![component(json!({"cpu": "9"}), None, 0)], i32::MAX),
        (vec![component(json!({"cpu": "9"}), None, 0), small()], 12),
        (vec![component(json!({}), None, 20)], 1),
    ] {
        assert_eq!(
            max_sets(&state, components.clone()),
            expected,
            "{components:?}"
        );
    }
}

#[test]
fn assumed_workloads_use_resources_if_the_gate_is_on() {
    let state = plain();
    let assumed = |components| pb::AssumedWorkload {
        namespace: "other".into(),
        components,
    };
    let gate = Rules {
        assumed_workloads: true,
        ..Rules::default()
    };
    let cpu = || json!({"cpu": "1", "memory": "2Gi"});
    for (workloads, expected) in [
        (vec![], 12),
        (vec![assumed(vec![component(cpu(), None, 3)])], 9),
        (
            vec![
                assumed(vec![component(cpu(), None, 2)]),
                assumed(vec![component(cpu(), None, 2)]),
            ],
            8,
        ),
        (
            vec![assumed(vec![]), assumed(vec![component(cpu(), None, 1)])],
            11,
        ),
        (
            vec![assumed(vec![component(json!({"cpu": "9"}), None, 1)])],
            12,
        ),
    ] {
        let request = pb::MaxAvailableReplicasRequest {
            assumed_workloads: workloads.clone(),
            ..replicas(cpu(), None)
        };
        assert_eq!(
            state.max_replicas(&request, gate, &mut Unmeasured),
            Ok(expected),
            "{workloads:?}"
        );
        assert_eq!(max_replicas(&state, &request), 12);
        let request = pb::MaxAvailableComponentSetsRequest {
            assumed_workloads: workloads.clone(),
            ..sets(vec![component(cpu(), None, 1)])
        };
        assert_eq!(
            state.max_component_sets(&request, gate, &mut Unmeasured),
            Ok(expected),
            "{workloads:?}"
        );
    }
}

#[test]
fn quotas_limit_estimates_if_the_gate_is_on() {
    let mut state = plain();
    let quota = json!({
        "metadata": {"namespace": "default", "name": "q"},
        "status": {"hard": {"cpu": "5"}, "used": {"cpu": "0"}},
    });
    state.quotas.apply(&serde_json::from_value(quota).unwrap());
    let gate = Rules {
        quotas: true,
        ..Rules::default()
    };
    let request = replicas(json!({"cpu": "1"}), None);
    assert_eq!(state.max_replicas(&request, gate, &mut Unmeasured), Ok(5));
    assert_eq!(max_replicas(&state, &request), 13);
    let request = sets(vec![component(json!({"cpu": "1"}), None, 2)]);
    assert_eq!(
        state.max_component_sets(&request, gate, &mut Unmeasured),
        Ok(2)
    );
    assert_eq!(
        state.max_component_sets(&request, Rules::default(), &mut Unmeasured),
        Ok(6)
    );
}

#[test]
fn malformed_requests_are_refused() {
    let mut request = replicas(json!({"cpu": "1"}), None);
    let requirements = request.replica_requirements.as_mut().unwrap();
    requirements
        .resource_request_bytes
        .insert("cpu".into(), b"\x0a\x01x".to_vec());
    assert!(
        plain()
            .max_replicas(&request, Rules::default(), &mut Unmeasured)
            .is_err()
    );
}

#[test]
fn pods_of_a_lower_priority_use_nothing_if_the_flag_is_set() {
    let mut state = ClusterState::default();
    state.nodes.apply_node(
        &serde_json::from_value(json!({
            "metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "8", "pods": "110"}},
        }))
        .unwrap(),
    );
    for (name, priority) in [("low", -5), ("usual", 0), ("high", 100)] {
        let pod = json!({"metadata": {"namespace": "default", "name": name}, "spec": {
            "nodeName": "n", "priority": priority,
            "containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]}});
        state.nodes.apply_pod(&serde_json::from_value(pod).unwrap());
    }
    for (name, value, policy) in [
        ("middle", 50, "PreemptLowerPriority"),
        ("top", 200, "PreemptLowerPriority"),
        ("polite", 200, "Never"),
    ] {
        let class = json!({"metadata": {"name": name}, "value": value, "preemptionPolicy": policy});
        let class = serde_json::from_value(class).unwrap();
        state.priority_classes.apply(&class);
    }
    let flag = Rules {
        preemptible_pods: true,
        ..Rules::default()
    };
    for (class, expected) in [
        ("", 4),
        ("middle", 6),
        ("top", 8),
        ("polite", 2),
        ("unknown", 2),
    ] {
        let mut request = replicas(json!({"cpu": "1"}), None);
        if let Some(requirements) = &mut request.replica_requirements {
            class.clone_into(&mut requirements.priority_class_name);
        }
        let estimate = state.max_replicas(&request, flag, &mut Unmeasured);
        assert_eq!(estimate, Ok(expected), "{class}");
        assert_eq!(max_replicas(&state, &request), 2, "{class}");
    }
}
