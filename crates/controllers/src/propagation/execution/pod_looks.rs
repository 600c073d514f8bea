//! The looks at the pods of unhealthy workloads in a member: when the next one is due, for which objects, and what is
//! reported.
//!
//! Most workloads become healthy within seconds, and cause no request. A workload that stays unhealthy is looked at after a
//! growing delay, because the status of a workload does not tell why its pods are not ready.

use std::time::Duration;

use berth_api::binding::ResourceHealth;
use berth_api::work::ManifestStatus;
use berth_apimachinery::api_error::has_code;
use berth_apimachinery::json_fields::has_condition;
use berth_diagnosis::{PodProblem, Reason, workload_problem};
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use serde_json::Value;
use tokio::time::Instant;

use crate::member_pods::{MemberPodsError, PodLimit, has_pods, pods};

/// The delays of the looks: the first since the workload is unhealthy, the others since the last look.
const DELAYS: [Duration; 4] = [
    Duration::from_secs(5),
    Duration::from_secs(15),
    Duration::from_mins(1),
    Duration::from_mins(5),
];
/// The delay after a look that the member refused.
const DELAY_AFTER_REFUSAL: Duration = Duration::from_hours(1);
/// The time after which the delays begin again. A workload that is unhealthy every minute is not looked at every minute.
const MEMORY: Duration = Duration::from_mins(10);
/// Maximum number of pods of a look.
const MAX_PODS: u32 = 100;
/// Time limit of a look.
const TIMEOUT: Duration = Duration::from_secs(3);

/// The look that a run of a Work takes at its pods if the workload is unhealthy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Look {
    #[default]
    NotDue,
    /// The first look. Pods that run may still become ready.
    First,
    Again,
}

/// The health of a Work's workload, as a run has observed it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum WorkloadHealth {
    /// The workload was not observed.
    #[default]
    Unobserved,
    /// The workload is healthy, or has no pods.
    Well,
    /// The workload is unhealthy.
    Unhealthy(Looked),
}

/// The outcome of a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Looked {
    /// The run did not look.
    No,
    Yes,
    /// The member does not allow it.
    Refused,
}

/// The times of the looks at the pods of one Work.
#[derive(Debug, Default)]
pub(super) struct LookSchedule {
    /// The time of the next look, or `None` while the workload is healthy.
    due: Option<Instant>,
    last: Option<Instant>,
    /// The number of looks, or the index of the longest delay.
    looks: usize,
    /// The time before which the member is not asked again, because it refused a look.
    refused_until: Option<Instant>,
    /// The time at which the queue returns the Work for a look. An earlier look is queued in addition.
    queued: Option<Instant>,
}

impl LookSchedule {
    /// Returns the look that is due.
    pub(super) fn next(&self, now: Instant) -> Look {
        match self.due {
            Some(due) if due <= now && self.looks == 0 => Look::First,
            Some(due) if due <= now => Look::Again,
            _ => Look::NotDue,
        }
    }

    /// Records the health after a run. Returns the time of the next look if it must be queued.
    pub(super) fn observe(&mut self, health: WorkloadHealth, now: Instant) -> Option<Instant> {
        // A run that failed is repeated after a pause, and then plans the look.
        if health == WorkloadHealth::Unobserved {
            return None;
        }
        self.record(health, now);
        self.queue_next()
    }

    /// Records that the queue has returned the Work. Returns the time of the next look if it must be queued again.
    pub(super) fn dequeued(&mut self, now: Instant) -> Option<Instant> {
        self.queued = None;
        self.due.filter(|due| *due > now)?;
        self.queue_next()
    }

    fn queue_next(&mut self) -> Option<Instant> {
        let due = self.due?;
        if self.queued.is_some_and(|queued| queued <= due) {
            return None;
        }
        self.queued = Some(due);
        self.queued
    }

    fn record(&mut self, health: WorkloadHealth, now: Instant) {
        let looked = match health {
            WorkloadHealth::Unobserved => return,
            WorkloadHealth::Well => {
                self.due = None;
                return;
            }
            WorkloadHealth::Unhealthy(looked) => looked,
        };
        match looked {
            Looked::No if self.due.is_some() => {}
            Looked::No => {
                if self
                    .last
                    .is_none_or(|last| now.duration_since(last) > MEMORY)
                {
                    self.looks = 0;
                }
                let since_last = self.last.map(|last| last + self.delay());
                let first = Some(now + DELAYS[0]);
                self.due = first.max(since_last).max(self.refused_until);
            }
            Looked::Yes => {
                self.last = Some(now);
                self.looks = (self.looks + 1).min(DELAYS.len() - 1);
                self.due = Some(now + self.delay());
            }
            Looked::Refused => {
                self.last = Some(now);
                self.looks = DELAYS.len() - 1;
                self.refused_until = Some(now + DELAY_AFTER_REFUSAL);
                self.due = self.refused_until;
            }
        }
    }

