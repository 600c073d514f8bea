//! Tests of reports about decisions for small fleets.

mod counterfactuals;

use berth_api::binding::{BindingSpec, BindingStatus};
use berth_api::{BindingKey, Cluster};
use berth_engine::{Engine, EngineOptions, Fleet, Request, ScheduledReason, Stage};
use serde_json::{Value, json};

use crate::{Report, Share, StoredCondition, TermOutcome};

/// Returns a cluster that serves Deployments and has capacity for `pods` pods.
pub(crate) fn cluster(name: &str, pods: i64) -> Value {
    json!({
        "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster",
        "metadata": {"name": name, "labels": {}},
        "spec": {"syncMode": "Push"},
        "status": {
            "apiEnablements": [{"groupVersion": "apps/v1", "resources": [{"name": "deployments", "kind": "Deployment"}]}],
            "resourceSummary": {"allocatable": {"pods": pods.to_string(), "cpu": "1000"}},
        },
    })
}

/// Returns the object with `value` at a JSON pointer. The parent of the pointer must exist.
pub(crate) fn with(mut cluster: Value, pointer: &str, value: Value) -> Value {
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    cluster.pointer_mut(parent).unwrap()[key] = value;
    cluster
}

/// Returns the spec of the binding of a Deployment whose replicas each request one cpu.
pub(crate) fn spec(replicas: i32, placement: Value) -> Value {
    json!({
        "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "web"},
        "replicas": replicas, "replicaRequirements": {"resourceRequest": {"cpu": "1"}}, "placement": placement,
    })
}

pub(crate) fn dynamic() -> Value {
    json!({"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted",
        "weightPreference": {"dynamicWeight": "AvailableReplicas"}})
}

fn report(clusters: &[Value], spec: &Value) -> Report {
    let mut fleet = Fleet::new();
    for cluster in clusters {
        fleet.apply(&serde_json::from_value::<Cluster>(cluster.clone()).unwrap());
    }
    let spec: BindingSpec = serde_json::from_value(spec.clone()).unwrap();
    let key = BindingKey::new("shop", "web-deployment");
    let request = Request::new(&key, &spec, &BindingStatus::default());
    let mut engine = Engine::new(EngineOptions::default()).unwrap();
    let request = request.unwrap();
    let (outcome, explanation) = engine.explain(&fleet.snapshot(), &request);
    let report = Report::new(&request, &outcome, &explanation);
    let read: Report = serde_json::from_value(serde_json::to_value(&report).unwrap()).unwrap();
    assert_eq!(
        read, report,
        "a report is equal after a round trip through JSON"
    );
    report
}

fn whys(report: &Report) -> Vec<(&str, &str)> {
    let clusters = report.clusters.iter();
    clusters
        .map(|cluster| (&*cluster.name, &*cluster.why))
        .collect()
}

fn regional(name: &str, region: &str, pods: i64) -> Value {
    with(cluster(name, pods), "/spec/region", json!(region))
}

#[test]
fn results_that_differ_from_the_placement_have_a_note() {
    let two = json!([{"spreadByField": "cluster", "minGroups": 2, "maxGroups": 2}]);
    let spread = json!({"replicaScheduling": dynamic(), "spreadConstraints": two});
    let clusters = [cluster("m1", 4), cluster("m2", 40)];
    assert_eq!(
        report(&clusters, &spec(2, spread.clone())).notes,
        [
            "spread by cluster: minGroups 2 asks for 2 groups, the division leaves 1; the feature gate \
             MinGroupsInDivision divides the replicas among enough groups"
        ]
    );
    assert_eq!(
        report(&clusters, &spec(1, spread.clone())).notes,
        ["spread by cluster: minGroups 2 asks for 2 groups, but the workload has fewer replicas"]
    );
    assert!(report(&clusters, &spec(20, spread)).notes.is_empty());
    let tainted = json!([{"key": "cordoned", "effect": "NoSchedule"}]);
    let clusters = [
        cluster("m1", 100),
        with(cluster("m2", 100), "/spec/taints", tainted),
    ];
    let scaled = with(
        spec(10, json!({"replicaScheduling": dynamic()})),
        "/clusters",
        json!([{"name": "m1", "replicas": 1}, {"name": "m2", "replicas": 1}]),
    );
    assert_eq!(
        report(&clusters, &scaled).notes,
        [
            "m2 gets 4 more replicas, although it has a taint that the placement does not tolerate; the feature gate \
             NoScaleUpOnTaints places them elsewhere"
        ]
    );
    let kept = with(scaled, "/replicas", json!(2));
    assert!(report(&clusters, &kept).notes.is_empty());
}

