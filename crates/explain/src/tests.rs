//! Tests of reports about decisions for small fleets.

mod counterfactuals;

use berth_api::binding::{BindingSpec, BindingStatus};
use berth_api::{BindingKey, Cluster};
use berth_engine::{Engine, EngineOptions, Fleet, Request, ScheduledReason};
use berth_test_transcripts::{Transcript, assert_snapshot};
use serde_json::{Value, json};

use crate::{Report, Share, StoredCondition};

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

/// Adds what the tests look at: the verdict, the affinity terms, the reasons and fixes of each cluster, and the notes.
pub(crate) fn show(transcript: &mut Transcript, about: &str, report: &Report) {
    transcript.about(about);
    let verdict = &report.verdict;
    let mut lines = vec![format!("{:?}: {}", verdict.reason, verdict.summary)];
    lines.extend(report.terms.iter().map(|term| {
        let name = term.name.as_deref().unwrap_or("-");
        format!("term {name}: {:?}, {} pass", term.outcome, term.passing)
    }));
    lines.extend(
        verdict
            .counts
            .iter()
            .map(|count| format!("{} x {:?}: {}", count.clusters, count.stage, count.reason)),
    );
    for cluster in &report.clusters {
        lines.push(format!(
            "{}, {:?}: {}",
            cluster.name, cluster.stage, cluster.why
        ));
        let fixes = cluster.fixes.iter();
        lines.extend(fixes.map(|fix| format!("  {}", fix.summary)));
    }
    lines.extend(
        report
            .fixes
            .iter()
            .map(|fix| format!("fix: {}", fix.summary)),
    );
    lines.extend(report.notes.iter().map(|note| format!("note: {note}")));
    transcript.lines(&lines.join("\n"));
}

fn regional(name: &str, region: &str, pods: i64) -> Value {
    with(cluster(name, pods), "/spec/region", json!(region))
}

#[test]
fn results_that_differ_from_the_placement_have_a_note() {
    let two = json!([{"spreadByField": "cluster", "minGroups": 2, "maxGroups": 2}]);
    let spread = json!({"replicaScheduling": dynamic(), "spreadConstraints": two});
    let tainted = json!([{"key": "cordoned", "effect": "NoSchedule"}]);
    let small = [cluster("m1", 4), cluster("m2", 40)];
    let cordoned = [
        cluster("m1", 100),
        with(cluster("m2", 100), "/spec/taints", tainted),
    ];
    let scaled = with(
        spec(10, json!({"replicaScheduling": dynamic()})),
        "/clusters",
        json!([{"name": "m1", "replicas": 1}, {"name": "m2", "replicas": 1}]),
    );
    let kept = with(scaled.clone(), "/replicas", json!(2));
    let mut reports = Transcript::new();
    for (about, clusters, spec) in [
        ("too few groups", &small, spec(2, spread.clone())),
        (
            "fewer replicas than groups",
            &small,
            spec(1, spread.clone()),
        ),
        ("enough groups", &small, spec(20, spread)),
        ("more replicas in a tainted cluster", &cordoned, scaled),
        ("as many replicas in a tainted cluster", &cordoned, kept),
    ] {
        show(&mut reports, about, &report(clusters, &spec));
    }
    assert_snapshot!(reports);
}

#[test]
fn each_cluster_has_a_reason_for_its_stage() {
    let tainted = json!([{"key": "gone", "value": "yes", "effect": "NoSchedule"}]);
    let deleted = json!("2026-01-01T00:00:00Z");
    let stages = [
        cluster("m1", 10),
        cluster("m2", 30),
        with(cluster("m3", 9), "/spec/taints", tainted),
        with(cluster("m4", 9), "/metadata/deletionTimestamp", deleted),
        cluster("m5", 0),
    ];
    let preferred = [cluster("m0", 1), cluster("m1", 9), cluster("m2", 7)];
    let group = |field, most| json!({"spreadByField": field, "minGroups": 1, "maxGroups": most});
    let spread =
        |groups: &[Value]| json!({"replicaScheduling": dynamic(), "spreadConstraints": groups});
    let current = json!([{"name": "m0", "replicas": 1}]);
    let regions = [
        regional("m1", "east", 5),
        regional("m2", "east", 5),
        regional("m3", "west", 2),
    ];
    let mut reports = Transcript::new();
    for (about, clusters, spec) in [
        (
            "each stage",
            &stages[..],
            spec(5, json!({"replicaScheduling": dynamic()})),
        ),
        (
            "too little capacity in a preferred cluster",
            &preferred,
            with(
                spec(16, spread(&[group("cluster", 2)])),
                "/clusters",
                current,
            ),
        ),
        (
            "a group that was not chosen",
            &regions,
            spec(4, spread(&[group("region", 1), group("cluster", 1)])),
        ),
    ] {
        show(&mut reports, about, &report(clusters, &spec));
    }
    assert_snapshot!(reports);
}

#[test]
fn terms_have_an_outcome_and_failed_decisions_have_a_summary() {
    let clusters = [cluster("m1", 3), cluster("m2", 4)];
    let terms = json!({"replicaScheduling": dynamic(), "clusterAffinities": [
        {"affinityName": "none", "clusterNames": ["m9"]},
        {"affinityName": "small", "clusterNames": ["m1"]},
        {"affinityName": "large", "clusterNames": ["m2"]},
    ]});
    let nowhere = json!({"clusterAffinity": {"clusterNames": ["m9"]}});
    let mut reports = Transcript::new();
    for (about, spec) in [
        ("the second of three terms", spec(3, terms)),
        (
            "too little capacity",
            spec(9, json!({"replicaScheduling": dynamic()})),
        ),
        ("no such cluster", spec(9, nowhere)),
    ] {
        show(&mut reports, about, &report(&clusters, &spec));
    }
    assert_snapshot!(reports);
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
