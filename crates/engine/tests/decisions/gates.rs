//! Tests of the effects of feature gates, and of corrections by assumed workloads.

use berth_api::feature_gates::EngineGates;
use berth_engine::{
    Assumed, AssumedWorkload, EarlierRequest, Request, ResourceRequest, WorkloadPeers,
};
use serde_json::{Value, json};

use crate::fixtures::{
    aggregated, binding, cluster, decide, decide_with, dynamic, engine, fleet, request,
    static_weights, text, with_binding_spec, with_spec,
};

fn providers() -> Vec<Value> {
    let located =
        |name, pods, provider: &str| with_spec(cluster(name, pods), json!({"provider": provider}));
    vec![
        located("m1", 10, "aws"),
        located("m2", 20, "aws"),
        located("m3", 30, "gcp"),
        located("m4", 40, "gcp"),
    ]
}

#[test]
fn provider_constraint_with_cluster_constraint_needs_the_gate() {
    let gate = EngineGates {
        spread_by_all_fields: true,
        ..EngineGates::default()
    };
    for (provider, cluster, off, on) in [
        ((2, 2), (2, 2), "m3:3 m4:4", "m2:2 m4:5"),
        ((1, 1), (1, 4), "m1:1 m2:1 m3:2 m4:3", "m1:2 m2:5"),
        ((2, 2), (3, 3), "m2:2 m3:2 m4:3", "m2:2 m3:2 m4:3"),
    ] {
        let placement = json!({"replicaScheduling": dynamic(), "spreadConstraints": [
            {"spreadByField": "provider", "minGroups": provider.0, "maxGroups": provider.1},
            {"spreadByField": "cluster", "minGroups": cluster.0, "maxGroups": cluster.1},
        ]});
        let binding = binding(7, placement);
        assert_eq!(
            text(&decide(&providers(), &binding)),
            off,
            "{provider:?} {cluster:?}"
        );
        assert_eq!(
            text(&decide_with(gate, &providers(), &binding)),
            on,
            "{provider:?} {cluster:?}"
        );
    }
}

#[test]
fn devices_limit_no_estimate_if_the_gate_is_on() {
    let gate = EngineGates {
        device_class_estimate: true,
        multiple_pod_templates_scheduling: true,
        ..EngineGates::default()
    };
    let off = EngineGates {
        device_class_estimate: false,
        ..gate
    };
    let clusters = [cluster("m1", 3), cluster("m2", 7)];
    let none = "Clusters available replicas 0 are not enough to schedule.";
    for (resource, expected) in [
        ("deviceclass.resource.kubernetes.io/gpu", "m1:1 m2:3"),
        ("example.com/gpu", none),
    ] {
        let requirements = json!({ "resourceRequest": { "cpu": "1m", resource: "1" } });
        let binding = with_binding_spec(
            binding(4, json!({ "replicaScheduling": dynamic() })),
            json!({ "replicaRequirements": requirements }),
        );
        let found = text(&decide_with(off, &clusters, &binding));
        assert!(found.ends_with(none), "{found}");
        let found = text(&decide_with(gate, &clusters, &binding));
        assert!(found.ends_with(expected), "{found}");
    }
}

#[test]
fn constraints_with_static_weights_need_the_gate() {
    let gate = EngineGates {
        spread_static_weights: true,
        ..EngineGates::default()
    };
    let weights = static_weights(&[("m1", 1), ("m2", 1), ("m3", 1), ("m4", 1)]);
    let placement = json!({"replicaScheduling": weights, "spreadConstraints": [
        {"spreadByField": "cluster", "minGroups": 1, "maxGroups": 2},
    ]});
    let binding = binding(8, placement);
    assert_eq!(text(&decide(&providers(), &binding)), "m1:2 m2:2 m3:2 m4:2");
    assert_eq!(
        text(&decide_with(gate, &providers(), &binding)),
        "m3:4 m4:4"
    );
}

