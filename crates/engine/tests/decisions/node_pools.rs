//! Tests of estimates from the node pools of clusters: node selectors, affinities, taints, and nodes that are too small.

use berth_api::feature_gates::EngineGates;
use berth_api::well_known::NODE_POOLS;
use berth_engine::{EarlierRequest, ResourceRequest};
use serde_json::{Value, json};

use crate::fixtures::{
    aggregated, binding, cluster, decide, decide_with, dynamic, engine, fleet, request, text,
    with_binding_spec,
};

/// Returns a cluster whose resource summary has room for 100 pods with any request, and whose pools are these.
fn with_pools(name: &str, pools: Value) -> Value {
    let mut cluster = cluster(name, 100);
    cluster["status"]["resourceSummary"]["allocatable"]["cpu"] = json!("10k");
    let summary = json!({ "labels": { "os": "linux" }, "omittedLabels": ["kubernetes.io/hostname"],
        "pools": pools });
    cluster["metadata"]["annotations"] = json!({ NODE_POOLS: summary.to_string() });
    cluster
}

fn nodes(count: i64, cpu: &str) -> Value {
    json!({ "count": count, "free": { "cpu": cpu, "pods": "110" } })
}

/// A cluster m1 with 4 nodes of 7 free CPUs, 2 of them with NVMe disks, and a tainted node with a GPU; and a cluster m2
/// with large nodes without labels.
fn two_clusters() -> [Value; 2] {
    [
        with_pools(
            "m1",
            json!([
                { "labels": { "disk": "hdd" }, "nodes": [nodes(2, "7")] },
                { "labels": { "disk": "nvme" }, "nodes": [nodes(1, "7"), nodes(1, "3")] },
                { "labels": { "disk": "nvme", "gpu": "a100" },
                    "taints": [{ "key": "gpu", "effect": "NoSchedule" }], "nodes": [nodes(1, "30")] },
            ]),
        ),
        with_pools("m2", json!([{ "nodes": [nodes(2, "16")] }])),
    ]
}

/// Returns a binding that divides replicas with this request and this condition on nodes.
fn divided(replicas: i32, cpu: &str, claim: Value) -> Value {
    with_binding_spec(
        binding(replicas, json!({ "replicaScheduling": dynamic() })),
        json!({ "replicaRequirements": { "resourceRequest": { "cpu": cpu }, "nodeClaim": claim } }),
    )
}

#[test]
fn only_nodes_that_can_run_the_pods_count() {
    let term = |key: &str, operator: &str| {
        json!({ "hardNodeAffinity": { "nodeSelectorTerms": [
        { "matchExpressions": [{ "key": key, "operator": operator }] }] } })
    };
    let tolerant = json!({ "tolerations": [{ "key": "gpu", "operator": "Exists" }] });
    let nothing =
        |available| format!("Clusters available replicas {available} are not enough to schedule.");
    for (replicas, cpu, claim, expected) in [
        // 3 nodes of 7 CPUs take 2 replicas each, the node with 3 CPUs takes 1, and m2 takes 2 times 5.
        (17, "3", json!({}), "m1:7 m2:10".to_owned()),
        (18, "3", json!({}), nothing(17)),
        (27, "3", tolerant.clone(), "m1:17 m2:10".to_owned()),
        (
            3,
            "3",
            json!({ "nodeSelector": { "disk": "nvme" } }),
            "m1:3".to_owned(),
        ),
        (
            4,
            "3",
            json!({ "nodeSelector": { "disk": "nvme" } }),
            nothing(3),
        ),
        (
            1,
            "1",
            json!({ "nodeSelector": { "gpu": "a100" } }),
            nothing(0),
        ),
        (
            1,
            "1",
            json!({ "nodeSelector": { "os": "windows" } }),
            nothing(0),
        ),
        (1, "1", term("gpu", "Exists"), nothing(0)),
        (2, "7", term("gpu", "DoesNotExist"), "m1:1 m2:1".to_owned()),
        // The names of hosts are unknown.
        (
            17,
            "3",
            json!({ "nodeSelector": { "kubernetes.io/hostname": "n1" } }),
            "m1:7 m2:10".to_owned(),
        ),
        // No node is large enough, although the cluster has the CPUs in all.
        (1, "17", json!({}), nothing(0)),
        (1, "17", tolerant, "m1:1".to_owned()),
    ] {
        let case = format!("{replicas} replicas with {cpu} CPUs, {claim}");
        let found = text(&decide(&two_clusters(), &divided(replicas, cpu, claim)));
        assert!(
            found.ends_with(&expected),
            "{case}: {found} instead of {expected}"
        );
    }
}