    /// Begins the delays again, because the Work has changed.
    pub(super) fn restart(&mut self) {
        *self = Self {
            queued: self.queued,
            ..Self::default()
        };
    }

    fn delay(&self) -> Duration {
        DELAYS.get(self.looks).copied().unwrap_or_default()
    }
}

/// Returns the first object that has pods and is unhealthy.
pub(super) fn unhealthy_workload<'a>(
    objects: &'a [Option<Value>],
    reports: &[ManifestStatus],
) -> Option<&'a Value> {
    let mut objects = objects.iter().enumerate();
    objects.find_map(|(ordinal, object)| {
        let object = object.as_ref()?;
        let mut reports = reports.iter();
        let report = reports.find(|of| usize::try_from(of.identifier.ordinal) == Ok(ordinal));
        let is_unhealthy = report.is_some_and(|of| of.health == Some(ResourceHealth::Unhealthy));
        ((is_unhealthy || misses_replicas(object) || has_failed(object)) && has_pods(object))
            .then_some(object)
    })
}

/// Reports whether an object has failed for good, such as a Job.
fn has_failed(object: &Value) -> bool {
    let status = object.get("status");
    status.is_some_and(|status| has_condition(status, "Failed"))
}

/// Reports whether fewer replicas are ready than wanted. A health rule may not count replicas.
fn misses_replicas(object: &Value) -> bool {
    let number = |path: &str| object.pointer(path).and_then(Value::as_i64);
    let ready = number("/status/readyReplicas");
    let has_numbers = ready.is_some() || number("/status/replicas").is_some();
    has_numbers && number("/spec/replicas").is_some_and(|wanted| ready.unwrap_or(0) < wanted)
}

/// The result of a look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum LookResult {
    /// The problem, or `None` if there is none to report.
    Seen(Option<PodProblem>),
    /// The member does not allow it. The former report stays.
    Refused,
    /// The member did not respond. The former report stays.
    NoResponse,
}

/// Looks at the pods of an unhealthy workload.
pub(super) async fn look(member: &Client, workload: &Value, look: Look) -> LookResult {
    let request = pods(member, workload, PodLimit::AtMost(MAX_PODS));
    match tokio::time::timeout(TIMEOUT, request).await {
        Ok(Ok(pods)) => match problem(&pods, workload, look) {
            // The pods that are not listed may have the problem.
            None if u32::try_from(pods.len()).is_ok_and(|count| count >= MAX_PODS) => {
                LookResult::NoResponse
            }
            problem => LookResult::Seen(problem),
        },
        Ok(Err(MemberPodsError::Request(error))) if has_code(&error, 403) => LookResult::Refused,
        Ok(Err(_)) | Err(_) => LookResult::NoResponse,
    }
}