#[test]
fn component_sets_are_counted_with_exact_quantities() {
    let gate = EngineGates {
        multiple_pod_templates_scheduling: true,
        ..EngineGates::default()
    };
    let sets = |memory: &str| {
        let component = |name: &str, replicas: i32| {
            json!({"name": name, "replicas": replicas,
                "replicaRequirements": {"resourceRequest": {"memory": memory}}})
        };
        let spec = json!({"replicas": 0, "replicaRequirements": null,
            "components": [component("driver", 1), component("worker", 3)]});
        let placement = json!({"replicaScheduling": dynamic(), "spreadConstraints": [
            {"spreadByField": "cluster", "minGroups": 1, "maxGroups": 1},
        ]});
        with_binding_spec(binding(0, placement), spec)
    };
    let mut small = cluster("m1", 100);
    small["status"]["resourceSummary"]["allocatable"]["memory"] = json!("3Gi");
    let mut large = cluster("m2", 50);
    large["status"]["resourceSummary"]["allocatable"]["memory"] = json!("8G");
    // If the request and the capacity have different notations, Karmada compares thousandths with whole bytes.
    for (memory, expected) in [
        ("512Mi", "m2:0"),
        ("1Gi", "m2:0"),
        ("1G", "m2:0"),
        ("1000M", "m2:0"),
        (
            "3G",
            "failed to select clusters: no enough resource when selecting 1 clusters",
        ),
    ] {
        let outcome = decide_with(gate, &[small.clone(), large.clone()], &sets(memory));
        assert_eq!(text(&outcome), expected, "{memory}");
    }
    let outcome = decide_with(gate, &[large], &sets("1G"));
    let placement = outcome.result.unwrap();
    let components: Vec<(&str, i32)> = placement.targets[0]
        .components
        .iter()
        .map(|component| (component.name.as_str(), component.replicas))
        .collect();
    assert_eq!(components, [("driver", 1), ("worker", 3)]);
}

#[test]
fn assumed_workloads_occupy_and_free_capacity() {
    let clusters = [cluster("m1", 10), cluster("m2", 10)];
    let request_of = |cpu: &str| {
        let list = serde_json::from_value(json!({ "cpu": cpu })).unwrap();
        ResourceRequest::new(&list).unwrap()
    };
    let workload = |replicas| AssumedWorkload {
        components: vec![(replicas, request_of("1"))],
    };
    let decide = |replicas: i32, assumed: &Assumed| {
        let binding = binding(replicas, json!({"replicaScheduling": dynamic()}));
        let snapshot = fleet(&clusters).snapshot();
        let outcome =
            engine(EngineGates::default()).schedule_with(&snapshot, &request(&binding), assumed);
        text(&outcome)
    };
    assert_eq!(decide(10, &Assumed::default()), "m1:5 m2:5");
    let mut taken = Assumed::default();
    taken.add("m1", workload(8));
    assert_eq!(decide(10, &taken), "m1:2 m2:8");
    let mut freed = Assumed::default();
    freed.free("m2", workload(4));
    let without = decide(24, &Assumed::default());
    assert!(without.contains("not enough"), "{without}");
    assert_eq!(decide(24, &freed), "m1:10 m2:14");
    // Adding and removing the same workload leaves the reported capacity unchanged.
    taken.free("m1", workload(8));
    assert_eq!(decide(10, &taken), "m1:5 m2:5");
}

#[test]
fn removed_pods_free_nodes_of_their_size_in_resource_models() {
    let mut graded = cluster("m1", 100);
    graded["spec"]["resourceModels"] = json!([
        {"grade": 0, "ranges": [{"name": "cpu", "min": "0", "max": "2"}]},
        {"grade": 1, "ranges": [{"name": "cpu", "min": "2", "max": "8"}]},
    ]);
    graded["status"]["resourceSummary"]["allocatableModelings"] =
        json!([{"grade": 0, "count": 0}, {"grade": 1, "count": 1}]);
    let list = serde_json::from_value(json!({"cpu": "1"})).unwrap();
    let mut freed = Assumed::default();
    freed.free(
        "m1",
        AssumedWorkload {
            components: vec![(3, ResourceRequest::new(&list).unwrap())],
        },
    );
    let decide = |replicas: i32, assumed: &Assumed| {
        let binding = binding(replicas, json!({"replicaScheduling": dynamic()}));
        let snapshot = fleet(std::slice::from_ref(&graded)).snapshot();
        let outcome =
            engine(EngineGates::default()).schedule_with(&snapshot, &request(&binding), assumed);
        text(&outcome)
    };
    assert_eq!(decide(2, &Assumed::default()), "m1:2");
    assert!(decide(5, &Assumed::default()).contains("not enough"));
    assert_eq!(decide(5, &freed), "m1:5");
    assert!(decide(6, &freed).contains("not enough"));
}

