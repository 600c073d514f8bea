//! Tests of explanations, and of their JSON form, which scripts read.

use berth_api::feature_gates::EngineGates;
use berth_engine::{Explanation, RemainderRule, Stage};
use serde_json::{Value, json};

use crate::fixtures::{
    binding, cluster, dynamic, engine, fleet, request, static_weights, text, with_binding_spec,
    with_spec,
};

fn explain(clusters: &[Value], binding: &Value) -> (String, Explanation) {
    let (outcome, explanation) =
        engine(EngineGates::default()).explain(&fleet(clusters).snapshot(), &request(binding));
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
    let term = &mut expected["terms"][0];
    term["weights"] = json!({"ClusterLocality": 1});
    let group = |name: &str, score: i64, available: i64, chosen: bool| json!({"name": name, "clusters": [name], "score": score, "available": available, "chosen": chosen});
    term["selection"] = json!({"requiredCapacity": 8, "choices": [{"by": "cluster", "min": 1, "max": 2, "groups": [
        group("m1", 100, 14, true), group("m6", 0, 30, true), group("m2", 0, 2, false), group("m4", 0, 0, false),
    ]}]});
    let share = |name: &str, weight: i64, replicas: i32| {
        json!({"cluster": name, "weight": weight, "exact": f64::from(replicas), "floor": replicas, "remainder": 0,
            "replicas": replicas})
    };
    term["division"] = json!([{"operation": "add", "replicas": 4, "weights": "free", "ties": "firstName",
        "shares": [share("m1", 10, 1), share("m6", 30, 3)]}]);
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
        panic!("the explanation does not contain two terms");
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
    assert_eq!(
        explanation.clusters_of_last_term().unwrap()["m1"].stage,
        Stage::Placed
    );
}

#[test]
fn chosen_regions_are_explained() {
    let clusters = [("m1", "east", 5), ("m2", "east", 5), ("m3", "west", 2)]
        .map(|(name, region, pods)| with_spec(cluster(name, pods), json!({"region": region})));
    let placement = json!({"replicaScheduling": dynamic(), "spreadConstraints": [
        {"spreadByField": "region", "minGroups": 1, "maxGroups": 1},
        {"spreadByField": "cluster", "minGroups": 1, "maxGroups": 1},
    ]});
    let (decided, explanation) = explain(&clusters, &binding(4, placement));
    assert_eq!(decided, "m1:4");
    let selection = explanation.terms[0].selection.as_ref().unwrap();
    let chosen: Vec<(&str, &str, i64, bool)> = selection
        .choices
        .iter()
        .flat_map(|choice| {
            choice
                .groups
                .iter()
                .map(|group| (&*choice.by, &*group.name, group.score, group.chosen))
        })
        .collect();
    assert_eq!(
        chosen,
        [
            ("region", "east", 4000, true),
            ("region", "west", 2000, false),
            ("cluster", "m1", 0, true),
            ("cluster", "m2", 0, false),
        ]
    );
}

#[test]
fn remainders_name_the_rule_that_decided() {
    for (weights, replicas, expected) in [
        // The exact share of each cluster is 5/3. Two replicas remain after the floors, and the names decide about
        // both.
        (
            [1, 1, 1],
            5,
            vec![
                ("m1", 1.0 / 3.0, RemainderRule::Name),
                ("m2", 1.0 / 3.0, RemainderRule::Name),
            ],
        ),
        // The exact shares are 0.6, 1.2 and 1.2. The claim 1/1 of m1 is greater than the claims 2/3 of the others.
        ([1, 2, 2], 3, vec![("m1", 1.0, RemainderRule::Claim)]),
        ([1, 1, 2], 4, vec![]),
        // The exact shares are 0.5 and 1.5. The claims 1/1 and 3/3 are equal, and m1 has fewer replicas.
        (
            [1, 3, 0],
            2,
            vec![("m1", 1.0, RemainderRule::FewerReplicas)],
        ),
    ] {
        let rules: Vec<(&str, i64)> = ["m1", "m2", "m3"].into_iter().zip(weights).collect();
        let placement = json!({"replicaScheduling": static_weights(&rules)});
        let clusters = ["m1", "m2", "m3"].map(|name| cluster(name, 10));
        let (_, explanation) = explain(&clusters, &binding(replicas, placement));
        let [step] = &explanation.terms[0].division[..] else {
            panic!("the division does not have one step");
        };
        let found: Vec<(&str, f64, RemainderRule)> = step
            .remainders
            .iter()
            .map(|remainder| (&*remainder.cluster, remainder.claim, remainder.decided_by))
            .collect();
        assert_eq!(found, expected, "{weights:?} {replicas}");
    }
}