#[test]
fn each_cluster_has_a_reason_for_its_stage() {
    let tainted = json!([{"key": "gone", "value": "yes", "effect": "NoSchedule"}]);
    let clusters = [
        cluster("m1", 10),
        cluster("m2", 30),
        with(cluster("m3", 9), "/spec/taints", tainted),
        with(
            cluster("m4", 9),
            "/metadata/deletionTimestamp",
            json!("2026-01-01T00:00:00Z"),
        ),
        cluster("m5", 0),
    ];
    let report = report(&clusters, &spec(5, json!({"replicaScheduling": dynamic()})));
    assert_eq!(report.verdict.summary, "5 replicas on 2 of 5 clusters");
    assert_eq!(
        whys(&report),
        [
            ("m1", "1 of 5: free capacity 10 of 40 is 1.25"),
            (
                "m2",
                "4 of 5: free capacity 30 of 40 is 3.75, rounded down to 3 and +1 by the greatest claim"
            ),
            (
                "m3",
                "TaintToleration: had untolerated taint {gone=yes:NoSchedule}"
            ),
            ("m4", "the cluster is being deleted"),
            ("m5", "no free capacity (general-estimator estimates 0)"),
        ]
    );
    let stages: Vec<Stage> = report.clusters.iter().map(|c| c.stage).collect();
    assert_eq!(
        stages,
        [
            Stage::Placed,
            Stage::Placed,
            Stage::Filtered,
            Stage::Deleting,
            Stage::Selected
        ]
    );
}

#[test]
fn the_reason_names_the_capacity_that_excluded_a_preferred_cluster() {
    let clusters = [cluster("m0", 1), cluster("m1", 9), cluster("m2", 7)];
    let placement = json!({"replicaScheduling": dynamic(), "spreadConstraints": [
        {"spreadByField": "cluster", "minGroups": 1, "maxGroups": 2},
    ]});
    let mut spec = spec(16, placement);
    spec["clusters"] = json!([{"name": "m0", "replicas": 1}]);
    let report = report(&clusters, &spec);
    assert_eq!(
        whys(&report)[0],
        (
            "m0",
            "maxGroups of the spread constraint by cluster is 2, and this cluster has rank 1: \
             it has too few available replicas (2), although its score 100 is above 0"
        )
    );
}

#[test]
fn the_reason_names_the_group_choice_that_excluded_a_cluster() {
    let clusters = [
        regional("m1", "east", 5),
        regional("m2", "east", 5),
        regional("m3", "west", 2),
    ];
    let placement = json!({"replicaScheduling": dynamic(), "spreadConstraints": [
        {"spreadByField": "region", "minGroups": 1, "maxGroups": 1},
        {"spreadByField": "cluster", "minGroups": 1, "maxGroups": 1},
    ]});
    let report = report(&clusters, &spec(4, placement));
    assert_eq!(
        whys(&report)[1..],
        [
            (
                "m2",
                "maxGroups of the spread constraint by cluster is 1, and this cluster has rank 2: \
                 scores are equal, so the number of available replicas (5) decides, then the name"
            ),
            (
                "m3",
                "its region west was not chosen (minGroups 1, maxGroups 1): \
                 the group score is 2000; chosen groups with 4000 or more: east"
            ),
        ]
    );
}

