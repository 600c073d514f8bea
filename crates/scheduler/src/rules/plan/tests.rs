//! Tests of the plans for new, scheduled and failed bindings.

use std::sync::Arc;

use berth_api::go_json::placement_json;
use berth_api::{ClusterResourceBinding, ResourceBinding};
use berth_engine::{FailedTerm, FitError, Placement as Placed, PluginError};
use serde_json::Value;

use super::*;
use crate::rules::condition::SUCCESS_MESSAGE;

const PLACEMENT: &str = r#"{"clusterAffinity":{"clusterNames":["m1","m2"]}}"#;

fn binding(changes: Value) -> Binding {
    let mut object = json!({
        "metadata": { "name": "b", "namespace": "n", "generation": 1, "resourceVersion": "7" },
        "spec": { "resource": { "apiVersion": "v1", "kind": "ConfigMap", "name": "c" },
            "placement": serde_json::from_str::<Value>(PLACEMENT).unwrap() },
    });
    json_patch::merge(&mut object, &changes);
    serde_json::from_value::<ResourceBinding>(object)
        .unwrap()
        .into()
}

/// Returns the changes that turn [`binding`] into a binding that is scheduled on m1 and m2.
fn scheduled() -> Value {
    json!({
        "metadata": { "generation": 2, "annotations": { APPLIED_PLACEMENT: PLACEMENT } },
        "spec": { "clusters": [{ "name": "m2" }, { "name": "m1" }] },
        "status": { "schedulerObservedGeneration": 2, "lastScheduledTime": "2024-01-01T00:00:00Z", "conditions": [
            { "type": "FullyApplied", "status": "True", "reason": "x", "message": "",
              "lastTransitionTime": "2024-01-01T00:00:00Z" },
            { "type": "Scheduled", "status": "True", "reason": "Success", "message": SUCCESS_MESSAGE,
              "lastTransitionTime": "2024-01-01T00:00:00Z" }] },
    })
}

fn placed(clusters: &[(&str, i32)]) -> Outcome {
    let targets = clusters
        .iter()
        .map(|(name, replicas)| Target {
            name: Arc::from(*name),
            replicas: *replicas,
            components: Vec::new(),
        })
        .collect();
    Outcome {
        failed_terms: Vec::new(),
        result: Ok(Placed {
            targets,
            affinity: None,
            waiting: 0,
        }),
    }
}

fn unschedulable(text: &str) -> ScheduleError {
    PluginError::unschedulable(text).into()
}

fn plan(binding: &Binding, outcome: &Outcome) -> Plan {
    let json = placement_json(binding.spec.placement.as_ref().unwrap()).unwrap();
    assert_eq!(json, PLACEMENT);
    Plan::of(binding, &json, outcome)
}

fn messages(plan: &Plan) -> Vec<&str> {
    plan.notes
        .iter()
        .map(|note| note.message.as_str())
        .collect()
}

#[test]
fn a_new_binding_gets_annotation_clusters_condition_and_an_event() {
    let binding = binding(json!({}));
    let plan = plan(&binding, &placed(&[("m1", 2), ("m2", 0)]));
    assert_eq!(
        plan.result,
        Some(
            json!({ "metadata": { "annotations": { APPLIED_PLACEMENT: PLACEMENT } },
            "spec": { "clusters": [{ "name": "m1", "replicas": 2 }, { "name": "m2" }] } })
        )
    );
    let now = jiff::Timestamp::from_second(0).unwrap();
    assert_eq!(
        plan.status.as_ref().unwrap().patch(&binding.status, 2, now),
        json!({ "status": {
            "conditions": [{ "type": "Scheduled", "status": "True", "reason": "Success",
                "message": SUCCESS_MESSAGE, "lastTransitionTime": "1970-01-01T00:00:00Z" }],
            "schedulerObservedGeneration": 2, "lastScheduledTime": "1970-01-01T00:00:00Z" } })
    );
    assert_eq!(
        messages(&plan),
        ["Binding has been scheduled successfully. Result: {m1:2, m2:0}"]
    );
}

