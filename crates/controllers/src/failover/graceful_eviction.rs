//! The decision about the graceful eviction tasks of a binding: the tasks to finish or cancel, and the time to check
//! the remaining tasks.

use std::time::Duration;

use berth_api::binding::GracefulEvictionTask;
use berth_apimachinery::timestamp::whole_seconds;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::cancellation::{Targets, has_cause_ended};
use super::report::Reports;
use crate::suspension::is_suspended;

/// A change of the eviction tasks of a binding.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TaskUpdate {
    /// The patch of the binding, or `None` if no task changes.
    pub patch: Option<Value>,
    /// The clusters whose tasks are finished. The old copies in these clusters are then deleted.
    pub finished: Vec<String>,
    /// The clusters whose tasks are cancelled. The same patch makes them target clusters again.
    pub cancelled: Vec<String>,
    /// The time at which the next task ends.
    pub next: Option<Timestamp>,
}

/// Checks the tasks of a binding. New tasks get a creation timestamp, which starts their grace period.
pub(super) fn update_tasks(reports: &Reports<'_>, timeout: Duration, now: Timestamp) -> TaskUpdate {
    let binding = reports.binding;
    let has_moved = binding.is_observed_by_scheduler() && reports.is_healthy_everywhere();
    let mut targets = Targets::new(&binding.clusters);
    let mut kept = Vec::new();
    let (mut finished, mut cancelled) = (Vec::new(), Vec::new());
    let mut next: Option<Timestamp> = None;
    let mut changed = false;
    for (stored, task) in binding
        .tasks
        .iter()
        .zip(&binding.body.spec.graceful_eviction_tasks)
    {
        // A task with `suppressDeletion` ends only by a change of a user.
        let is_automatic = task.suppress_deletion.is_none();
        let has_cause = !(is_automatic && has_cause_ended(reports, task, now));
        if !has_cause && targets.give_back(reports, task) {
            cancelled.push(task.from_cluster.clone());
            changed = true;
            continue;
        }
        let Some(created) = &task.creation_timestamp else {
            let mut stamped = stored.clone();
            stamped["creationTimestamp"] = json!(whole_seconds(now).to_string());
            kept.push(stamped);
            changed = true;
            continue;
        };
        let end = end(task, created.0, timeout);
        let has_timed_out = has_cause && now >= end;
        let done = match task.suppress_deletion {
            Some(suppressed) => !suppressed,
            // The end of the task would delete the copy when dispatching resumes.
            None if is_suspended(&binding.body.spec, &task.from_cluster) => false,
            None => has_timed_out || has_moved,
        };
        if done {
            finished.push(task.from_cluster.clone());
            changed = true;
        } else {
            if is_automatic && end > now {
                next = Some(next.map_or(end, |next| next.min(end)));
            }
            kept.push(stored.clone());
        }
    }
    let mut spec = json!({ "gracefulEvictionTasks": kept });
    if targets.has_changed() {
        spec["clusters"] = json!(targets.clusters);
    }
    TaskUpdate {
        patch: changed.then(|| json!({ "spec": spec })),
        finished,
        cancelled,
        next,
    }
}