#[test]
fn the_gate_and_a_readable_annotation_are_needed() {
    let gate = EngineGates {
        node_pool_estimate: false,
        ..EngineGates::default()
    };
    let binding = divided(1, "1", json!({ "nodeSelector": { "disk": "tape" } }));
    let mut unreadable = two_clusters();
    for cluster in &mut unreadable {
        cluster["metadata"]["annotations"] = json!({ NODE_POOLS: "{" });
    }
    assert_eq!(text(&decide(&unreadable, &binding)), "m1:1");
    assert_eq!(text(&decide_with(gate, &two_clusters(), &binding)), "m1:1");
    let on = text(&decide(&two_clusters(), &binding));
    assert!(
        on.ends_with("Clusters available replicas 0 are not enough to schedule."),
        "{on}"
    );
}

#[test]
fn pools_replace_resource_models() {
    let mut clusters = two_clusters();
    let grade = |grade: i64, min: &str, max: &str| {
        json!({ "grade": grade,
        "ranges": [{ "name": "cpu", "min": min, "max": max }] })
    };
    clusters[1]["spec"]["resourceModels"] = json!([grade(0, "0", "1"), grade(1, "1", "100")]);
    clusters[1]["status"]["resourceSummary"]["allocatableModelings"] =
        json!([{ "grade": 1, "count": 2 }]);
    // The models would count two nodes with one CPU each.
    assert_eq!(
        text(&decide(&clusters[1..], &divided(8, "4", json!({})))),
        "m2:8"
    );
}

#[test]
fn each_component_needs_its_own_nodes() {
    let gates = |node_pool_estimate| EngineGates {
        multiple_pod_templates_scheduling: true,
        node_pool_estimate,
        ..EngineGates::default()
    };
    let component = |name: &str, replicas: i64, selector: Value| {
        json!({ "name": name, "replicas": replicas,
            "replicaRequirements": { "resourceRequest": { "cpu": "2" }, "nodeClaim": { "nodeSelector": selector } } })
    };
    let one = json!({ "spreadConstraints": [{ "spreadByField": "cluster", "minGroups": 1, "maxGroups": 1 }] });
    let binding = with_binding_spec(
        binding(0, one),
        json!({ "replicas": 0, "replicaRequirements": null, "components": [
            component("master", 1, json!({})), component("worker", 4, json!({ "disk": "nvme" }))] }),
    );
    // The cluster m2 has room for more pods, but no NVMe disks for the workers.
    let mut clusters = two_clusters();
    clusters[0]["status"]["resourceSummary"]["allocatable"]["pods"] = json!("50");
    let placed = |gates| text(&decide_with(gates, &clusters, &binding));
    assert!(
        placed(gates(false)).starts_with("m2"),
        "{}",
        placed(gates(false))
    );
    assert!(
        placed(gates(true)).starts_with("m1"),
        "{}",
        placed(gates(true))
    );
}

#[test]
fn replicas_that_outgrow_their_nodes_leave() {
    // Eight replicas with 1 CPU run on the 4 nodes of m1, which have 6 free CPUs each: 8 with the replicas removed.
    let clusters = [
        with_pools("m1", json!([{ "nodes": [nodes(4, "6")] }])),
        with_pools("m2", json!([{ "nodes": [nodes(8, "8")] }])),
    ];
    let decide_from = |current: Value, cpu: &str| {
        let binding = with_binding_spec(
            binding(8, json!({ "replicaScheduling": aggregated() })),
            json!({ "replicaRequirements": { "resourceRequest": { "cpu": cpu } }, "clusters": current }),
        );
        let earlier = serde_json::from_value(json!({ "cpu": "1" })).unwrap();
        let request = request(&binding).with_earlier(EarlierRequest {
            request: ResourceRequest::new(&earlier).unwrap(),
            clusters: [("m1".to_owned(), 8)].into(),
        });
        text(&engine(EngineGates::default()).schedule(&fleet(&clusters).snapshot(), &request))
    };
    let decide = |cpu: &str| decide_from(json!([{ "name": "m1", "replicas": 8 }]), cpu);
    let moved = json!([{ "name": "m1", "replicas": 4 }, { "name": "m2", "replicas": 4 }]);
    let decide_again = |cpu: &str| decide_from(moved.clone(), cpu);
    assert_eq!(decide("4"), "m1:8");
    assert_eq!(decide("5"), "m1:4 m2:4");
    assert_eq!(decide("8"), "m1:4 m2:4");
    // The cluster still reports the eight replicas after four of them have left.
    assert_eq!(decide_again("8"), "m1:4 m2:4");
    // They fit neither into m1 nor into m2.
    assert!(
        decide("9").ends_with("are not enough to schedule."),
        "{}",
        decide("9")
    );
}
