//! Tests of the placement of workloads with several pod templates, which are called components.

use berth_api::feature_gates::EngineGates;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::fixtures::{
    aggregated, binding, cluster, decide_with, duplicated, dynamic, text, with_binding_spec,
    with_spec,
};

fn gate(on: bool) -> EngineGates {
    EngineGates {
        multiple_pod_templates_scheduling: on,
        ..EngineGates::default()
    }
}

fn component(name: &str, replicas: u64, cpu: u64) -> Value {
    json!({"name": name, "replicas": replicas,
        "replicaRequirements": {"resourceRequest": {"cpu": format!("{cpu}m")}}})
}

/// Returns the binding of a workload with these components and this placement.
fn workload(components: &[Value], placement: Value) -> Value {
    let spec = json!({"replicas": 0, "replicaRequirements": null, "components": components});
    with_binding_spec(binding(0, placement), spec)
}

fn cluster_with_cpu(name: &str, pods: i64, cpu: u64) -> Value {
    let mut cluster = cluster(name, pods);
    cluster["status"]["resourceSummary"]["allocatable"]["cpu"] = json!(format!("{cpu}m"));
    cluster
}

fn one_cluster() -> Value {
    json!([{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 1}])
}

/// Decides, and formats the targets with their components, for example `m1:0 m2:0(driver=1,worker=3)`. `on` is the
/// value of the feature gate.
fn placed(on: bool, clusters: &[Value], binding: &Value) -> String {
    let outcome = decide_with(gate(on), clusters, binding);
    let Ok(placement) = &outcome.result else {
        return text(&outcome);
    };
    let target = |target: &berth_engine::Target| {
        let components = target.components.iter();
        let components: Vec<String> = components
            .map(|component| format!("{}={}", component.name, component.replicas))
            .collect();
        let components = match components.join(",") {
            none if none.is_empty() => none,
            some => format!("({some})"),
        };
        format!("{}:{}{components}", target.name, target.replicas)
    };
    let mut targets: Vec<String> = placement.targets.iter().map(target).collect();
    targets.sort();
    targets.join(" ")
}

#[test]
fn component_sets_are_assigned_only_if_the_placement_is_limited_to_one_cluster() {
    let region = |cluster: Value, region: &str| with_spec(cluster, json!({"region": region}));
    let fleet = [
        region(cluster_with_cpu("m1", 10, 2_000), "a"),
        region(cluster_with_cpu("m2", 10, 9_000), "a"),
        region(cluster_with_cpu("m3", 10, 5_000), "b"),
    ];
    let two = [component("driver", 1, 1_000), component("worker", 3, 1_000)];
    let single = [component("all", 4, 1_000)];
    let large = [component("driver", 1, 1_000), component("worker", 9, 1_000)];
    let with = |constraints: Value, scheduling: Value| json!({"spreadConstraints": constraints, "replicaScheduling": scheduling});
    let clusters = |min: i32, max: i32| json!([{"spreadByField": "cluster", "minGroups": min, "maxGroups": max}]);
    let in_one_region = json!([
        {"spreadByField": "region", "minGroups": 1, "maxGroups": 1},
        {"spreadByField": "cluster", "minGroups": 1, "maxGroups": 1},
    ]);
    let everywhere = "m1:0 m2:0 m3:0";
    let chosen = "m2:0(driver=1,worker=3)";
    let full = "failed to select clusters: no enough resource when selecting 1 clusters";
    for (on, components, placement, expected) in [
        (true, &two[..], json!({}), everywhere),
        (true, &two, with(json!([]), aggregated()), everywhere),
        (true, &two, with(one_cluster(), aggregated()), chosen),
        (true, &two, with(one_cluster(), dynamic()), chosen),
        // Duplicated ignores whether capacity is sufficient, but prefers clusters with more capacity.
        (true, &two, with(one_cluster(), duplicated()), chosen),
        (true, &two, with(in_one_region, aggregated()), chosen),
        (true, &two, with(clusters(1, 3), aggregated()), everywhere),
        // The result lists components only if there are several components.
        (true, &single, with(one_cluster(), aggregated()), "m2:0"),
        (true, &large, with(one_cluster(), aggregated()), full),
        // Without the gate, estimates count only free pods.
        (false, &two, with(one_cluster(), aggregated()), "m1:0"),
        (false, &large, with(one_cluster(), aggregated()), "m1:0"),
    ] {
        let binding = workload(components, placement);
        assert_eq!(placed(on, &fleet, &binding), expected, "{on} {binding}");
    }
}

/// Returns the number of sets that fit, counted one by one until a resource is exhausted.
fn sets_that_fit(mut pods: i64, mut cpu: u64, components: &[(u64, u64)]) -> i64 {
    let (mut set_pods, mut set_cpu) = (0, 0);
    for (replicas, each) in components {
        set_pods += i64::try_from(*replicas).unwrap();
        set_cpu += replicas * each;
    }
    let mut sets = 0;
    while pods >= set_pods && cpu >= set_cpu {
        (pods, cpu, sets) = (pods - set_pods, cpu - set_cpu, sets + 1);
    }
    sets
}

proptest! {
    #[test]
    fn the_cluster_with_most_room_for_sets_is_selected(
        capacities in prop::collection::vec((1_i64..40, 0_u64..20_000), 1..6),
        components in prop::collection::vec((1_u64..5, 1_u64..3_000), 1..4),
    ) {
        let clusters: Vec<Value> = capacities
            .iter()
            .enumerate()
            .map(|(index, (pods, cpu))| cluster_with_cpu(&format!("m{index}"), *pods, *cpu))
            .collect();
        let sets = capacities.iter().map(|(pods, cpu)| sets_that_fit(*pods, *cpu, &components));
        let best = sets.enumerate().max_by_key(|(index, sets)| (*sets, usize::MAX - index));
        let parts: Vec<Value> = components
            .iter()
            .enumerate()
            .map(|(index, (replicas, cpu))| component(&format!("c{index}"), *replicas, *cpu))
            .collect();
        let placement = json!({"spreadConstraints": one_cluster(), "replicaScheduling": aggregated()});
        let outcome = decide_with(gate(true), &clusters, &workload(&parts, placement));
        let expected = match best.unwrap() {
            (_, 0) => "failed to select clusters: no enough resource when selecting 1 clusters".to_owned(),
            (index, _) => format!("m{index}:0"),
        };
        prop_assert_eq!(text(&outcome), expected);
    }
}
