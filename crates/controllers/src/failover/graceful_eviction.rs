//! When an eviction has been waited for long enough: which tasks of a binding stay, and when to look again.

use std::time::Duration;

use berth_api::binding::{GracefulEvictionTask, ResourceHealth};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::binding::Bound;

/// What becomes of the tasks of a binding.
#[derive(Clone, Debug, PartialEq)]
pub struct Drained {
    /// The patch of `spec`, where anything changes.
    pub patch: Option<Value>,
    /// The clusters whose tasks are done: their old copies may go.
    pub evicted: Vec<String>,
    /// When the first of the others is over.
    pub next: Option<Timestamp>,
}

/// Looks at the tasks of a binding. New ones get the time, so that their grace period begins.
pub fn drain(binding: &Bound, timeout: Duration, now: Timestamp) -> Drained {
    let recovered = binding.is_scheduled() && has_recovered(binding);
    let mut kept = Vec::new();
    let mut evicted = Vec::new();
    let mut next: Option<Timestamp> = None;
    let mut changed = false;
    for (stored, task) in binding
        .tasks
        .iter()
        .zip(&binding.spec.graceful_eviction_tasks)
    {
        let Some(created) = &task.creation_timestamp else {
            let mut stamped = stored.clone();
            stamped["creationTimestamp"] = json!(whole_seconds(now));
            kept.push(stamped);
            changed = true;
            continue;
        };
        let end = end(task, created.0, timeout);
        let done = match task.suppress_deletion {
            Some(suppressed) => !suppressed,
            None => now > end || recovered,
        };
        if done {
            evicted.push(task.from_cluster.clone());
            changed = true;
        } else {
            if task.suppress_deletion.is_none() {
                next = Some(next.map_or(end, |next| next.min(end)));
            }
            kept.push(stored.clone());
        }
    }
    Drained {
        patch: changed.then(|| json!({ "spec": { "gracefulEvictionTasks": kept } })),
        evicted,
        next,
    }
}

fn end(task: &GracefulEvictionTask, created: Timestamp, timeout: Duration) -> Timestamp {
    let grace = match task.grace_period_seconds {
        Some(seconds) => SignedDuration::from_secs(seconds.into()),
        None => SignedDuration::try_from(timeout).unwrap_or(SignedDuration::MAX),
    };
    let end = created.saturating_add(grace);
    end.unwrap_or(Timestamp::MAX)
}

fn has_recovered(binding: &Bound) -> bool {
    let mut targets = binding.spec.clusters.iter();
    targets.all(|target| {
        let report = binding.report(&target.name);
        report.is_some_and(|report| {
            report.health == Some(ResourceHealth::Healthy)
                && is_about(report.status.as_ref(), target.replicas)
        })
    })
}

/// Whether a report can be about this share. One from before the share grew is healthy as well, with the fewer
/// replicas that the cluster had then. Reports that count no replicas say nothing of it.
fn is_about(status: Option<&Value>, share: i32) -> bool {
    let counted = status.and_then(|status| status.get("replicas")?.as_i64());
    counted.is_none_or(|counted| counted >= i64::from(share))
}

/// As times are written in Kubernetes.
fn whole_seconds(now: Timestamp) -> String {
    let now = Timestamp::from_second(now.as_second()).unwrap_or(now);
    now.to_string()
}

#[cfg(test)]
pub(super) mod tests {
    use kube::api::DynamicObject;

    use super::*;

    /// A binding of this spec, in generation 3.
    pub(crate) fn bound(spec: &Value) -> Bound {
        bound_with(spec, &json!(null))
    }

