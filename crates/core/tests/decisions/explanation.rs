//! Explanations in the JSON that scripts read.

use berth_core::{Explanation, Gates, Stage};
use serde_json::{Value, json};

use crate::fixtures::{
    binding, cluster, dynamic, engine, fleet, request, text, with_binding_spec, with_spec,
};

fn explain(clusters: &[Value], binding: &Value) -> (String, Explanation) {
    let (outcome, explanation) =
        engine(Gates::default()).explain(&fleet(clusters).snapshot(), &request(binding));
    (text(&outcome), explanation)
}

#[test]
fn every_cluster_is_explained() {
    let mut leaving = cluster("m5", 10);
    leaving["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let clusters = [
        cluster("m1", 10),
        cluster("m2", 2),
        with_spec(
            cluster("m3", 10),
            json!({"taints": [{"key": "gone", "effect": "NoExecute"}]}),
        ),
        cluster("m4", 0),
        leaving,
        cluster("m6", 30),
    ];
    let placement = json!({"replicaScheduling": dynamic(), "spreadConstraints": [
        {"spreadByField": "cluster", "minGroups": 1, "maxGroups": 2},
    ]});
    let binding = with_binding_spec(
        binding(8, placement),
        json!({"clusters": [{"name": "m1", "replicas": 4}]}),
    );
    let (decided, explanation) = explain(&clusters, &binding);
    assert_eq!(decided, "m1:5 m6:3");
    let considered = |name: &str, pods: i64| {
        json!({"stage": "considered", "scores": {"ClusterLocality": 0},
            "estimates": {"general-estimator": pods}, "tier": 0, "available": pods, "_": name})
    };
    let mut expected = json!({"terms": [{"clusters": {
        "m1": {"stage": "placed", "scores": {"ClusterLocality": 100}, "estimates": {"general-estimator": 10},
            "tier": 0, "available": 14, "before": 4, "replicas": 5},
        "m2": considered("m2", 2),
        "m3": {"stage": "filtered", "refusal": {"plugin": "TaintToleration",
            "reason": "cluster(s) had untolerated taint {gone:NoExecute}"}},
        "m4": considered("m4", 0),
        "m5": {"stage": "deleting"},
        "m6": {"stage": "placed", "scores": {"ClusterLocality": 0}, "estimates": {"general-estimator": 30},
            "tier": 0, "available": 30, "replicas": 3},
    }}]});
    for name in ["m2", "m4"] {
        expected["terms"][0]["clusters"][name]
            .as_object_mut()
            .unwrap()
            .remove("_");
    }
    assert_eq!(serde_json::to_value(&explanation).unwrap(), expected);
}

#[test]
fn every_tried_term_is_explained() {
    let placement = json!({"replicaScheduling": dynamic(), "clusterAffinities": [
        {"affinityName": "first", "clusterNames": ["m9"]},
        {"affinityName": "second", "clusterNames": ["m1"]},
    ]});
    let (decided, explanation) = explain(&[cluster("m1", 10)], &binding(8, placement));
    assert_eq!(decided, "m1:8");
    let [first, second] = &explanation.terms[..] else {
        panic!("two terms were tried");
    };
    assert_eq!(first.affinity.as_deref(), Some("first"));
    assert_eq!(
        first.failure.as_deref(),
        Some(
            "0/1 clusters are available: 1 cluster(s) did not match the placement cluster affinity constraint."
        )
    );
    assert_eq!(first.clusters["m1"].stage, Stage::Filtered);
    assert_eq!(second.affinity.as_deref(), Some("second"));
    assert_eq!(second.failure, None);
    assert_eq!(explanation.clusters().unwrap()["m1"].stage, Stage::Placed);
}
