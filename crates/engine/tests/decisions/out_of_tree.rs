//! A test that compiles the in-tree plugins as a part of this test crate. The plugins need no private items of
//! `berth-engine`, and make the same decisions.

use std::sync::Arc;

use berth_api::feature_gates::EngineGates;
use berth_engine::{Engine, EngineOptions, Filter, Plugins, Weighted, WorkloadPeers};
use serde_json::{Value, json};

use crate::fixtures::{
    aggregated, binding, cluster, duplicated, dynamic, engine, fleet, request, static_weights,
    with_binding_spec, with_label, with_spec,
};

#[path = "../../src/plugins"]
#[allow(
    dead_code,
    unreachable_pub,
    unused_imports,
    reason = "the sources are those of a library"
)]
mod plugins {
    pub(crate) mod api_enablement;
    pub(crate) mod assign_replicas;
    pub(crate) mod cluster_affinity;
    pub(crate) mod cluster_eviction;
    pub(crate) mod cluster_locality;
    pub(crate) mod select_clusters;
    pub(crate) mod spread_constraint;
    pub(crate) mod taint_toleration;
    pub(crate) mod workload_affinity;
}

fn out_of_tree(gates: EngineGates) -> Engine {
    let plugins = Plugins {
        filters: vec![
            Filter::Binding(Arc::new(plugins::api_enablement::ApiEnablement::new(gates))),
            Filter::Placement(Arc::new(plugins::taint_toleration::TaintToleration)),
            Filter::Placement(Arc::new(plugins::cluster_affinity::ClusterAffinity)),
            Filter::Placement(Arc::new(plugins::spread_constraint::SpreadConstraint)),
            Filter::Binding(Arc::new(plugins::cluster_eviction::ClusterEviction)),
            Filter::Binding(Arc::new(plugins::workload_affinity::WorkloadAffinity)),
            Filter::Binding(Arc::new(plugins::workload_affinity::WorkloadAntiAffinity)),
        ],
        scores: vec![Weighted {
            plugin: Arc::new(plugins::cluster_locality::ClusterLocality),
            weight: 1,
        }],
        select: Arc::new(plugins::select_clusters::SelectClusters::new(gates)),
        assign: Arc::new(plugins::assign_replicas::AssignReplicas::new(gates)),
        ..Plugins::in_tree(gates)
    };
    let options = EngineOptions {
        gates,
        ..EngineOptions::default()
    };
    Engine::with_plugins(options, plugins).unwrap()
}

fn clusters() -> Vec<Value> {
    let located = |name: &str, pods, region: &str, zone: &str| {
        let spec = json!({"provider": "aws", "region": region, "zones": [zone]});
        with_label(with_spec(cluster(name, pods), spec), "tier", region)
    };
    let tainted = json!({"taints": [{"key": "gone", "effect": "NoSchedule"}]});
    let mut unable = cluster("m7", 50);
    unable["status"]["apiEnablements"] = json!([]);
    vec![
        located("m1", 10, "east", "a"),
        located("m2", 20, "east", "b"),
        located("m3", 30, "west", "a"),
        located("m4", 40, "west", "b"),
        with_spec(located("m5", 50, "west", "c"), tainted),
        cluster("m6", 60),
        unable,
    ]
}

#[test]
fn in_tree_plugins_use_public_items_only() {
    let spread = |list: &[(&str, i32, i32)]| -> Value {
        list.iter()
            .map(|(by, min, max)| json!({"spreadByField": by, "minGroups": min, "maxGroups": max}))
            .collect()
    };
    let named = |names: &[&str]| json!({"clusterNames": names});
    let placements = [
        json!({}),
        json!({"replicaScheduling": duplicated(), "clusterAffinity": named(&["m1", "m5", "m7"])}),
        json!({"replicaScheduling": dynamic()}),
        json!({"replicaScheduling": aggregated(), "clusterTolerations": [{"operator": "Exists"}]}),
        json!({"replicaScheduling": static_weights(&[("m1", 1), ("m3", 2)])}),
        json!({"replicaScheduling": dynamic(), "spreadConstraints": spread(&[("cluster", 1, 2)])}),
        json!({"replicaScheduling": aggregated(),
            "spreadConstraints": spread(&[("region", 2, 2), ("cluster", 2, 3)])}),
        json!({"replicaScheduling": dynamic(),
            "spreadConstraints": spread(&[("zone", 2, 2), ("cluster", 2, 2)])}),
        json!({"replicaScheduling": dynamic(), "spreadConstraints": spread(&[("region", 3, 3)])}),
        json!({"replicaScheduling": dynamic(), "clusterAffinity":
            {"labelSelector": {"matchLabels": {"tier": "west"}}}}),
        json!({"replicaScheduling": dynamic(), "clusterAffinities": [
            {"affinityName": "none", "clusterNames": ["m9"]},
            {"affinityName": "tiers", "clusterNames": ["m1"],
                "overflowAffinities": [{"affinityName": "more", "clusterNames": ["m2", "m3"]}]},
        ]}),
    ];
    let specs = [
        json!({}),
        json!({"clusters": [{"name": "m2", "replicas": 4}, {"name": "m5", "replicas": 2}]}),
        json!({"gracefulEvictionTasks": [{"fromCluster": "m4", "reason": "r", "producer": "p"}]}),
    ];
    let gates = EngineGates {
        workload_affinity: true,
        spread_by_all_fields: true,
        ..EngineGates::stand_alone()
    };
    let snapshot = fleet(&clusters()).snapshot();
    let (mut inside, mut outside) = (engine(gates), out_of_tree(gates));
    let mut placed = 0;
    for placement in &placements {
        for spec in &specs {
            for replicas in [3, 25, 500] {
                let request = request(&with_binding_spec(
                    binding(replicas, placement.clone()),
                    spec.clone(),
                ))
                .with_peers(WorkloadPeers {
                    affinity: Vec::new(),
                    anti_affinity: vec![vec!["m6".to_owned()]],
                });
                let expected = inside.explain(&snapshot, &request);
                assert_eq!(
                    outside.explain(&snapshot, &request),
                    expected,
                    "{replicas} replicas, {placement}, {spec}"
                );
                placed += usize::from(expected.0.result.is_ok());
            }
        }
    }
    assert!(placed > 50, "{placed} bindings were placed");
}
