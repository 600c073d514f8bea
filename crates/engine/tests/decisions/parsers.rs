//! A test of robustness: the engine accepts or rejects arbitrary bindings and clusters without a panic.

use berth_api::BindingKey;
use berth_api::binding::{BindingSpec, BindingStatus};
use berth_api::cluster::Cluster;
use berth_engine::{Engine, EngineOptions, Fleet, Request};
use proptest::prelude::*;
use serde_json::{Value, json};

fn word() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(String::new()),
        prop::sample::select(vec![
            "cluster",
            "region",
            "zone",
            "provider",
            "Duplicated",
            "Divided",
            "Weighted",
            "Aggregated",
            "In",
            "NotIn",
            "Exists",
            "DoesNotExist",
            "Gt",
            "Lt",
            "m1",
            "m2",
            "env",
            "NoSchedule",
            "Equal",
            "AvailableReplicas",
            "5",
        ])
        .prop_map(str::to_owned),
        ".{0,8}",
    ]
}

fn words() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec(word(), 0..3)
}

fn selector() -> impl Strategy<Value = Value> {
    prop::collection::vec((word(), word(), words()), 0..3).prop_map(|expressions| {
        let expressions: Vec<Value> = expressions
            .into_iter()
            .map(|(key, operator, values)| json!({"key": key, "operator": operator, "values": values}))
            .collect();
        json!({"matchExpressions": expressions})
    })
}

fn affinity() -> impl Strategy<Value = Value> {
    (selector(), selector(), words(), words()).prop_map(|(labels, fields, names, exclude)| {
        json!({"labelSelector": labels, "fieldSelector": fields, "clusterNames": names, "exclude": exclude})
    })
}

fn placement() -> impl Strategy<Value = Value> {
    let terms = prop::collection::vec((word(), affinity(), affinity()), 0..3).prop_map(|terms| {
        terms
            .into_iter()
            .map(|(name, mut affinity, mut overflow)| {
                overflow["affinityName"] = json!("overflow");
                affinity["affinityName"] = json!(name);
                affinity["overflowAffinities"] = json!([overflow]);
                affinity
            })
            .collect::<Vec<_>>()
    });
    let constraints = prop::collection::vec((word(), word(), any::<i64>(), -2_i64..4), 0..3);
    let scheduling = (word(), word(), word(), affinity(), any::<i64>());
    (prop::option::of(affinity()), terms, constraints, prop::option::of(scheduling), words()).prop_map(
        |(affinity, terms, constraints, scheduling, tolerated)| {
            let constraints: Vec<Value> = constraints
                .into_iter()
                .map(|(field, label, max, min)| {
                    json!({"spreadByField": field, "spreadByLabel": label, "maxGroups": max, "minGroups": min})
                })
                .collect();
            let scheduling = scheduling.map(|(kind, division, factor, target, weight)| {
                json!({"replicaSchedulingType": kind, "replicaDivisionPreference": division, "weightPreference": {
                    "dynamicWeight": factor, "staticWeightList": [{"targetCluster": target, "weight": weight}]}})
            });
            let tolerations: Vec<Value> =
                tolerated.into_iter().map(|text| json!({"key": text, "operator": "Exists"})).collect();
            json!({"clusterAffinity": affinity, "clusterAffinities": terms, "spreadConstraints": constraints,
                "replicaScheduling": scheduling, "clusterTolerations": tolerations})
        },
    )
}

fn quantity() -> impl Strategy<Value = String> {
    prop_oneof![
        "[+-]?[0-9]{0,22}(\\.[0-9]{0,3})?(m|k|Gi|Ei|e9|n)?",
        ".{0,6}"
    ]
}

proptest! {
    #[test]
    fn arbitrary_bindings_and_clusters_do_not_panic(
        placement in placement(), replicas in any::<i32>(), asked in quantity(), free in quantity(),
        current in any::<i32>(), observed in word(), label in word(), region in word(),
    ) {
        let clusters = ["m1", "m2"].map(|name| serde_json::from_value::<Cluster>(json!({
            "metadata": {"name": name, "labels": {"env": label}},
            "spec": {"syncMode": "Push", "region": region, "zones": [label],
                "resourceModels": [{"grade": 0, "ranges": [{"name": "cpu", "min": free, "max": "1"}]}]},
            "status": {"apiEnablements": [{"groupVersion": "v1", "resources": [{"name": "pods", "kind": "Pod"}]}],
                "resourceSummary": {"allocatable": {"cpu": free, "pods": "50"}, "allocated": {"pods": asked},
                    "allocatableModelings": [{"grade": 0, "count": 3}]}},
        })).unwrap());
        let spec: BindingSpec = serde_json::from_value(json!({
            "resource": {"apiVersion": "v1", "kind": "Pod", "name": "p"},
            "replicas": replicas, "placement": placement, "clusters": [{"name": "m2", "replicas": current}],
            "replicaRequirements": {"resourceRequest": {"cpu": asked}},
        })).unwrap();
        let status: BindingStatus = serde_json::from_value(json!({"schedulerObservingAffinityName": observed})).unwrap();
        let mut fleet = Fleet::new();
        for cluster in &clusters {
            fleet.apply(cluster);
        }
        // A requested quantity that cannot be parsed. The property fails if nearly all inputs have one.
        let request = Request::new(&BindingKey::new("", "p"), &spec, &status).map_err(|error| TestCaseError::reject(error.to_string()))?;
        let mut engine = Engine::new(EngineOptions::default()).unwrap();
        engine.schedule(&fleet.snapshot(), &request);
        engine.explain(&fleet.snapshot(), &request);
    }
}
