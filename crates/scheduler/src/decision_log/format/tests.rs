//! Tests of the serialization of entries.

use serde_json::json;

use super::*;

#[test]
fn a_decision_survives_a_round_trip() {
    let line = json!({ "decision": {
        "time": "2026-11-01T10:00:00.000000Z",
        "binding": {
            "metadata": { "name": "web", "namespace": "shop", "labels": { "app": "web" } },
            "spec": {
                "resource": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" },
                "replicas": 3,
                "placement": { "clusterAffinity": { "clusterNames": ["m1"] } },
            },
            "status": { "schedulerObservingAffinityName": "primary" },
        },
        "peers": { "antiAffinity": [["m2"]] },
        "assumed": { "m1": [[[2, { "cpu": "250m", "memory": "1Gi" }]]], "m2": [] },
        "estimates": { "clusters": { "m1": 4, "m2": null } },
        "extenderCalls": 1,
        "result": { "clusters": [{ "name": "m1", "replicas": 3 }], "affinity": "primary" },
    }});
    let entry: Entry = serde_json::from_value(line.clone()).unwrap();
    assert_eq!(serde_json::to_value(&entry).unwrap(), line);
}

#[test]
fn metadata_and_status_without_effect_are_left_out() {
    let object = json!({
        "metadata": {
            "name": "web", "namespace": "shop", "resourceVersion": "7", "finalizers": ["a/b"],
            "annotations": { "policy.karmada.io/applied-placement": "{}", "own": "kept" },
        },
        "spec": { "resource": { "apiVersion": "v1", "kind": "ConfigMap", "name": "web" } },
        "status": {
            "schedulerObservedGeneration": 4,
            "aggregatedStatus": [{ "clusterName": "m1", "applied": true }],
        },
    });
    let binding: ResourceBinding = serde_json::from_value(object).unwrap();
    let written = serde_json::to_value(RecordedBinding(Arc::new(binding.into()))).unwrap();
    assert_eq!(
        written["metadata"],
        json!({ "name": "web", "namespace": "shop", "annotations": { "own": "kept" } })
    );
    assert_eq!(written["status"], json!({}));
}

#[test]
fn assumed_workloads_and_estimates_survive_a_round_trip() {
    let clusters = BTreeMap::from([(
        "m1".to_owned(),
        vec![vec![(
            2,
            BTreeMap::from([
                ("cpu".to_owned(), "250m".to_owned()),
                ("memory".to_owned(), "1536Mi".to_owned()),
            ]),
        )]],
    )]);
    let assumed = assumed_of(&clusters).unwrap();
    assert_eq!(assumed_by_cluster(&assumed), clusters);

    let mut answers = Answers::new(Unit::ComponentSets);
    answers.insert("m1".into(), Answer::Fresh(4));
    answers.insert(
        "m2".into(),
        Answer::Missing(NoAnswer::NoEstimate {
            cluster: "m2".into(),
        }),
    );
    let estimates = Estimates::of(&answers).unwrap();
    assert_eq!(estimates.answers(), answers);
    assert_eq!(Estimates::of(&Answers::default()), None);
}