#[test]
fn workload_affinity_needs_the_gate() {
    let on = EngineGates {
        workload_affinity: true,
        ..EngineGates::default()
    };
    let clusters = [cluster("m1", 10), cluster("m2", 10), cluster("m3", 10)];
    let peers = |affinity: &[&[&str]], anti_affinity: &[&[&str]]| {
        let lists = |lists: &[&[&str]]| {
            lists
                .iter()
                .map(|list| list.iter().map(|&name| name.to_owned()).collect())
                .collect()
        };
        WorkloadPeers {
            affinity: lists(affinity),
            anti_affinity: lists(anti_affinity),
        }
    };
    let schedule = |gates, current: Value, peers: WorkloadPeers| {
        let binding = with_binding_spec(
            binding(6, json!({"replicaScheduling": dynamic()})),
            json!({"clusters": current}),
        );
        let request: Request = request(&binding).with_peers(peers);
        text(&engine(gates).schedule(&fleet(&clusters).snapshot(), &request))
    };
    for (peers, expected) in [
        (peers(&[], &[]), "m1:2 m2:2 m3:2"),
        // A workload of the group that is not placed has no effect.
        (peers(&[&[]], &[]), "m1:2 m2:2 m3:2"),
        (peers(&[&["m1", "m2"]], &[]), "m1:3 m2:3"),
        (peers(&[&["m1", "m2"], &["m2", "m3"]], &[]), "m2:6"),
        (peers(&[], &[&["m1"]]), "m2:3 m3:3"),
        (
            peers(&[&["m9"]], &[]),
            "0/3 clusters are available: 3 ResourceBinding with the same affinity group does not target this cluster.",
        ),
        (
            peers(&[], &[&["m1", "m2", "m3"]]),
            "0/3 clusters are available: 3 cluster already has workload with the same anti-affinity group.",
        ),
    ] {
        assert_eq!(
            schedule(on, json!([]), peers.clone()),
            expected,
            "{peers:?}"
        );
        assert_eq!(
            schedule(EngineGates::default(), json!([]), peers),
            "m1:2 m2:2 m3:2",
            "without the gate, affinity groups have no effect"
        );
    }
    let current = json!([{"name": "m1", "replicas": 6}]);
    assert_eq!(
        schedule(on, current, peers(&[], &[&["m1", "m2", "m3"]])),
        "m1:6",
        "clusters that already have the workload pass"
    );
}

