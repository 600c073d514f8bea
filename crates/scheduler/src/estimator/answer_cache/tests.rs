//! A test of the explanation of a decision that uses answers of accurate estimators.

use std::time::Duration;

use berth_api::feature_gates::EngineGates;
use berth_api::{BindingKey, Cluster, ResourceBinding};
use berth_engine::{Engine, EngineOptions, Fleet, Plugins, Request};
use serde_json::json;

use super::super::answers::NoAnswer;
use super::*;

fn cluster(name: &str) -> Cluster {
    serde_json::from_value(json!({
        "metadata": { "name": name },
        "spec": { "syncMode": "Push" },
        "status": {
            "apiEnablements": [{ "groupVersion": "apps/v1",
                "resources": [{ "name": "deployments", "kind": "Deployment" }] }],
            "resourceSummary": { "allocatable": { "pods": "50" }, "allocated": {} },
        },
    }))
    .unwrap()
}

fn no_estimate(cluster: &str) -> NoAnswer {
    NoAnswer::NoEstimate {
        cluster: cluster.into(),
    }
}

#[test]
fn explanations_show_the_answer_of_each_estimator() {
    let cache = AnswerCache::new();
    let mut plugins = Plugins::in_tree(EngineGates::default());
    plugins.estimators.push(Arc::new(cache.estimator()));
    let mut engine = Engine::with_plugins(EngineOptions::default(), plugins).unwrap();
    let mut fleet = Fleet::new();
    for name in ["m1", "m2", "m3", "m4"] {
        fleet.apply(&cluster(name));
    }
    let binding: ResourceBinding = serde_json::from_value(json!({
        "metadata": { "name": "b", "namespace": "n" },
        "spec": {
            "resource": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "d" },
            "replicas": 3,
            "placement": { "replicaScheduling": { "replicaSchedulingType": "Divided",
                "replicaDivisionPreference": "Aggregated" } },
        },
    }))
    .unwrap();
    let status = binding.status.unwrap_or_default();
    let request = Request::new(&BindingKey::new("n", "b"), &binding.spec, &status).unwrap();
    let mut answers = Answers::new(Unit::Replicas);
    answers.insert("m1".into(), Answer::Fresh(7));
    let stale = Answer::Stale {
        value: 5,
        age: Duration::from_secs(42),
        reason: no_estimate("m2"),
    };
    answers.insert("m2".into(), stale);
    answers.insert("m3".into(), Answer::Missing(no_estimate("m3")));
    let snapshot = fleet.snapshot();
    let ((_, explanation), unanswered) =
        cache.decide(Arc::new(answers), || engine.explain(&snapshot, &request));

    let cluster = |name: &str| &explanation.clusters_of_last_term().unwrap()[name];
    let shown = |name: &str| {
        let number = cluster(name)
            .estimates
            .get(AccurateEstimator::NAME)
            .copied();
        let basis = cluster(name).bases.get(AccurateEstimator::NAME).cloned();
        (number.filter(|number| *number != i32::MAX), basis)
    };
    assert_eq!(shown("m1"), (Some(7), Some(Basis::Fresh)));
    let stale = Basis::Stale {
        seconds: 42,
        reason: "cluster m2 has no estimate".to_owned(),
    };
    assert_eq!(shown("m2"), (Some(5), Some(stale)));
    let missing = Basis::Missing {
        reason: "cluster m3 has no estimate".to_owned(),
    };
    assert_eq!(shown("m3"), (None, Some(missing)));
    assert_eq!(
        shown("m4"),
        (None, None),
        "the estimator of m4 has not been called"
    );
    assert_eq!(unanswered.unwrap().clusters, ["m4".into()].into());
    let json = serde_json::to_value(cluster("m2")).unwrap();
    assert_eq!(json["bases"]["scheduler-estimator"]["stale"]["seconds"], 42);
}
