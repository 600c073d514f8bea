//! The station of the scheduling decision, as the binding shows it.

use berth_api::well_known::PREEMPTED;
use berth_api::{Binding, condition};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use crate::finding::{Finding, Reason, Station};
use crate::health::Health;
use crate::quota_shortage;
use crate::scheduling_failure::SchedulingFailure;

/// The time after which a missing decision means that no scheduler looks at the binding.
pub(crate) const DECISION: SignedDuration = SignedDuration::from_secs(30);

/// Returns what keeps a binding from being placed.
pub(crate) fn finding(binding: &Binding, now: Timestamp) -> Option<Finding> {
    let (spec, status) = (&binding.spec, &binding.status);
    let is_dependency = spec.placement.is_none();
    if spec.scheduling_suspended() {
        let message = "scheduling is suspended";
        let found = new(Health::Waiting, Reason::SchedulingSuspended, message);
        return Some(found.with_fix("set spec.suspension.scheduling of the binding to false"));
    }
    let scheduled = condition::scheduled(&status.conditions);
    match scheduled {
        Some(scheduled) if scheduled.status != "True" => Some(failed(binding, scheduled)),
        None if !is_dependency && spec.clusters.is_empty() => Some(undecided(binding, now)),
        _ if spec.targets().is_empty() => no_clusters(binding),
        _ => None,
    }
}

fn failed(binding: &Binding, scheduled: &Condition) -> Finding {
    let failure = SchedulingFailure::of(&scheduled.reason, &scheduled.message);
    let mut cause = match failure {
        SchedulingFailure::Quota => quota_shortage::cause(binding, &scheduled.message),
        _ => failure.cause(&scheduled.message),
    };
    // The copy stays for its grace period, and the scheduler finds no other place meanwhile.
    let mut tasks = binding.spec.graceful_eviction_tasks.iter();
    if failure == SchedulingFailure::NoFit
        && let Some(task) = tasks.find(|task| task.reason == PREEMPTED)
    {
        let preempted = task.message.as_deref();
        let preempted = preempted.unwrap_or("preempted by a binding of higher priority");
        cause = format!("{preempted}, and no other place: {cause}");
    }
    let mut found = new(failure.health(), failure.reason(), cause);
    found.fix = failure.fix(&argument(binding), &scheduled.message);
    found.since(Some(scheduled.last_transition_time.0))
}

fn undecided(binding: &Binding, now: Timestamp) -> Finding {
    let created = binding
        .metadata
        .creation_timestamp
        .as_ref()
        .map(|time| time.0);
    let scheduler = binding.spec.scheduler();
    let is_new = created.is_none_or(|created| now.duration_since(created) < DECISION);
    let found = if is_new {
        let message = format!("the scheduler {scheduler} has not decided yet");
        new(Health::Waiting, Reason::NotScheduledYet, message)
    } else {
        let message = format!("no scheduler named {scheduler} decides about it");
        let fix = format!(
            "start the scheduler {scheduler}, or correct spec.schedulerName in the policy; `kubectl get leases -A` shows the schedulers that run, and their logs say whether a plugin holds the decision back"
        );
        new(Health::Stuck, Reason::SchedulerAbsent, message).with_fix(fix)
    };
    found.since(created)
}

/// A workload that wants no replicas needs no clusters.
fn no_clusters(binding: &Binding) -> Option<Finding> {
    let spec = &binding.spec;
    if spec.placement.is_none() {
        let message = "no workload that needs it is placed";
        let is_needed = !spec.required_by.is_empty();
        return is_needed.then(|| new(Health::Waiting, Reason::NoClusters, message));
    }
    if spec.replicas == 0 && spec.replica_requirements.is_some() {
        return None;
    }
    let message = "the scheduler has placed it in no cluster";
    let fix = format!(
        "`berth explain {}` shows why no cluster is chosen",
        argument(binding)
    );
    Some(new(Health::Stuck, Reason::NoClusters, message).with_fix(fix))
}

fn new(health: Health, reason: Reason, message: impl Into<String>) -> Finding {
    Finding::new(Station::Scheduling, health, reason, message)
}

/// Returns the arguments with which `berth explain` finds the workload.
fn argument(binding: &Binding) -> String {
    let resource = &binding.spec.resource;
    let name = format!("{}/{}", resource.kind.to_lowercase(), resource.name);
    match resource.namespace.as_deref() {
        Some(namespace) if !namespace.is_empty() => format!("{name} -n {namespace}"),
        _ => name,
    }
}