/// Returns the end of a task's grace period. One second is added to the creation timestamp, because timestamps have
/// whole seconds: the task may have been created up to one second later.
fn end(task: &GracefulEvictionTask, created: Timestamp, timeout: Duration) -> Timestamp {
    let grace = match task.grace_period_seconds {
        Some(seconds) => SignedDuration::from_secs(seconds.into()),
        None => SignedDuration::try_from(timeout).unwrap_or(SignedDuration::MAX),
    };
    let end = created
        .saturating_add(grace)
        .and_then(|end| end.saturating_add(SignedDuration::from_secs(1)));
    end.unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
pub(super) mod tests {
    use std::time::Instant;

    use kube::api::DynamicObject;

    use super::super::binding::BindingRecord;
    use super::super::report::tests::clusters;
    use super::*;

    /// Returns a binding with this spec and generation 3.
    pub(crate) fn binding(spec: &Value) -> BindingRecord {
        binding_with(spec, &json!(null))
    }

    pub(crate) fn binding_with(spec: &Value, status: &Value) -> BindingRecord {
        let mut whole = json!({ "resource": {
            "apiVersion": "apps/v1", "kind": "Deployment", "namespace": "n", "name": "web" } });
        for (field, value) in spec.as_object().unwrap() {
            whole[field] = value.clone();
        }
        let object: DynamicObject = serde_json::from_value(json!({
            "apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding",
            "metadata": { "name": "web-deployment", "namespace": "n", "generation": 3, "resourceVersion": "7" },
            "spec": whole, "status": status,
        }))
        .unwrap();
        BindingRecord::read(&object).unwrap()
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn task(cluster: &str, more: &Value) -> Value {
        let mut task = json!({ "fromCluster": cluster, "reason": "r", "producer": "p" });
        for (field, value) in more.as_object().unwrap() {
            task[field] = value.clone();
        }
        task
    }

    const TIMEOUT: Duration = Duration::from_mins(10);

    /// Checks the tasks of a binding. The members m1, m2 and m3 are ready.
    fn update(binding: &BindingRecord, now: Timestamp) -> TaskUpdate {
        let clock = Instant::now();
        let clusters = clusters(&[("m1", true), ("m2", true), ("m3", true)], clock);
        update_tasks(&Reports::new(binding, &clusters, clock), TIMEOUT, now)
    }

    #[test]
    fn a_new_task_gets_a_creation_timestamp() {
        let binding =
            binding(&json!({ "gracefulEvictionTasks": [task("m1", &json!({ "new": 1 }))] }));
        let stamped = task(
            "m1",
            &json!({ "new": 1, "creationTimestamp": "1970-01-01T00:16:40Z" }),
        );
        assert_eq!(
            update(&binding, at(1000)),
            TaskUpdate {
                patch: Some(json!({ "spec": { "gracefulEvictionTasks": [stamped] } })),
                finished: Vec::new(),
                cancelled: Vec::new(),
                next: None,
            }
        );
    }

    #[test]
    fn a_task_lasts_until_its_grace_period_ends_or_the_new_copies_are_healthy() {
        let created = json!({ "creationTimestamp": "1970-01-01T00:16:40Z" });
        let with = |field: &str, value: Value| {
            let mut more = created.clone();
            more[field] = value;
            more
        };
        let healthy = json!([{ "clusterName": "m2", "health": "Healthy" }]);
        let unhealthy = json!([{ "clusterName": "m2", "health": "Unhealthy" }]);
        for (about, more, seen, health, now, stays) in [
            ("just created", created.clone(), 2, json!([]), 1001, true),
            (
                "after ten minutes",
                created.clone(),
                2,
                json!([]),
                1600,
                true,
            ),
            (
                "after more than ten minutes",
                created.clone(),
                2,
                json!([]),
                1601,
                false,
            ),
            (
                "within its own grace period",
                with("gracePeriodSeconds", 5.into()),
                2,
                json!([]),
                1005,
                true,
            ),
            (
                "after its own grace period",
                with("gracePeriodSeconds", 5.into()),
                2,
                json!([]),
                1006,
                false,
            ),
            ("healthy", created.clone(), 3, healthy.clone(), 1001, false),
            (
                "healthy, but of an older generation",
                created.clone(),
                2,
                healthy.clone(),
                1001,
                true,
            ),
            ("unhealthy", created.clone(), 3, unhealthy, 1001, true),
            (
                "without a status",
                created.clone(),
                3,
                json!([]),
                1001,
                true,
            ),
            (
                "deletion suppressed",
                with("suppressDeletion", true.into()),
                3,
                healthy,
                9999,
                true,
            ),
            (
                "deletion allowed",
                with("suppressDeletion", false.into()),
                2,
                json!([]),
                1001,
                false,
            ),
        ] {
            let binding = binding_with(
                &json!({ "clusters": [{ "name": "m2" }], "gracefulEvictionTasks": [task("m1", &more)] }),
                &json!({ "schedulerObservedGeneration": seen, "aggregatedStatus": health }),
            );
            // A task that is unfinished at the start of a second is unfinished until the end of this second.
            let within = SignedDuration::from_millis(if stays { 999 } else { 0 });
            let found = update(&binding, at(now) + within);
            assert_eq!(found.patch.is_none(), stays, "{about}");
            assert_eq!(found.finished.is_empty(), stays, "{about}");
        }
    }

    #[test]
    fn health_with_fewer_replicas_than_assigned_does_not_count() {
        let created = json!({ "creationTimestamp": "1970-01-01T00:16:40Z" });
        for (status, stays) in [
            (json!({ "replicas": 1, "readyReplicas": 1 }), true),
            (json!({ "replicas": 2, "readyReplicas": 2 }), false),
            (json!({ "replicas": 3, "readyReplicas": 3 }), false),
            (json!({ "succeeded": 1 }), false),
            (json!(null), false),
        ] {
            let binding = binding_with(
                &json!({
                    "clusters": [{ "name": "m2", "replicas": 2 }],
                    "gracefulEvictionTasks": [task("m1", &created)],
                }),
                &json!({ "schedulerObservedGeneration": 3, "aggregatedStatus": [
                    { "clusterName": "m2", "health": "Healthy", "status": status }] }),
            );
            let found = update(&binding, at(1001));
            assert_eq!(found.patch.is_none(), stays, "{status}");
        }
    }

    #[test]
    fn the_next_check_is_when_the_first_task_ends() {
        let created = json!({ "creationTimestamp": "1970-01-01T00:16:40Z" });
        let mut soon = created.clone();
        soon["gracePeriodSeconds"] = 30.into();
        let mut never = created.clone();
        never["suppressDeletion"] = true.into();
        let binding = binding(
            &json!({ "clusters": [{ "name": "m9" }], "gracefulEvictionTasks": [
            task("m1", &created), task("m2", &soon), task("m3", &never)] }),
        );
        assert_eq!(update(&binding, at(1001)).next, Some(at(1031)));
    }
}
