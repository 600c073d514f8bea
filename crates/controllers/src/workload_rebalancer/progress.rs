//! The next action for a rebalancer, computed from its spec and status.

use std::collections::BTreeSet;

use berth_api::WorkloadRebalancer;
use berth_api::workload_rebalancer::{
    ObservedWorkload, RebalanceResult, WorkloadRebalancerStatus, WorkloadReference,
};
use jiff::{SignedDuration, Timestamp};

/// The next action for a rebalancer.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Action {
    /// No action.
    None,
    /// No action before this time.
    Wait(Timestamp),
    /// Trigger the bindings of the workloads that have no result yet in this status, and write the status.
    Trigger(WorkloadRebalancerStatus),
    /// Delete the rebalancer, because its time to live is over.
    Delete,
}

/// Returns the next action for a rebalancer.
pub(super) fn next_action(rebalancer: &WorkloadRebalancer, now: Timestamp) -> Action {
    if rebalancer.metadata.deletion_timestamp.is_some() {
        return Action::None;
    }
    let before = rebalancer.status.clone().unwrap_or_default();
    let desired = desired_status(rebalancer);
    let is_finished = desired
        .observed_workloads
        .iter()
        .all(|w| w.result.is_some());
    if desired != before || !is_finished {
        return Action::Trigger(desired);
    }
    let Some((ttl, finish)) = rebalancer
        .spec
        .ttl_seconds_after_finished
        .zip(before.finish_time)
    else {
        return Action::None;
    };
    let end = finish
        .0
        .saturating_add(SignedDuration::from_secs(ttl.into()));
    match end {
        Ok(end) if end > now => Action::Wait(end),
        Ok(_) => Action::Delete,
        Err(_) => Action::None,
    }
}

/// Returns the status with the workloads of the spec, in Karmada's order. Existing results are kept. A workload that
/// was removed from the spec stays in the status if its result is successful.
fn desired_status(rebalancer: &WorkloadRebalancer) -> WorkloadRebalancerStatus {
    let before = rebalancer.status.clone().unwrap_or_default();
    let mut new: BTreeSet<&WorkloadReference> = rebalancer.spec.workloads.iter().collect();
    let mut observed: Vec<ObservedWorkload> = before
        .observed_workloads
        .into_iter()
        .filter(|item| {
            new.remove(&item.workload) || item.result == Some(RebalanceResult::Successful)
        })
        .collect();
    observed.extend(new.into_iter().map(|workload| ObservedWorkload {
        workload: workload.clone(),
        ..ObservedWorkload::default()
    }));
    observed.sort_by_key(|item| sort_key(&item.workload));
    WorkloadRebalancerStatus {
        observed_workloads: observed,
        observed_generation: rebalancer.metadata.generation,
        finish_time: before.finish_time,
    }
}

fn sort_key(workload: &WorkloadReference) -> String {
    let WorkloadReference {
        api_version,
        kind,
        name,
        namespace,
    } = workload;
    format!("{api_version} {kind} {namespace} {name}")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn workload(name: &str) -> Value {
        json!({ "apiVersion": "apps/v1", "kind": "Deployment", "namespace": "n", "name": name })
    }

    fn observed(name: &str, result: &str) -> Value {
        json!({ "workload": workload(name), "result": result })
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).unwrap()
    }

    fn action(spec: &Value, status: &Value) -> Action {
        let rebalancer = serde_json::from_value(json!({
            "metadata": { "name": "r", "generation": 2 }, "spec": spec, "status": status }))
        .unwrap();
        next_action(&rebalancer, at(100))
    }

    fn triggered(spec: &Value, status: &Value) -> Vec<(String, Option<RebalanceResult>)> {
        let Action::Trigger(status) = action(spec, status) else {
            panic!("the action is not Action::Trigger")
        };
        assert_eq!(status.observed_generation, Some(2));
        let items = status.observed_workloads.into_iter();
        items
            .map(|item| (item.workload.name, item.result))
            .collect()
    }

    #[test]
    fn new_workloads_are_triggered_and_results_are_kept() {
        let spec = json!({ "workloads": [workload("new"), workload("good"), workload("bad")] });
        let status = json!({ "observedGeneration": 1, "observedWorkloads": [
            observed("bad", "Failed"), observed("good", "Successful"),
            observed("old-bad", "Failed"), observed("old-good", "Successful")] });
        let (good, bad) = (RebalanceResult::Successful, RebalanceResult::Failed);
        assert_eq!(
            triggered(&spec, &status),
            [
                ("bad".to_owned(), Some(bad)),
                ("good".to_owned(), Some(good.clone())),
                ("new".to_owned(), None),
                ("old-good".to_owned(), Some(good)),
            ]
        );
        let fresh = json!({ "workloads": [workload("b"), workload("a"), workload("b")] });
        assert_eq!(
            triggered(&fresh, &json!({})),
            [("a".to_owned(), None), ("b".to_owned(), None)]
        );
    }

    #[test]
    fn a_finished_rebalancer_is_deleted_after_its_time_to_live() {
        let done = json!({ "observedGeneration": 2, "observedWorkloads": [observed("a", "Successful")],
            "finishTime": at(90).to_string() });
        for (ttl, expected) in [
            (json!(null), Action::None),
            (json!(30), Action::Wait(at(120))),
            (json!(10), Action::Delete),
            (json!(0), Action::Delete),
        ] {
            let spec = json!({ "workloads": [workload("a")], "ttlSecondsAfterFinished": ttl });
            assert_eq!(action(&spec, &done), expected, "{ttl}");
        }
        // After an edit of the spec, the status is written although the time to live is over.
        let mut edited = done;
        edited["observedGeneration"] = json!(1);
        let spec = json!({ "workloads": [workload("a")], "ttlSecondsAfterFinished": 0 });
        assert_eq!(triggered(&spec, &edited).len(), 1);
    }

    #[test]
    fn workloads_without_a_result_are_triggered_again() {
        let status = json!({ "observedGeneration": 2, "observedWorkloads": [
            { "workload": workload("a") }, observed("b", "Successful")] });
        let spec = json!({ "workloads": [workload("a"), workload("b")] });
        assert_eq!(triggered(&spec, &status)[0], ("a".to_owned(), None));
    }
}