#[test]
fn terms_have_an_outcome_and_failed_decisions_have_a_summary() {
    let clusters = [cluster("m1", 3), cluster("m2", 4)];
    let placement = json!({"replicaScheduling": dynamic(), "clusterAffinities": [
        {"affinityName": "none", "clusterNames": ["m9"]},
        {"affinityName": "small", "clusterNames": ["m1"]},
        {"affinityName": "large", "clusterNames": ["m2"]},
    ]});
    let found = report(&clusters, &spec(3, placement));
    let terms: Vec<(Option<&str>, TermOutcome, usize)> = found
        .terms
        .iter()
        .map(|term| (term.name.as_deref(), term.outcome, term.passing))
        .collect();
    assert_eq!(
        terms,
        [
            (Some("none"), TermOutcome::Failed, 0),
            (Some("small"), TermOutcome::Used, 1),
            (Some("large"), TermOutcome::NotTried, 0),
        ]
    );
    let failed = report(&clusters, &spec(9, json!({"replicaScheduling": dynamic()})));
    assert_eq!(failed.verdict.reason, ScheduledReason::Unschedulable);
    assert_eq!(
        failed.verdict.summary,
        "2 of 2 clusters fit, but lack capacity for 9 replicas"
    );
    let nowhere = json!({"clusterAffinity": {"clusterNames": ["m9"]}});
    let failed = report(&clusters, &spec(9, nowhere));
    assert_eq!(failed.verdict.reason, ScheduledReason::NoClusterFit);
    assert_eq!(failed.verdict.summary, "none of 2 clusters fits");
    assert_eq!(failed.verdict.counts.len(), 1);
    assert_eq!(failed.verdict.counts[0].clusters, 2);
}

#[test]
fn the_decision_agrees_with_a_record_of_the_same_clusters() {
    let share = |name: &str, replicas| Share {
        name: name.to_owned(),
        replicas,
    };
    for (recorded, agrees) in [
        (vec![share("m2", 1), share("m1", 1)], true),
        (vec![share("m1", 2)], false),
    ] {
        let clusters = [cluster("m1", 10), cluster("m2", 10)];
        let report = report(&clusters, &spec(2, json!({"replicaScheduling": dynamic()})));
        let condition = StoredCondition {
            status: "True".to_owned(),
            reason: "Success".to_owned(),
            message: String::new(),
        };
        let report = report.with_recorded(recorded, None, Some(condition));
        assert_eq!(report.recorded.unwrap().agrees, agrees);
    }
}

#[test]
fn a_failed_decision_agrees_with_a_record_of_the_same_failure() {
    let clusters = [cluster("m1", 10)];
    let report = |replicas| {
        report(
            &clusters,
            &spec(replicas, json!({"replicaScheduling": dynamic()})),
        )
    };
    let recorded = |report: Report, status: &str, reason: &str| {
        let kept = vec![Share {
            name: "m1".to_owned(),
            replicas: 2,
        }];
        let condition = StoredCondition {
            status: status.to_owned(),
            reason: reason.to_owned(),
            message: String::new(),
        };
        let condition = Some(condition).filter(|_| !reason.is_empty());
        let report = report.with_recorded(kept, None, condition);
        report.recorded.unwrap().agrees
    };
    assert_eq!(report(99).verdict.reason, ScheduledReason::Unschedulable);
    for (status, reason, agrees) in [
        ("False", "Unschedulable", true),
        ("False", "SchedulerError", false),
        ("True", "Success", false),
        ("", "", false),
    ] {
        assert_eq!(recorded(report(99), status, reason), agrees, "{reason:?}");
    }
    // The decision succeeds with the recorded clusters. It agrees with a recorded success, but not with a recorded
    // failure.
    assert!(recorded(report(2), "True", "Success"));
    assert!(!recorded(report(2), "False", "Unschedulable"));
}
