//! How far a rebalancer is, read off its status.

use std::collections::BTreeSet;

use berth_api::WorkloadRebalancer;
use berth_api::workload_rebalancer::{
    ObservedWorkload, RebalanceResult, WorkloadRebalancerStatus, WorkloadReference,
};
use jiff::{SignedDuration, Timestamp};

/// What is to be done.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    /// Nothing.
    Rest,
    /// Nothing before this time.
    Wait(Timestamp),
    /// The bindings of the workloads without a result are to be asked; how it looks before.
    Ask(WorkloadRebalancerStatus),
    /// It has been finished for long enough.
    Delete,
}

/// Looks at a rebalancer.
pub(super) fn step(rebalancer: &WorkloadRebalancer, now: Timestamp) -> Step {
    if rebalancer.metadata.deletion_timestamp.is_some() {
        return Step::Rest;
    }
    let before = rebalancer.status.clone().unwrap_or_default();
    let begun = begin(rebalancer);
    let is_asked = begun.observed_workloads.iter().all(|w| w.result.is_some());
    if begun != before || !is_asked {
        return Step::Ask(begun);
    }
    let Some((ttl, finish)) = rebalancer
        .spec
        .ttl_seconds_after_finished
        .zip(before.finish_time)
    else {
        return Step::Rest;
    };
    let end = finish
        .0
        .saturating_add(SignedDuration::from_secs(ttl.into()));
    match end {
        Ok(end) if end > now => Step::Wait(end),
        Ok(_) => Step::Delete,
        Err(_) => Step::Rest,
    }
}

/// The status with the workloads that are listed now, in Karmada's order. What has a result keeps it; what is not
/// listed any more stays if it was successful.
fn begin(rebalancer: &WorkloadRebalancer) -> WorkloadRebalancerStatus {
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

    fn look(spec: &Value, status: &Value) -> Step {
        let rebalancer = serde_json::from_value(json!({
            "metadata": { "name": "r", "generation": 2 }, "spec": spec, "status": status }))
        .unwrap();
        step(&rebalancer, at(100))
    }

    fn asked(spec: &Value, status: &Value) -> Vec<(String, Option<RebalanceResult>)> {
        let Step::Ask(begun) = look(spec, status) else {
            panic!("nothing is asked")
        };
        assert_eq!(begun.observed_generation, Some(2));
        let items = begun.observed_workloads.into_iter();
        items
            .map(|item| (item.workload.name, item.result))
            .collect()
    }

    #[test]
    fn what_is_listed_anew_is_asked_and_what_was_successful_stays() {
        let spec = json!({ "workloads": [workload("new"), workload("good"), workload("bad")] });
        let status = json!({ "observedGeneration": 1, "observedWorkloads": [
            observed("bad", "Failed"), observed("good", "Successful"),
            observed("old-bad", "Failed"), observed("old-good", "Successful")] });
        let (good, bad) = (RebalanceResult::Successful, RebalanceResult::Failed);
        assert_eq!(
            asked(&spec, &status),
            [
                ("bad".to_owned(), Some(bad)),
                ("good".to_owned(), Some(good.clone())),
                ("new".to_owned(), None),
                ("old-good".to_owned(), Some(good)),
            ]
        );
        let fresh = json!({ "workloads": [workload("b"), workload("a"), workload("b")] });
        assert_eq!(
            asked(&fresh, &json!({})),
            [("a".to_owned(), None), ("b".to_owned(), None)]
        );
    }

    #[test]
    fn what_has_finished_rests_until_its_time_is_over() {
        let done = json!({ "observedGeneration": 2, "observedWorkloads": [observed("a", "Successful")],
            "finishTime": at(90).to_string() });
        for (ttl, expected) in [
            (json!(null), Step::Rest),
            (json!(30), Step::Wait(at(120))),
            (json!(10), Step::Delete),
            (json!(0), Step::Delete),
        ] {
            let spec = json!({ "workloads": [workload("a")], "ttlSecondsAfterFinished": ttl });
            assert_eq!(look(&spec, &done), expected, "{ttl}");
        }
        // An edit counts before the time does.
        let mut edited = done;
        edited["observedGeneration"] = json!(1);
        let spec = json!({ "workloads": [workload("a")], "ttlSecondsAfterFinished": 0 });
        assert_eq!(asked(&spec, &edited).len(), 1);
    }

    #[test]
    fn what_has_no_result_yet_is_asked_again() {
        let status = json!({ "observedGeneration": 2, "observedWorkloads": [
            { "workload": workload("a") }, observed("b", "Successful")] });
        let spec = json!({ "workloads": [workload("a"), workload("b")] });
        assert_eq!(asked(&spec, &status)[0], ("a".to_owned(), None));
    }
}