/// Returns the problem to report. Pods that start are no problem: the number of ready replicas tells enough.
fn problem(pods: &[Pod], workload: &Value, look: Look) -> Option<PodProblem> {
    workload_problem(pods, workload).filter(|found| match found.reason {
        Reason::Starting => false,
        Reason::NotReady => look != Look::First,
        _ => true,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_workload_that_stays_unhealthy_is_looked_at_after_growing_delays() {
        use WorkloadHealth::{Unhealthy, Unobserved, Well};
        let (mut schedule, start) = (LookSchedule::default(), Instant::now());
        let mut observe = |health, second: u64| {
            let now = start + Duration::from_secs(second);
            if schedule.queued.is_some_and(|queued| queued <= now) {
                assert_eq!(schedule.dequeued(now), None);
            }
            let look = schedule.next(now);
            let due = schedule.observe(health, now);
            (look, due.map(|due| due.duration_since(start).as_secs()))
        };
        let (no, yes) = (Unhealthy(Looked::No), Unhealthy(Looked::Yes));
        for (second, health, expected) in [
            (0, no, (Look::NotDue, Some(5))),
            (2, no, (Look::NotDue, None)),
            (5, yes, (Look::First, Some(20))),
            (20, yes, (Look::Again, Some(80))),
            // An outage of the member changes nothing.
            (60, Unobserved, (Look::NotDue, None)),
            // A run that fails queues no look, although one is due.
            (80, Unobserved, (Look::Again, None)),
            (85, yes, (Look::Again, Some(385))),
            // A short recovery does not begin the delays again.
            (100, Well, (Look::NotDue, None)),
            (110, no, (Look::NotDue, None)),
            (385, yes, (Look::Again, Some(685))),
            (685, Unhealthy(Looked::Refused), (Look::Again, Some(4285))),
            // The member still refuses when the workload recovers.
            (690, Well, (Look::NotDue, None)),
            (1500, no, (Look::NotDue, None)),
            (4200, Well, (Look::NotDue, None)),
            (5000, no, (Look::NotDue, Some(5005))),
        ] {
            assert_eq!(observe(health, second), expected, "{second} s");
        }
        schedule.restart();
        assert_eq!(schedule.next(start + MEMORY * 100), Look::NotDue);
    }

    #[test]
    fn a_look_is_queued_once() {
        let (mut schedule, start) = (LookSchedule::default(), Instant::now());
        let at = |second| start + Duration::from_secs(second);
        let no = WorkloadHealth::Unhealthy(Looked::No);
        assert_eq!(schedule.observe(no, at(0)), Some(at(5)));
        for second in 1..4 {
            let well = schedule.observe(WorkloadHealth::Well, at(second));
            assert_eq!((well, schedule.observe(no, at(second))), (None, None));
        }
        assert_eq!(schedule.dequeued(at(5)), Some(at(8)));
        assert_eq!(schedule.next(at(5)), Look::NotDue);
        assert_eq!(schedule.dequeued(at(8)), None);
        assert_eq!(schedule.next(at(8)), Look::First);
        // The Work has changed, so the next look comes before the queued look.
        let refused = WorkloadHealth::Unhealthy(Looked::Refused);
        let late = at(8) + DELAY_AFTER_REFUSAL;
        assert_eq!(schedule.observe(refused, at(8)), Some(late));
        schedule.restart();
        assert_eq!(schedule.observe(no, at(9)), Some(at(14)));
    }

    #[test]
    fn only_unhealthy_workloads_with_pods_are_looked_at() {
        let workload = |status: Value| {
            json!({ "spec": { "replicas": 2, "selector": { "matchLabels": { "app": "a" } },
                "template": { "spec": {} } }, "status": status })
        };
        let failed = json!({ "conditions": [{ "type": "Failed", "status": "True" }] });
        for (about, object, health, expected) in [
            ("unhealthy", workload(json!({})), "Unhealthy", true),
            (
                "healthy",
                workload(json!({ "readyReplicas": 2 })),
                "Healthy",
                false,
            ),
            (
                "replicas are missing",
                workload(json!({ "replicas": 2 })),
                "Healthy",
                true,
            ),
            ("without numbers", workload(json!({})), "Healthy", false),
            ("a failed Job", workload(failed), "Healthy", true),
            (
                "a Service",
                json!({ "spec": { "selector": { "app": "a" } } }),
                "Unhealthy",
                false,
            ),
        ] {
            let report = json!([{ "health": health, "identifier": { "ordinal": 1, "version": "v1",
                "kind": "K", "resource": "", "name": "n" } }]);
            let reports: Vec<ManifestStatus> = serde_json::from_value(report).unwrap();
            let objects = [None, Some(object)];
            let found = unhealthy_workload(&objects, &reports);
            assert_eq!(found.is_some(), expected, "{about}");
        }
    }

    #[test]
    fn pods_that_start_are_not_reported() {
        let pod =
            |status: Value| -> Pod { serde_json::from_value(json!({ "status": status })).unwrap() };
        let starting = pod(json!({ "phase": "Pending" }));
        let not_ready = pod(json!({ "phase": "Running" }));
        let failed = pod(json!({ "phase": "Failed" }));
        let quota = json!({ "status": { "conditions": [{ "type": "ReplicaFailure", "status": "True",
            "message": "exceeded quota" }] } });
        let none = json!({});
        for (about, pods, object, look, expected) in [
            ("none", vec![], &none, Look::First, None),
            ("starting", vec![&starting], &none, Look::Again, None),
            ("not ready yet", vec![&not_ready], &none, Look::First, None),
            (
                "still not ready",
                vec![&not_ready],
                &none,
                Look::Again,
                Some(Reason::NotReady),
            ),
            (
                "failed",
                vec![&starting, &failed],
                &none,
                Look::First,
                Some(Reason::PodsFailed),
            ),
            (
                "not created",
                vec![&starting],
                &quota,
                Look::First,
                Some(Reason::PodsNotCreated),
            ),
            (
                "pods come first",
                vec![&failed],
                &quota,
                Look::First,
                Some(Reason::PodsFailed),
            ),
        ] {
            let pods: Vec<Pod> = pods.into_iter().cloned().collect();
            let found = problem(&pods, object, look);
            assert_eq!(found.map(|found| found.reason), expected, "{about}");
        }
    }
}
