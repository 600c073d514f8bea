//! Tests of engine decisions that read estimates from an [`AnswerCache`].

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_api::BindingKey;
use berth_api::binding::{BindingSpec, BindingStatus};
use berth_api::feature_gates::EngineGates;
use berth_engine::estimate::Unit;
use berth_engine::{Engine, EngineOptions, Fleet, Outcome, Plugins, Request, Snapshot};
use berth_scheduler::estimator::{Answer, AnswerCache, Answers, NoAnswer};
use serde_json::json;

/// Returns a snapshot of clusters that report capacity for 10 replicas of one CPU each.
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
    let key = BindingKey::new("shop", "web");
    Request::new(&key, &spec, &BindingStatus::default()).unwrap()
}

fn engine(cache: &AnswerCache) -> Engine {
    let mut plugins = Plugins::in_tree(EngineGates::default());
    plugins.estimators.push(Arc::new(cache.estimator()));
    Engine::with_plugins(EngineOptions::default(), plugins).unwrap()
}

fn shares(outcome: &Outcome) -> BTreeMap<String, i32> {
    let placement = outcome.result.as_ref().unwrap();
    let shares = placement.targets.iter();
    shares
        .map(|target| (target.name.to_string(), target.replicas))
        .collect()
}

fn fresh(values: &[(&str, i32)]) -> Answers {
    let mut answers = Answers::new(Unit::Replicas);
    for (cluster, value) in values {
        answers.insert((*cluster).into(), Answer::Fresh(*value));
    }
    answers
}

#[test]
fn unanswered_lookups_are_answered_in_the_next_round() {
    let (cache, snapshot) = (AnswerCache::new(), fleet(&["m1", "m2", "m3"]));
    let mut engine = engine(&cache);
    let request = request(json!({}));
    let (_, unanswered) = cache.decide(Arc::default(), || engine.schedule(&snapshot, &request));
    let unanswered = unanswered.unwrap();
    assert_eq!(unanswered.unit, Unit::Replicas);
    assert_eq!(
        unanswered
            .clusters
            .iter()
            .map(|name| &**name)
            .collect::<Vec<_>>(),
        ["m1", "m2", "m3"]
    );

    // The estimators of m1 and m2 answer less capacity than the clusters report. The estimator of m3 gives no answer.
    let mut answers = fresh(&[("m1", 2), ("m2", 0)]);
    let reason = NoAnswer::NoEstimate {
        cluster: "m3".into(),
    };
    answers.insert("m3".into(), Answer::Missing(reason));
    let answers = Arc::new(answers);
    let (outcome, unanswered) =
        cache.decide(answers.clone(), || engine.schedule(&snapshot, &request));
    assert_eq!(unanswered, None);
    let expected = [("m1".to_owned(), 1), ("m3".to_owned(), 5)];
    assert_eq!(shares(&outcome), expected.into());

    let ((_, explanation), _) = cache.decide(answers, || engine.explain(&snapshot, &request));
    let clusters = explanation.clusters_of_last_term().unwrap();
    assert_eq!(clusters["m1"].estimates["scheduler-estimator"], 2);
    assert_eq!(clusters["m1"].available, Some(2));
    assert_eq!(
        clusters["m3"].available,
        Some(10),
        "without an answer, the general estimate applies to m3"
    );
}

#[test]
fn moving_to_the_next_affinity_term_takes_another_round() {
    let (cache, snapshot) = (AnswerCache::new(), fleet(&["m1", "m2"]));
    let mut engine = engine(&cache);
    let request = request(json!({ "clusterAffinities": [
        { "affinityName": "first", "clusterNames": ["m1"] },
        { "affinityName": "second", "clusterNames": ["m2"] } ] }));
    let mut answers = Answers::default();
    let mut rounds = Vec::new();
    let outcome = loop {
        let known = Arc::new(answers.clone());
        let (outcome, unanswered) = cache.decide(known, || engine.schedule(&snapshot, &request));
        let Some(unanswered) = unanswered else {
            break outcome;
        };
        let clusters: Vec<_> = unanswered
            .clusters
            .iter()
            .map(ToString::to_string)
            .collect();
        // The estimator of m1 answers 0, although the cluster reports capacity.
        let values: Vec<_> = clusters
            .iter()
            .map(|name| (name.as_str(), if name == "m1" { 0 } else { 8 }))
            .collect();
        answers = answers.merge(fresh(&values));
        rounds.push(clusters);
    };
    assert_eq!(rounds, [["m1"], ["m2"]]);
    assert_eq!(shares(&outcome), [("m2".to_owned(), 6)].into());
}

#[test]
fn duplicated_scheduling_looks_up_no_estimates() {
    let (cache, snapshot) = (AnswerCache::new(), fleet(&["m1"]));
    let mut engine = engine(&cache);
    let duplicated = json!({ "replicaScheduling": { "replicaSchedulingType": "Duplicated" } });
    let request = request(duplicated);
    let (_, unanswered) = cache.decide(Arc::default(), || engine.schedule(&snapshot, &request));
    assert_eq!(unanswered, None);
}

#[test]
fn answers_in_another_unit_are_ignored() {
    let (cache, snapshot) = (AnswerCache::new(), fleet(&["m1"]));
    let mut engine = engine(&cache);
    let request = request(json!({}));
    let mut sets = Answers::new(Unit::ComponentSets);
    sets.insert("m1".into(), Answer::Fresh(0));
    let (_, unanswered) = cache.decide(Arc::new(sets.clone()), || {
        engine.schedule(&snapshot, &request)
    });
    assert!(unanswered.is_some());
    let replicas = fresh(&[("m1", 3)]);
    assert_eq!(sets.merge(replicas.clone()), replicas);
}