/// Returns the decision with a gate off and on.
fn off_and_on(gate: EngineGates, clusters: &[Value], binding: &Value) -> (String, String) {
    (
        text(&decide(clusters, binding)),
        text(&decide_with(gate, clusters, binding)),
    )
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table is as long as its rules")]
fn min_groups_hold_after_the_division_with_the_gate() {
    let gate = EngineGates {
        min_groups_in_division: true,
        spread_by_all_fields: true,
        spread_static_weights: true,
        ..EngineGates::default()
    };
    let located = |name, pods, region: &str, provider: &str| {
        with_spec(
            cluster(name, pods),
            json!({"region": region, "provider": provider}),
        )
    };
    let clusters = [
        located("m1", 4, "east", "aws"),
        located("m2", 4, "east", "gcp"),
        located("m3", 40, "west", "gcp"),
        located("m4", 0, "north", "own"),
    ];
    let spread =
        |by: &str, min: i64| json!({"spreadByField": by, "minGroups": min, "maxGroups": min});
    let weights = || static_weights(&[("m1", 1), ("m3", 9)]);
    let names = |names: &[&str]| json!({ "clusterNames": names });
    for (replicas, scheduling, affinity, constraints, current, off, on) in [
        // All three ways of dividing give the large cluster everything.
        (
            2,
            dynamic(),
            names(&["m1", "m3"]),
            json!([spread("cluster", 2)]),
            json!([]),
            "m3:2",
            "m1:1 m3:1",
        ),
        (
            3,
            aggregated(),
            names(&["m1", "m3"]),
            json!([spread("cluster", 2)]),
            json!([]),
            "m3:3",
            "m1:1 m3:2",
        ),
        (
            3,
            weights(),
            names(&["m1", "m3"]),
            json!([spread("cluster", 2)]),
            json!([]),
            "m3:3",
            "m1:1 m3:2",
        ),
        // Each constraint holds: two regions, and two providers.
        (
            3,
            aggregated(),
            names(&["m1", "m2", "m3"]),
            json!([spread("region", 2), spread("provider", 2)]),
            json!([]),
            "m3:3",
            "m1:1 m3:2",
        ),
        // Fewer replicas than groups.
        (
            1,
            dynamic(),
            names(&["m1", "m3"]),
            json!([spread("cluster", 2)]),
            json!([]),
            "m3:1",
            "m3:1",
        ),
        // Running replicas stay: only the new replica moves.
        (
            3,
            aggregated(),
            names(&["m1", "m3"]),
            json!([spread("cluster", 2)]),
            json!([{"name": "m3", "replicas": 2}]),
            "m3:3",
            "m1:1 m3:2",
        ),
        // A workload that shrinks keeps both clusters.
        (
            2,
            dynamic(),
            names(&["m1", "m3"]),
            json!([spread("cluster", 2)]),
            json!([{"name": "m1", "replicas": 1}, {"name": "m3", "replicas": 9}]),
            "m3:2",
            "m1:1 m3:1",
        ),
        (
            4,
            dynamic(),
            names(&["m3", "m4"]),
            json!([spread("cluster", 2)]),
            json!([]),
            "m3:4",
            "failed to assign replicas: spreadConstraint.MinGroups is 2, but the replicas fit into only 1 of the selected clusters",
        ),
    ] {
        let placement = json!({"clusterAffinity": affinity, "replicaScheduling": scheduling,
            "spreadConstraints": constraints});
        let binding = with_binding_spec(binding(replicas, placement), json!({"clusters": current}));
        let expected = (off.to_owned(), on.to_owned());
        assert_eq!(off_and_on(gate, &clusters, &binding), expected, "{binding}");
    }
}

#[test]
fn tainted_clusters_get_no_further_replicas_with_the_gate() {
    let gate = EngineGates {
        no_scale_up_on_taints: true,
        ..EngineGates::default()
    };
    let cordoned = |name: &str, effect: &str| {
        with_spec(
            cluster(name, 100),
            json!({"taints": [{"key": "cordoned", "effect": effect}]}),
        )
    };
    let current = |m1, m2| json!({"clusters": [{"name": "m1", "replicas": m1}, {"name": "m2", "replicas": m2}]});
    let weights = || static_weights(&[("m1", 1), ("m2", 1)]);
    let tolerated = json!([{"key": "cordoned", "operator": "Exists"}]);
    for (scheduling, tolerations, replicas, placed, off, on) in [
        (dynamic(), json!([]), 10, (1, 1), "m1:5 m2:5", "m1:9 m2:1"),
        (aggregated(), json!([]), 10, (0, 1), "m2:10", "m1:9 m2:1"),
        (weights(), json!([]), 10, (1, 1), "m1:5 m2:5", "m1:9 m2:1"),
        (weights(), json!([]), 10, (1, 7), "m1:5 m2:5", "m1:5 m2:5"),
        (dynamic(), tolerated, 10, (1, 1), "m1:5 m2:5", "m1:5 m2:5"),
        // A workload that shrinks or keeps its replicas is divided as before.
        (dynamic(), json!([]), 4, (4, 4), "m1:2 m2:2", "m1:2 m2:2"),
        (dynamic(), json!([]), 8, (4, 4), "m1:4 m2:4", "m1:4 m2:4"),
        // Every cluster gets all replicas of a duplicated workload.
        (
            json!({"replicaSchedulingType": "Duplicated"}),
            json!([]),
            10,
            (1, 1),
            "m1:10 m2:10",
            "m1:10 m2:10",
        ),
    ] {
        for effect in ["NoSchedule", "NoExecute"] {
            let clusters = [cluster("m1", 100), cordoned("m2", effect)];
            let placement =
                json!({"replicaScheduling": scheduling, "clusterTolerations": tolerations});
            let binding =
                with_binding_spec(binding(replicas, placement), current(placed.0, placed.1));
            let expected = (off.to_owned(), on.to_owned());
            assert_eq!(off_and_on(gate, &clusters, &binding), expected, "{binding}");
        }
    }
    let clusters = [cordoned("m1", "NoSchedule"), cordoned("m2", "NoSchedule")];
    for scheduling in [dynamic(), weights()] {
        let binding = binding(10, json!({ "replicaScheduling": scheduling }));
        let binding = with_binding_spec(binding, current(1, 1));
        let (_, on) = off_and_on(gate, &clusters, &binding);
        assert!(
            on.contains("failed to scale up: Clusters available replicas"),
            "{on}"
        );
    }
}

#[test]
fn current_replicas_count_with_their_new_request() {
    let with_cpu = |name: &str, total: &str, used: &str| {
        let mut cluster = cluster(name, 100);
        cluster["status"]["resourceSummary"]["allocatable"]["cpu"] = json!(total);
        cluster["status"]["resourceSummary"]["allocated"] = json!({ "cpu": used });
        cluster
    };
    // Four replicas run in m1 with 500m, and request 3 CPUs now: two of them fit.
    let clusters = [with_cpu("m1", "8", "2"), with_cpu("m2", "40", "0")];
    let decide = |replicas, constraints: Value, grown: bool| {
        let placement =
            json!({"replicaScheduling": aggregated(), "spreadConstraints": constraints});
        let binding = with_binding_spec(
            binding(replicas, placement),
            json!({"replicaRequirements": {"resourceRequest": {"cpu": "3"}},
                "clusters": [{"name": "m1", "replicas": 4}]}),
        );
        let list = serde_json::from_value(json!({"cpu": "500m"})).unwrap();
        let request = request(&binding);
        let request = if grown {
            request.with_earlier(EarlierRequest {
                request: ResourceRequest::new(&list).unwrap(),
                clusters: [("m1".to_owned(), 4)].into(),
            })
        } else {
            request
        };
        text(&engine(EngineGates::default()).schedule(&fleet(&clusters).snapshot(), &request))
    };
    let one = json!([{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 1}]);
    assert_eq!(decide(6, json!([]), false), "m1:6");
    assert_eq!(decide(4, json!([]), false), "m1:4");
    // Replicas that no longer fit leave.
    assert_eq!(decide(4, json!([]), true), "m1:2 m2:2");
    assert_eq!(decide(6, json!([]), true), "m1:2 m2:4");
    assert_eq!(decide(2, json!([]), true), "m1:2");
    let all = "failed to assign replicas: failed to scale up: Clusters available replicas 13 are not enough to schedule.";
    assert_eq!(decide(20, json!([]), true), all);
    assert_eq!(decide(5, one.clone(), false), "m1:5");
    assert_eq!(decide(5, one, true), "m2:5");
}

#[test]
fn resources_leave_clusters_that_lost_their_api_with_the_gate() {
    let gate = EngineGates {
        follow_member_apis: true,
        ..EngineGates::default()
    };
    let condition = |type_: &str, status: &str| {
        json!({"type": type_, "status": status, "reason": "r", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z"})
    };
    let without_api = |ready: &str, complete: &str| {
        let mut cluster = cluster("m2", 10);
        cluster["status"]["apiEnablements"] = json!([{"groupVersion": "v1", "resources": [
            {"name": "secrets", "kind": "Secret"}]}]);
        cluster["status"]["conditions"] = json!([
            condition("Ready", ready),
            condition("CompleteAPIEnablements", complete)
        ]);
        cluster
    };
    let binding = with_binding_spec(
        binding(
            1,
            json!({ "replicaScheduling": { "replicaSchedulingType": "Duplicated" } }),
        ),
        json!({"clusters": [{"name": "m1", "replicas": 1}, {"name": "m2", "replicas": 1}]}),
    );
    for (ready, complete, on) in [
        ("True", "True", "m1:1"),
        // The list of APIs may be incomplete or old.
        ("True", "False", "m1:1 m2:1"),
        ("False", "True", "m1:1 m2:1"),
        ("Unknown", "True", "m1:1 m2:1"),
    ] {
        let clusters = [cluster("m1", 10), without_api(ready, complete)];
        let expected = ("m1:1 m2:1".to_owned(), on.to_owned());
        assert_eq!(
            off_and_on(gate, &clusters, &binding),
            expected,
            "{ready} {complete}"
        );
    }
}
