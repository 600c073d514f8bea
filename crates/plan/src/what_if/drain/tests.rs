//! Tests of the outcome for each binding in a drained cluster.

use std::sync::Arc;

use berth_api::ResourceBinding;
use serde_json::{Value, json};

use super::super::decision::Failure;
use super::super::moves::Move;
use super::*;

fn binding(kind: &str, spec: &Value, status: &Value) -> Binding {
    let api_version = match kind {
        "Job" => "batch/v1",
        "ConfigMap" => "v1",
        _ => "apps/v1",
    };
    let mut whole = json!({
        "resource": { "apiVersion": api_version, "kind": kind, "name": "web" },
        "placement": { "replicaScheduling": { "replicaSchedulingType": "Divided" } },
        "clusters": [{ "name": "m1", "replicas": 2 }],
    });
    for (field, value) in spec.as_object().unwrap() {
        whole[field] = value.clone();
    }
    let object: ResourceBinding = serde_json::from_value(json!({
        "metadata": { "name": "web", "namespace": "shop",
            "labels": { "propagationpolicy.karmada.io/permanent-id": "id" } },
        "spec": whole, "status": status }))
    .unwrap();
    object.into()
}

fn share(name: &str, replicas: i32) -> Share {
    Share {
        name: name.to_owned(),
        replicas,
    }
}

/// Returns the outcome for a binding that a decision puts into these clusters.
fn outcome_of(binding: Binding, after: &[(&str, i32)], failure: Option<&str>) -> DepartureOutcome {
    let mut decision = Decision::unchanged(&binding);
    decision.clusters = after
        .iter()
        .map(|(name, count)| share(name, *count))
        .collect();
    decision.failure = failure.map(|message| Failure {
        kind: "NoClusterFit",
        message: message.to_owned(),
    });
    let mut moves = Moves::default();
    moves.add(Move::new(shares(&binding.spec), true, decision));
    let bindings = Bindings::from([(binding.key.clone(), Arc::new(binding))]);
    let mut departures = departures(&bindings, &moves, "m1");
    assert_eq!(departures.len(), 1);
    departures.remove(0).outcome
}

fn stays(reason: &str) -> DepartureOutcome {
    let reason = reason.to_owned();
    DepartureOutcome::Stays { reason }
}

#[test]
fn a_decision_determines_where_a_workload_goes() {
    let two = json!({ "replicas": 2 });
    let moves = |to: &[(&str, i32)]| DepartureOutcome::Moves {
        to: to.iter().map(|(name, count)| share(name, *count)).collect(),
    };
    let duplicated = json!({ "replicas": 2, "placement": {},
        "clusters": [{ "name": "m1", "replicas": 2 }, { "name": "m2", "replicas": 2 }] });
    let spread = json!({ "replicas": 5, "clusters": [
        { "name": "m1", "replicas": 3 }, { "name": "m2", "replicas": 2 }] });
    for (about, spec, after, failure, expected) in [
        (
            "moves",
            &two,
            &[("m2", 1), ("m3", 1)][..],
            None,
            moves(&[("m2", 1), ("m3", 1)]),
        ),
        (
            "fits nowhere",
            &two,
            &[],
            Some("0/3 clusters are available: full."),
            stays("0/3 clusters are available: full"),
        ),
        (
            "other copies stay",
            &duplicated,
            &[("m2", 2)],
            None,
            DepartureOutcome::Leaves,
        ),
        (
            "another copy",
            &duplicated,
            &[("m2", 2), ("m3", 2)],
            None,
            moves(&[("m3", 2)]),
        ),
        (
            "only what is added",
            &spread,
            &[("m2", 5)],
            None,
            moves(&[("m2", 3)]),
        ),
        (
            "a part does not fit",
            &spread,
            &[("m2", 2)],
            Some("not enough"),
            stays("not enough"),
        ),
        (
            "no decision",
            &two,
            &[],
            None,
            stays(
                "the preview has no profile of its scheduler default-scheduler: pass --config or --scheduler-url",
            ),
        ),
    ] {
        let found = outcome_of(binding("Deployment", spec, &json!({})), after, failure);
        assert_eq!(found, expected, "{about}");
    }
}