#[test]
fn an_equal_result_in_another_order_is_not_written_again() {
    let plan = plan(&binding(scheduled()), &placed(&[("m1", 0), ("m2", 0)]));
    assert!(plan.is_empty(), "{plan:?}");
}

#[test]
fn an_equal_result_for_a_newer_generation_updates_only_the_status() {
    let mut changes = scheduled();
    changes["metadata"]["generation"] = json!(3);
    let binding = binding(changes);
    let plan = plan(&binding, &placed(&[("m1", 0), ("m2", 0)]));
    assert_eq!(plan.result, None);
    let now = jiff::Timestamp::from_second(0).unwrap();
    assert_eq!(
        plan.status.unwrap().patch(&binding.status, 3, now),
        json!({ "status": { "schedulerObservedGeneration": 3, "lastScheduledTime": "1970-01-01T00:00:00Z" } })
    );
}

#[test]
fn a_requested_reschedule_is_recorded_even_if_the_result_is_unchanged() {
    let mut changes = scheduled();
    changes["spec"]["rescheduleTriggeredAt"] = json!("2024-01-02T00:00:00Z");
    let plan = plan(&binding(changes), &placed(&[("m1", 0), ("m2", 0)]));
    assert!(plan.result.is_none() && plan.status.is_some_and(|status| status.succeeded));
}

#[test]
fn without_a_fitting_cluster_the_result_is_removed_and_the_binding_waits() {
    let error = FitError::new(1, vec![("m1".into(), "no room".into())]);
    let outcome = Outcome {
        failed_terms: Vec::new(),
        result: Err(error.into()),
    };
    // The scheduler decides again without the removed clusters, because some filters exempt the clusters of a binding.
    let withdrawn = plan(&binding(scheduled()), &outcome);
    let cleared = json!({ "spec": { "clusters": null } });
    assert_eq!(
        (withdrawn.result, withdrawn.verdict),
        (Some(cleared), Verdict::Again)
    );
    assert_eq!(
        withdrawn.status.unwrap().scheduled.unwrap().reason,
        ScheduledReason::NoClusterFit
    );
    // A binding without clusters waits.
    let waiting = plan(&binding(json!({})), &outcome);
    assert_eq!(waiting.verdict, Verdict::Wait);
    assert_eq!(
        messages(&waiting),
        ["0/1 clusters are available: 1 no room."]
    );
}

#[test]
fn a_failed_plugin_is_retried_keeps_the_result_and_is_reported_once() {
    let error: ScheduleError = PluginError::failed("no region").into();
    let outcome = Outcome {
        failed_terms: Vec::new(),
        result: Err(error),
    };
    let mut stored = scheduled();
    let first = plan(&binding(stored.clone()), &outcome);
    assert_eq!((first.result, first.verdict), (None, Verdict::Retry));
    stored["status"]["conditions"][1] = json!({ "type": "Scheduled", "status": "False", "reason": "SchedulerError",
        "message": "no region", "lastTransitionTime": "2024-01-01T00:00:00Z" });
    let again = plan(&binding(stored), &outcome);
    assert!(
        again.is_empty() && again.verdict == Verdict::Retry,
        "{again:?}"
    );
}

#[test]
fn a_binding_that_lacks_capacity_waits_and_keeps_its_result() {
    let outcome = Outcome {
        failed_terms: Vec::new(),
        result: Err(unschedulable("too few")),
    };
    let mut stored = scheduled();
    let first = plan(&binding(stored.clone()), &outcome);
    assert_eq!(
        (first.result.is_none(), first.verdict),
        (true, Verdict::Wait)
    );
    assert!(first.is_error);
    let condition = first.status.unwrap().scheduled.unwrap();
    assert_eq!(
        (condition.reason, condition.message.as_str()),
        (ScheduledReason::Unschedulable, "too few")
    );
    stored["status"]["conditions"][1] = json!({ "type": "Scheduled", "status": "False", "reason": "Unschedulable",
        "message": "too few", "lastTransitionTime": "2024-01-01T00:00:00Z" });
    let again = plan(&binding(stored), &outcome);
    assert!(again.is_empty() && again.is_error, "{again:?}");
}

