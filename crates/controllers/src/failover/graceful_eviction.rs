//! The decision which graceful eviction tasks of a binding are finished, and when to check the remaining tasks.

use std::time::Duration;

use berth_api::binding::{GracefulEvictionTask, ResourceHealth};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::binding::Binding;
use crate::timestamp::whole_seconds;

/// A change of the eviction tasks of a binding.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TaskUpdate {
    /// The patch of the binding, or `None` if no task changes.
    pub patch: Option<Value>,
    /// The clusters whose tasks are finished. The old copies in these clusters are then deleted.
    pub finished: Vec<String>,
    /// The time at which the next task ends.
    pub next: Option<Timestamp>,
}

/// Checks the tasks of a binding. New tasks get a creation timestamp, which starts their grace period.
pub(super) fn update_tasks(binding: &Binding, timeout: Duration, now: Timestamp) -> TaskUpdate {
    let has_recovered = binding.is_observed_by_scheduler() && is_healthy_everywhere(binding);
    let mut kept = Vec::new();
    let mut finished = Vec::new();
    let mut next: Option<Timestamp> = None;
    let mut changed = false;
    for (stored, task) in binding
        .tasks
        .iter()
        .zip(&binding.spec.graceful_eviction_tasks)
    {
        let Some(created) = &task.creation_timestamp else {
            let mut stamped = stored.clone();
            stamped["creationTimestamp"] = json!(whole_seconds(now).to_string());
            kept.push(stamped);
            changed = true;
            continue;
        };
        let end = end(task, created.0, timeout);
        let done = match task.suppress_deletion {
            Some(suppressed) => !suppressed,
            None => now >= end || has_recovered,
        };
        if done {
            finished.push(task.from_cluster.clone());
            changed = true;
        } else {
            if task.suppress_deletion.is_none() {
                next = Some(next.map_or(end, |next| next.min(end)));
            }
            kept.push(stored.clone());
        }
    }
    TaskUpdate {
        patch: changed.then(|| json!({ "spec": { "gracefulEvictionTasks": kept } })),
        finished,
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

fn is_healthy_everywhere(binding: &Binding) -> bool {
    let mut targets = binding.spec.clusters.iter();
    targets.all(|target| {
        let item = binding.status_in(&target.name);
        item.is_some_and(|item| {
            item.health == Some(ResourceHealth::Healthy)
                && covers_replicas(item.status.as_ref(), target.replicas)
        })
    })
}

/// Reports whether a status counts at least the assigned replicas. A status that is older than an increase of the
/// replicas may be healthy, but counts fewer replicas. A status without a replica count is accepted.
fn covers_replicas(status: Option<&Value>, assigned: i32) -> bool {
    let reported = status.and_then(|status| status.get("replicas")?.as_i64());
    reported.is_none_or(|reported| reported >= i64::from(assigned))
}

#[cfg(test)]
pub(super) mod tests {
    use kube::api::DynamicObject;

    use super::*;

    /// Returns a binding with this spec and generation 3.
    pub(crate) fn binding(spec: &Value) -> Binding {
        binding_with(spec, &json!(null))
    }

    pub(crate) fn binding_with(spec: &Value, status: &Value) -> Binding {
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
        Binding::read(&object).unwrap()
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

    #[test]
    fn a_new_task_gets_a_creation_timestamp() {
        let binding =
            binding(&json!({ "gracefulEvictionTasks": [task("m1", &json!({ "new": 1 }))] }));
        let stamped = task(
            "m1",
            &json!({ "new": 1, "creationTimestamp": "1970-01-01T00:16:40Z" }),
        );
        assert_eq!(
            update_tasks(&binding, TIMEOUT, at(1000)),
            TaskUpdate {
                patch: Some(json!({ "spec": { "gracefulEvictionTasks": [stamped] } })),
                finished: Vec::new(),
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
            let update = update_tasks(&binding, TIMEOUT, at(now) + within);
            assert_eq!(update.patch.is_none(), stays, "{about}");
            assert_eq!(update.finished.is_empty(), stays, "{about}");
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
            let update = update_tasks(&binding, TIMEOUT, at(1001));
            assert_eq!(update.patch.is_none(), stays, "{status}");
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
        assert_eq!(
            update_tasks(&binding, TIMEOUT, at(1001)).next,
            Some(at(1031))
        );
    }
}