#[test]
fn bindings_whose_eviction_would_not_end_or_do_harm_stay() {
    let complete = json!({ "aggregatedStatus": [{ "clusterName": "m1",
        "status": { "conditions": [{ "type": "Complete", "status": "True" }] } }] });
    let elsewhere = json!({ "aggregatedStatus": [{ "clusterName": "m2",
        "status": { "conditions": [{ "type": "Complete", "status": "True" }] } }] });
    let tolerating = |mut placement: Value| {
        placement["clusterTolerations"] = json!([{ "operator": "Exists" }]);
        json!({ "replicas": 2, "placement": placement })
    };
    let returns = "its placement tolerates the taint of a cordoned member, so the scheduler would place it there again";
    let divided = json!({ "replicaScheduling": { "replicaSchedulingType": "Divided" } });
    for (kind, spec, status, expected) in [
        ("DaemonSet", tolerating(json!({})), json!({}), Some(returns)),
        ("Deployment", tolerating(divided), json!({}), None),
        (
            "Deployment",
            json!({ "suspension": { "scheduling": true } }),
            json!({}),
            Some("scheduling is suspended"),
        ),
        (
            "Deployment",
            json!({ "suspension": { "dispatching": true } }),
            json!({}),
            Some("dispatching to m1 is suspended"),
        ),
        (
            "Job",
            json!({}),
            complete,
            Some("the Job has finished, and would run again in another cluster"),
        ),
        ("Job", json!({}), elsewhere, None),
    ] {
        let found = outcome_of(binding(kind, &spec, &status), &[("m2", 2)], None);
        match expected {
            Some(reason) => assert_eq!(found, stays(reason), "{kind} {spec}"),
            None => assert!(matches!(found, DepartureOutcome::Moves { .. }), "{found:?}"),
        }
    }
}

#[test]
fn dependencies_follow_the_bindings_that_require_them() {
    let parent = json!({ "namespace": "shop", "name": "web", "clusters": [{ "name": "m1" }] });
    let spec = json!({ "placement": null, "requiredBy": [parent], "clusters": [] });
    let found = outcome_of(binding("ConfigMap", &spec, &json!({})), &[], None);
    assert_eq!(found, DepartureOutcome::Follows);
    // A resource with a policy of its own is evicted, even if a workload requires it.
    let spec = json!({ "requiredBy": [parent] });
    let found = outcome_of(binding("ConfigMap", &spec, &json!({})), &[("m2", 0)], None);
    assert!(matches!(found, DepartureOutcome::Moves { .. }), "{found:?}");
}

#[test]
fn objects_stay_with_the_workloads_of_their_namespace() {
    let departure = |namespace: &str, name: &str, role, outcome| Departure {
        key: BindingKey::new(namespace, name),
        role,
        replicas: None,
        outcome,
    };
    let stay = || DepartureOutcome::Stays {
        reason: "no cluster fits".to_owned(),
    };
    let leave = || DepartureOutcome::Leaves;
    let mut all = [
        departure("shop", "db", DepartureRole::Workload, stay()),
        departure("shop", "web", DepartureRole::Workload, leave()),
        departure("shop", "settings", DepartureRole::Object, leave()),
        departure("blog", "settings", DepartureRole::Object, leave()),
        departure("", "reader", DepartureRole::Object, leave()),
    ];
    keep_with_workloads(&mut all);
    let reasons: Vec<Option<&str>> = all.iter().map(Departure::stays).collect();
    let kept = Some("shop/db, which stays, may need it");
    assert_eq!(reasons, [Some("no cluster fits"), None, kept, None, kept]);
}