/// Returns where a binding is placed, in words.
pub(crate) fn summary(binding: &Binding) -> String {
    let spec = &binding.spec;
    let targets = spec.targets();
    let with_replicas = spec.is_workload() && spec.replicas > 0;
    let shown = targets.iter().take(SHOWN).map(|target| {
        if with_replicas {
            format!("{}: {}", target.name, target.replicas)
        } else {
            target.name.clone()
        }
    });
    let shown: Vec<String> = shown.collect();
    match targets.len().saturating_sub(SHOWN) {
        _ if targets.is_empty() => match (&spec.placement, spec.replicas) {
            (None, _) if spec.required_by.is_empty() => "no workload needs it".to_owned(),
            (Some(_), 0) if spec.is_workload() => "no replicas are wanted".to_owned(),
            _ => "no cluster".to_owned(),
        },
        0 => format!("placed in {}{}", shown.join(", "), waiting(binding)),
        more => format!(
            "placed in {} and {more} more clusters{}",
            shown.join(", "),
            waiting(binding)
        ),
    }
}

/// The end of the message of the condition `Scheduled` if replicas wait.
const WAITING: &str = " for room.";

/// Returns the number of replicas that wait for room, in words. Replicas wait only if the limits of the binding allow
/// that.
fn waiting(binding: &Binding) -> String {
    let (spec, scheduled) = (
        &binding.spec,
        condition::scheduled(&binding.status.conditions),
    );
    if !scheduled.is_some_and(|found| found.status == "True" && found.message.ends_with(WAITING)) {
        return String::new();
    }
    let targets = spec.clusters.iter();
    let placed: i64 = targets.map(|target| i64::from(target.replicas)).sum();
    match i64::from(spec.replicas) - placed {
        1 => "; 1 replica waits for room".to_owned(),
        waiting if waiting > 1 => format!("; {waiting} replicas wait for room"),
        _ => String::new(),
    }
}

/// Maximum number of clusters in a sentence.
const SHOWN: usize = 4;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::of_binding::tests::binding;

    #[test]
    fn the_summary_names_waiting_replicas() {
        let mut binding = binding(json!([{ "name": "m1", "replicas": 2 }]), json!([]));
        for (replicas, message, expected) in [
            (2, "Scheduled.", "placed in m1: 2"),
            (5, "Scheduled.", "placed in m1: 2"),
            (
                5,
                "3 wait for room.",
                "placed in m1: 2; 3 replicas wait for room",
            ),
            (
                3,
                "1 waits for room.",
                "placed in m1: 2; 1 replica waits for room",
            ),
        ] {
            binding.spec.replicas = replicas;
            message.clone_into(&mut binding.status.conditions[0].message);
            assert_eq!(summary(&binding), expected);
        }
    }

    #[test]
    fn a_preempted_binding_names_who_took_its_place() {
        let mut binding = binding(json!([]), json!([]));
        let scheduled = &mut binding.status.conditions[0];
        "False".clone_into(&mut scheduled.status);
        "0/1 clusters are available.".clone_into(&mut scheduled.message);
        for (task, expected) in [
            (json!([]), "0/1 clusters are available."),
            (
                json!([{ "fromCluster": "m1", "reason": "Preempted", "producer": "p",
                    "message": "preempted by ResourceBinding shop/high of priority 9" }]),
                "preempted by ResourceBinding shop/high of priority 9, and no other place: 0/1 clusters are available.",
            ),
        ] {
            binding.spec.graceful_eviction_tasks = serde_json::from_value(task).unwrap();
            let found = finding(&binding, Timestamp::MAX).unwrap();
            assert_eq!((found.health, &*found.message), (Health::Stuck, expected));
            assert!(found.fix.is_some());
        }
    }

    #[test]
    fn a_binding_waits_for_those_that_it_preempts() {
        let mut binding = binding(json!([]), json!([]));
        let scheduled = &mut binding.status.conditions[0];
        "False".clone_into(&mut scheduled.status);
        "no room.; preempts shop/low in m1, and waits for their capacity"
            .clone_into(&mut scheduled.message);
        let found = finding(&binding, Timestamp::MAX).unwrap();
        let expected = "it preempts shop/low in m1, and waits for their capacity";
        assert_eq!((found.health, &*found.message), (Health::Waiting, expected));
        assert_eq!(found.fix, None);
    }
}
