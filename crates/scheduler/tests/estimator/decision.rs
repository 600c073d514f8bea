//! Answers in decisions of the engine.

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_api::binding::{BindingSpec, BindingStatus};
use berth_core::estimate::Unit;
use berth_core::{Engine, EngineOptions, Fleet, Gates, Outcome, Plugins, Request, Snapshot};
use berth_scheduler::estimator::{Answer, Answers, Desk, Missing};
use serde_json::json;

/// Clusters that report room for 10 replicas of one cpu each.
fn fleet(names: &[&str]) -> Arc<Snapshot> {
    let mut fleet = Fleet::new();
    for name in names {
        let cluster = serde_json::from_value(json!({
            "metadata": { "name": name },
            "spec": { "syncMode": "Push" },
            "status": {
                "apiEnablements": [{ "groupVersion": "apps/v1",
                    "resources": [{ "kind": "Deployment", "name": "deployments" }] }],
                "conditions": [{ "type": "Ready", "status": "True", "reason": "", "message": "",
                    "lastTransitionTime": "2026-01-01T00:00:00Z" }],
                "resourceSummary": { "allocatable": { "cpu": "10", "pods": "110" } },
            },
        }));
        fleet.apply(&cluster.unwrap());
    }
    fleet.snapshot()
}

fn request(affinity: serde_json::Value) -> Request {
    let mut placement = json!({ "replicaScheduling": {
        "replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted",
        "weightPreference": { "dynamicWeight": "AvailableReplicas" } } });
    if let (Some(placement), Some(affinity)) = (placement.as_object_mut(), affinity.as_object()) {
        placement.extend(affinity.clone());
    }
    let spec: BindingSpec = serde_json::from_value(json!({
        "resource": { "apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "web" },
        "replicas": 6, "replicaRequirements": { "resourceRequest": { "cpu": "1" } },
        "placement": placement,
    }))
    .unwrap();
    Request::new(Some("shop"), "web", &spec, &BindingStatus::default()).unwrap()
}

fn engine(desk: &Desk) -> Engine {
    let mut plugins = Plugins::in_tree(Gates::default());
    plugins.estimators.push(Arc::new(desk.estimator()));
    Engine::with_plugins(EngineOptions::default(), plugins).unwrap()
}

fn shares(outcome: &Outcome) -> BTreeMap<String, i32> {
    let placement = outcome.result.as_ref().unwrap();
    let shares = placement.targets.iter();
    shares
        .map(|target| (target.name.to_string(), target.replicas))
        .collect()
}

fn answered(values: &[(&str, i32)]) -> Answers {
    let mut answers = Answers::new(Unit::Replicas);
    for (cluster, value) in values {
        answers.insert((*cluster).into(), Answer::Fresh(*value));
    }
    answers
}

#[test]
fn a_decision_is_made_again_with_the_answers_it_wanted() {
    let (desk, snapshot) = (Desk::new(), fleet(&["m1", "m2", "m3"]));
    let mut engine = engine(&desk);
    let request = request(json!({}));
    let (_, wanted) = desk.decide(Arc::default(), || engine.schedule(&snapshot, &request));
    let wanted = wanted.unwrap();
    assert_eq!(wanted.unit, Unit::Replicas);
    assert_eq!(
        wanted
            .clusters
            .iter()
            .map(|name| &**name)
            .collect::<Vec<_>>(),
        ["m1", "m2", "m3"]
    );

    // One cluster has less room than it reports, one gives no answer.
    let mut answers = answered(&[("m1", 2), ("m2", 0)]);
    let reason = Missing::NoOpinion {
        cluster: "m3".into(),
    };
    answers.insert("m3".into(), Answer::Missing(reason));
    let answers = Arc::new(answers);
    let (outcome, wanted) = desk.decide(answers.clone(), || engine.schedule(&snapshot, &request));
    assert_eq!(wanted, None);
    let expected = [("m1".to_owned(), 1), ("m3".to_owned(), 5)];
    assert_eq!(shares(&outcome), expected.into());

    let ((_, explanation), _) = desk.decide(answers, || engine.explain(&snapshot, &request));
    let clusters = explanation.clusters().unwrap();
    assert_eq!(clusters["m1"].estimates["scheduler-estimator"], 2);
    assert_eq!(clusters["m1"].available, Some(2));
    assert_eq!(
        clusters["m3"].available,
        Some(10),
        "the general estimate stands"
    );
}

#[test]
fn answers_that_lead_to_the_next_term_lead_to_another_question() {
    let (desk, snapshot) = (Desk::new(), fleet(&["m1", "m2"]));
    let mut engine = engine(&desk);
    let request = request(json!({ "clusterAffinities": [
        { "affinityName": "first", "clusterNames": ["m1"] },
        { "affinityName": "second", "clusterNames": ["m2"] } ] }));
    let mut answers = Answers::default();
    let mut rounds = Vec::new();
    let outcome = loop {
        let laid_out = Arc::new(answers.clone());
        let (outcome, wanted) = desk.decide(laid_out, || engine.schedule(&snapshot, &request));
        let Some(wanted) = wanted else { break outcome };
        let clusters: Vec<_> = wanted.clusters.iter().map(ToString::to_string).collect();
        // m1 has no room, whatever it reports.
        let values: Vec<_> = clusters
            .iter()
            .map(|name| (name.as_str(), if name == "m1" { 0 } else { 8 }))
            .collect();
        answers = answers.with(answered(&values));
        rounds.push(clusters);
    };
    assert_eq!(rounds, [["m1"], ["m2"]]);
    assert_eq!(shares(&outcome), [("m2".to_owned(), 6)].into());
}

#[test]
fn a_decision_that_needs_no_estimate_asks_nobody() {
    let (desk, snapshot) = (Desk::new(), fleet(&["m1"]));
    let mut engine = engine(&desk);
    let duplicated = json!({ "replicaScheduling": { "replicaSchedulingType": "Duplicated" } });
    let request = request(duplicated);
    let (_, wanted) = desk.decide(Arc::default(), || engine.schedule(&snapshot, &request));
    assert_eq!(wanted, None);
}

#[test]
fn answers_in_another_unit_are_no_answers() {
    let (desk, snapshot) = (Desk::new(), fleet(&["m1"]));
    let mut engine = engine(&desk);
    let request = request(json!({}));
    let mut sets = Answers::new(Unit::ComponentSets);
    sets.insert("m1".into(), Answer::Fresh(0));
    let (_, wanted) = desk.decide(Arc::new(sets.clone()), || {
        engine.schedule(&snapshot, &request)
    });
    assert!(wanted.is_some());
    let replicas = answered(&[("m1", 3)]);
    assert_eq!(sets.with(replicas.clone()), replicas);
}