#[test]
fn every_failed_affinity_term_gets_an_event() {
    let failed_terms = vec![FailedTerm {
        index: 0,
        error: unschedulable("too few"),
    }];
    let mut outcome = placed(&[("m1", 1)]);
    outcome.failed_terms = failed_terms;
    let written = plan(&binding(json!({})), &outcome);
    assert_eq!(
        messages(&written),
        [
            "failed to schedule ResourceBinding(n/b) with clusterAffiliates index(0): too few",
            "Binding has been scheduled successfully. Result: {m1:1}",
        ]
    );
    // If every affinity term lacks capacity, the plan records only the events of the terms.
    outcome.result = Err(unschedulable("too few"));
    let failed = plan(&binding(json!({})), &outcome);
    assert_eq!(failed.notes.len(), 1);
}

#[test]
fn cluster_scoped_bindings_have_their_own_message() {
    let binding: Binding = serde_json::from_value::<ClusterResourceBinding>(json!({
        "metadata": { "name": "b" },
        "spec": { "resource": { "apiVersion": "v1", "kind": "Namespace", "name": "c" },
            "placement": serde_json::from_str::<Value>(PLACEMENT).unwrap() } }))
    .unwrap()
    .into();
    let plan = plan(&binding, &placed(&[("m1", 0)]));
    assert_eq!(
        messages(&plan),
        ["Binding has been scheduled successfully. Result {m1:0}"]
    );
}

/// Returns the outcome in which m1 and m2 get one replica each, and `waiting` replicas wait.
fn with_waiting(waiting: i64) -> Outcome {
    let mut outcome = placed(&[("m1", 1), ("m2", 1)]);
    if let Ok(placed) = &mut outcome.result {
        placed.waiting = waiting;
    }
    outcome
}

#[test]
fn a_binding_with_waiting_replicas_is_scheduled_and_waits() {
    let spec = json!({ "spec": { "replicas": 5 } });
    let first = plan(&binding(spec), &with_waiting(3));
    assert_eq!(first.verdict, Verdict::Wait);
    assert!(!first.is_error && first.targets.is_some());
    let condition = first.status.and_then(|status| status.scheduled).unwrap();
    assert_eq!(condition.reason, ScheduledReason::Success);
    assert_eq!(
        condition.message,
        "Binding has been scheduled successfully. Placed 2 of 5 replicas; 3 wait for room."
    );
    // The same result is not written again, and the binding waits on.
    let mut changes = scheduled();
    changes["spec"] = json!({ "replicas": 5,
        "clusters": [{ "name": "m1", "replicas": 1 }, { "name": "m2", "replicas": 1 }] });
    changes["status"]["conditions"][1]["message"] = json!(condition.message);
    let stored = binding(changes.clone());
    assert_eq!(
        plan(&stored, &with_waiting(3)),
        Plan::nothing(Verdict::Wait)
    );
    // The remark leaves the condition with the last waiting replica.
    changes["spec"]["replicas"] = json!(2);
    let last = plan(&binding(changes), &with_waiting(0));
    assert_eq!(last.verdict, Verdict::Done);
    let condition = last.status.and_then(|status| status.scheduled).unwrap();
    assert_eq!(condition.message, SUCCESS_MESSAGE);
}

#[test]
fn the_applied_limits_follow_the_limits() {
    for (limits, applied, change) in [
        (None, None, None),
        (Some("{}"), None, Some(json!("{}"))),
        (Some("{}"), Some("{}"), None),
        (Some("{}"), Some("old"), Some(json!("{}"))),
        (None, Some("{}"), Some(Value::Null)),
    ] {
        let mut changes = scheduled();
        let annotations = &mut changes["metadata"]["annotations"];
        annotations[REPLICA_LIMITS] = json!(limits);
        annotations[APPLIED_REPLICA_LIMITS] = json!(applied);
        let plan = plan(&binding(changes), &placed(&[("m1", 0), ("m2", 0)]));
        let wanted = change.map(
            |change| json!({ "metadata": { "annotations": { APPLIED_REPLICA_LIMITS: change } } }),
        );
        assert_eq!(plan.result, wanted, "{limits:?} {applied:?}");
    }
}