    pub(crate) fn bound_with(spec: &Value, status: &Value) -> Bound {
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
        Bound::read(&object).unwrap()
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
    fn a_new_task_gets_the_time() {
        let binding =
            bound(&json!({ "gracefulEvictionTasks": [task("m1", &json!({ "new": 1 }))] }));
        let stamped = task(
            "m1",
            &json!({ "new": 1, "creationTimestamp": "1970-01-01T00:16:40Z" }),
        );
        assert_eq!(
            drain(&binding, TIMEOUT, at(1000)),
            Drained {
                patch: Some(json!({ "spec": { "gracefulEvictionTasks": [stamped] } })),
                evicted: Vec::new(),
                next: None,
            }
        );
    }

    #[test]
    fn a_task_stays_until_its_time_is_over_or_the_new_copies_are_healthy() {
        let created = json!({ "creationTimestamp": "1970-01-01T00:16:40Z" });
        let with = |field: &str, value: Value| {
            let mut more = created.clone();
            more[field] = value;
            more
        };
        let healthy = json!([{ "clusterName": "m2", "health": "Healthy" }]);
        let sick = json!([{ "clusterName": "m2", "health": "Unhealthy" }]);
        for (about, more, seen, health, now, stays) in [
            ("just begun", created.clone(), 2, json!([]), 1001, true),
            ("ten minutes", created.clone(), 2, json!([]), 1600, true),
            ("more than that", created.clone(), 2, json!([]), 1601, false),
            (
                "its own time",
                with("gracePeriodSeconds", 5.into()),
                2,
                json!([]),
                1005,
                true,
            ),
            (
                "its own time is over",
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
            ("sick", created.clone(), 3, sick, 1001, true),
            ("not seen yet", created.clone(), 3, json!([]), 1001, true),
            (
                "kept by hand",
                with("suppressDeletion", true.into()),
                3,
                healthy,
                9999,
                true,
            ),
            (
                "let go by hand",
                with("suppressDeletion", false.into()),
                2,
                json!([]),
                1001,
                false,
            ),
        ] {
            let binding = bound_with(
                &json!({ "clusters": [{ "name": "m2" }], "gracefulEvictionTasks": [task("m1", &more)] }),
                &json!({ "schedulerObservedGeneration": seen, "aggregatedStatus": health }),
            );
            let drained = drain(&binding, TIMEOUT, at(now));
            assert_eq!(drained.patch.is_none(), stays, "{about}");
            assert_eq!(drained.evicted.is_empty(), stays, "{about}");
        }
    }

    #[test]
    fn health_from_before_the_share_grew_does_not_count() {
        let created = json!({ "creationTimestamp": "1970-01-01T00:16:40Z" });
        for (status, stays) in [
            (json!({ "replicas": 1, "readyReplicas": 1 }), true),
            (json!({ "replicas": 2, "readyReplicas": 2 }), false),
            (json!({ "replicas": 3, "readyReplicas": 3 }), false),
            (json!({ "succeeded": 1 }), false),
            (json!(null), false),
        ] {
            let binding = bound_with(
                &json!({
                    "clusters": [{ "name": "m2", "replicas": 2 }],
                    "gracefulEvictionTasks": [task("m1", &created)],
                }),
                &json!({ "schedulerObservedGeneration": 3, "aggregatedStatus": [
                    { "clusterName": "m2", "health": "Healthy", "status": status }] }),
            );
            let drained = drain(&binding, TIMEOUT, at(1001));
            assert_eq!(drained.patch.is_none(), stays, "{status}");
        }
    }

    #[test]
    fn the_next_look_is_when_the_first_is_over() {
        let created = json!({ "creationTimestamp": "1970-01-01T00:16:40Z" });
        let mut soon = created.clone();
        soon["gracePeriodSeconds"] = 30.into();
        let mut never = created.clone();
        never["suppressDeletion"] = true.into();
        let binding = bound(
            &json!({ "clusters": [{ "name": "m9" }], "gracefulEvictionTasks": [
            task("m1", &created), task("m2", &soon), task("m3", &never)] }),
        );
        assert_eq!(drain(&binding, TIMEOUT, at(1001)).next, Some(at(1030)));
    }
}
