//! The computation of the next status of a Work from the observations of one reconciliation.

use berth_api::binding::ResourceHealth;
use berth_api::condition::{self, Status};
use berth_api::well_known::{CONDITION_APPLIED, CONDITION_DISPATCHING, CONDITION_HEALTHY};
use berth_api::work::{ManifestStatus, ResourceIdentifier, WorkStatus};
use berth_api::{Work, condition_message};
use berth_apimachinery::timestamp;
use berth_diagnosis::PodProblem;
use berth_interpreter::{InterpretError, Interpreter};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde_json::Value;

use super::drift_condition::set_drifted;
use super::manifest_outcome::ManifestOutcome;
use super::pod_looks::unhealthy_workload;
use super::removed_objects::{contains, identifier, is_same_object};

/// The outcome of applying a Work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ApplyOutcome {
    /// All manifests are applied.
    Succeeded,
    /// Some manifests are not applied.
    Failed {
        /// The number of applied manifests.
        done: usize,
        /// The errors of the other manifests.
        reasons: Vec<String>,
    },
    /// The Work is being deleted, and its objects could not be deleted, with the error.
    NotDeleted(String),
}

impl ApplyOutcome {
    /// Adds failures beside those of the manifests. `total` is the number of manifests.
    pub(crate) fn add_failures(&mut self, total: usize, failures: Vec<String>) {
        if failures.is_empty() {
            return;
        }
        match self {
            Self::Succeeded => {
                *self = Self::Failed {
                    done: total,
                    reasons: failures,
                };
            }
            Self::Failed { reasons, .. } => reasons.extend(failures),
            Self::NotDeleted(_) => {}
        }
    }
}

/// The observations of one reconciliation.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Observations {
    /// True if dispatching is active, and false if it is suspended. `None` keeps the stored condition.
    pub(crate) dispatching: Option<bool>,
    /// The outcome of applying the Work, or `None` if the Work was not applied.
    pub(crate) applied: Option<ApplyOutcome>,
    /// The outcome of each manifest. Empty if the Work was not applied.
    pub(crate) outcomes: Vec<ManifestOutcome>,
    /// The object of each manifest in the member, if known.
    pub(crate) objects: Vec<Option<Value>>,
    /// The objects that the Work no longer contains and that were removed from the member.
    pub(crate) removed: Vec<ResourceIdentifier>,
}

/// Reports whether the last application of a Work failed.
pub(crate) fn has_failed(work: &Work) -> bool {
    let status = work.status.as_ref();
    let applied = status.and_then(|status| condition::find(&status.conditions, CONDITION_APPLIED));
    applied.is_some_and(|applied| applied.status == "False")
}

/// Reports whether a Work's status contains an unhealthy object, such as a Deployment whose pods are not ready yet.
pub(crate) fn has_unhealthy_object(status: &WorkStatus) -> bool {
    let mut reports = status.manifest_statuses.iter();
    reports.any(|report| report.health == Some(ResourceHealth::Unhealthy))
}

/// The parts of a status that have changed.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each part of the status changes independently"
)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StatusChanges {
    /// True if the condition `Dispatching` changed.
    pub(crate) dispatching: bool,
    /// True if the condition `Applied` changed.
    pub(crate) applied: bool,
    /// True if the condition `Drifted` changed.
    pub(crate) drifted: bool,
    /// True if the reports about the objects changed.
    pub(crate) manifest_statuses: bool,
}

impl StatusChanges {
    /// Reports whether any part changed.
    pub(crate) fn any(self) -> bool {
        self.dispatching || self.applied || self.drifted || self.manifest_statuses
    }
}

/// An operation of the interpreter that failed for an object in a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FailedOperation {
    /// The selection of the status to report.
    Reflection,
    /// The interpretation of the health.
    Health,
}

/// A failed interpretation of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) operation: FailedOperation,
    pub(crate) message: String,
    /// True if the action is retried. A failed interpretation of the health is retried only if a webhook failed.
    pub(crate) is_retried: bool,
}

/// The next status of a Work.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct NextStatus {
    /// The status.
    pub(crate) status: WorkStatus,
    /// The changed parts of the status, except the condition `Healthy`.
    pub(crate) changes: StatusChanges,
    /// True if the condition `Healthy` changed.
    has_new_health: bool,
    /// The failed interpretations of objects.
    pub(crate) failures: Vec<Failure>,
}

impl NextStatus {
    /// Reports whether the status has to be written.
    pub(crate) fn has_changed(&self) -> bool {
        self.changes.any() || self.has_new_health
    }

    /// Sets the condition `Healthy` to the problem of the pods, or removes it. A Work has the condition only while a problem
    /// is known.
    pub(crate) fn set_problem(&mut self, problem: Option<&PodProblem>, cluster: &str) {
        let conditions = &mut self.status.conditions;
        let Some(problem) = problem else {
            let before = conditions.len();
            conditions.retain(|known| known.type_ != CONDITION_HEALTHY);
            self.has_new_health |= conditions.len() != before;
            return;
        };
        self.has_new_health |= condition::set(
            conditions,
            CONDITION_HEALTHY,
            Status::False,
            problem.reason.as_str(),
            &problem.in_cluster(cluster),
            timestamp::now(),
        );
    }

    /// Reports whether the objects must be interpreted again.
    pub(crate) fn must_retry(&self) -> bool {
        self.failures.iter().any(|failure| failure.is_retried)
    }

    /// Returns the messages of the failures.
    pub(crate) fn failure_messages(&self) -> Vec<String> {
        let messages = self.failures.iter().map(|failure| failure.message.clone());
        messages.collect()
    }
}

/// Computes the next status of a Work.
pub(crate) fn next_status(
    work: &Work,
    observations: &Observations,
    interpreter: &Interpreter,
) -> NextStatus {
    let mut status = work.status.clone().unwrap_or_default();
    let mut changes = StatusChanges::default();
    let conditions = &mut status.conditions;
    if let Some(dispatching) = observations.dispatching {
        changes.dispatching = set_dispatching(conditions, dispatching.into());
    }
    match &observations.applied {
        None => {}
        Some(ApplyOutcome::Succeeded) => {
            let message = "Manifest has been successfully applied";
            changes.applied = condition::set(
                conditions,
                CONDITION_APPLIED,
                Status::True,
                "AppliedSuccessful",
                message,
                timestamp::now(),
            );
        }
        Some(ApplyOutcome::Failed { done, reasons }) => {
            let total = work.spec.workload.manifests.len();
            let reasons = reasons.join("; ");
            let message = format!("Failed to apply all manifests ({done}/{total}): {reasons}");
            let message = condition_message::truncate(message);
            changes.applied = condition::set(
                conditions,
                CONDITION_APPLIED,
                Status::False,
                "AppliedFailed",
                &message,
                timestamp::now(),
            );
        }
        Some(ApplyOutcome::NotDeleted(reason)) => {
            let message =
                condition_message::truncate(format!("cannot delete the objects: {reason}"));
            changes.applied = condition::set(
                conditions,
                CONDITION_APPLIED,
                Status::False,
                "DeletionFailed",
                &message,
                timestamp::now(),
            );
        }
    }
    changes.drifted = set_drifted(conditions, work, &observations.outcomes);
    let mut reporter = Reporter {
        interpreter,
        old: &status.manifest_statuses,
        failures: Vec::new(),
    };
    let statuses: Vec<ManifestStatus> = observations
        .objects
        .iter()
        .enumerate()
        .zip(&work.spec.workload.manifests)
        .filter_map(|((ordinal, object), manifest)| {
            reporter.report(ordinal, manifest, object.as_ref()?)
        })
        .collect();
    let failures = reporter.failures;
    let has_observed = !statuses.is_empty();
    let next = next_statuses(
        work,
        &status.manifest_statuses,
        statuses,
        &observations.removed,
    );
    if next != status.manifest_statuses {
        status.manifest_statuses = next;
        changes.manifest_statuses = true;
    }
    let is_well = unhealthy_workload(&observations.objects, &status.manifest_statuses).is_none();
    let mut next = NextStatus {
        status,
        changes,
        has_new_health: false,
        failures,
    };
    if has_observed && is_well {
        next.set_problem(None, "");
    }
    next
}

/// Sets the condition `Dispatching`. Reports whether it changed.
fn set_dispatching(conditions: &mut Vec<Condition>, dispatching: Status) -> bool {
    let (reason, message) = if dispatching == Status::True {
        (
            "Dispatching",
            "Work is being dispatched to member clusters.",
        )
    } else {
        (
            "SuspendDispatching",
            "Work dispatching is in a suspended state.",
        )
    };
    let (kind, now) = (CONDITION_DISPATCHING, timestamp::now());
    condition::set(conditions, kind, dispatching, reason, message, now)
}

/// Returns the reports of the next status. Former reports are kept if there are no new reports. The reports about
/// objects that the Work no longer contains are kept until the objects are removed, because the next leader finds the
/// objects to remove in these reports.
fn next_statuses(
    work: &Work,
    old: &[ManifestStatus],
    new: Vec<ManifestStatus>,
    removed: &[ResourceIdentifier],
) -> Vec<ManifestStatus> {
    let is_removed = |report: &ManifestStatus| {
        let mut removed = removed.iter();
        removed.any(|object| is_same_object(object, &report.identifier))
    };
    let has_new = !new.is_empty();
    let kept = old
        .iter()
        .filter(|report| !is_removed(report) && (!has_new || !contains(work, &report.identifier)));
    let mut next = new;
    next.extend(kept.cloned());
    next
}

/// A builder of the reports about the objects of a Work.
struct Reporter<'a> {
    interpreter: &'a Interpreter,
    /// The former reports.
    old: &'a [ManifestStatus],
    failures: Vec<Failure>,
}

impl Reporter<'_> {
    /// Returns the report about an object. The report contains the name in the manifest, because a member may return
    /// another name. If the status cannot be interpreted, the former status is reported again.
    fn report(
        &mut self,
        ordinal: usize,
        manifest: &Value,
        object: &Value,
    ) -> Option<ManifestStatus> {
        let identifier = identifier(ordinal, manifest)?;
        let status = match self.interpreter.reflect(object) {
            Ok(status) => status,
            Err(error) => {
                self.fail(FailedOperation::Reflection, &identifier, &error);
                let mut old = self.old.iter();
                let old = old.find(|old| old.identifier == identifier);
                old.and_then(|old| old.status.clone())
            }
        };
        let health = match self.interpreter.is_healthy(object) {
            Ok(true) => ResourceHealth::Healthy,
            Ok(false) => ResourceHealth::Unhealthy,
            Err(error) => {
                self.fail(FailedOperation::Health, &identifier, &error);
                ResourceHealth::Unknown
            }
        };
        Some(ManifestStatus {
            identifier,
            status,
            health: Some(health),
        })
    }

    fn fail(
        &mut self,
        operation: FailedOperation,
        id: &ResourceIdentifier,
        error: &InterpretError,
    ) {
        let what = match operation {
            FailedOperation::Reflection => "reflect status for",
            FailedOperation::Health => "interpret health of",
        };
        self.failures.push(Failure {
            operation,
            is_retried: operation == FailedOperation::Reflection || error.is_temporary(),
            message: format!(
                "Failed to {what} object({}/{}/{}): {error}",
                id.kind, id.namespace, id.name
            ),
        });
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn work() -> Work {
        serde_json::from_value(
            json!({"metadata": {"name": "w"}, "spec": {"workload": {"manifests": [{}, {
                "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "n"}}]}}}),
        )
        .unwrap()
    }

    #[test]
    fn equal_observations_change_nothing() {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "of another", "namespace": "n"}});
        let observations = Observations {
            dispatching: Some(true),
            applied: Some(ApplyOutcome::Succeeded),
            objects: vec![None, Some(object)],
            ..Observations::default()
        };
        let mut work = work();
        let none = Interpreter::default();
        let NextStatus {
            status, changes, ..
        } = next_status(&work, &observations, &none);
        assert!(changes.dispatching && changes.applied && changes.manifest_statuses);
        assert_eq!(
            json!(status.manifest_statuses),
            json!([{"health": "Healthy", "identifier": {
            "ordinal": 1, "version": "v1", "kind": "ConfigMap", "resource": "", "namespace": "n", "name": "c"}}])
        );
        work.status = Some(status);
        assert!(!next_status(&work, &observations, &none).changes.any());
        let unknown = Observations {
            objects: vec![None, None],
            ..Observations::default()
        };
        assert!(!next_status(&work, &unknown, &none).changes.any());
    }

    #[test]
    fn a_problem_stays_until_the_workload_is_healthy() {
        let mut work: Work = serde_json::from_value(json!({"metadata": {"name": "w"},
            "spec": {"workload": {"manifests": [{"apiVersion": "apps/v1", "kind": "Deployment",
                "metadata": {"name": "web", "namespace": "n"}}]}}}))
        .unwrap();
        let deployment = |ready: i64| {
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "n"},
                "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": {"spec": {}}},
                "status": {"replicas": 1, "updatedReplicas": 1, "readyReplicas": ready, "availableReplicas": ready}})
        };
        let seen = |object: Option<Value>| Observations {
            objects: vec![object],
            ..Observations::default()
        };
        let none = Interpreter::default();
        let mut next = next_status(&work, &seen(Some(deployment(0))), &none);
        let problem = PodProblem {
            reason: berth_diagnosis::Reason::CrashLoopBackOff,
            pods: 1,
            total: 1,
            detail: "exit code 1".to_owned(),
        };
        next.set_problem(Some(&problem), "m1");
        assert_eq!(
            next.status.conditions[0].message,
            "1 of 1 pods crash in m1: exit code 1"
        );
        work.status = Some(next.status);
        for (about, object, changes, stays) in [
            ("not observed", None, false, true),
            ("still unhealthy", Some(deployment(0)), false, true),
            ("healthy", Some(deployment(1)), true, false),
        ] {
            let next = next_status(&work, &seen(object), &none);
            assert_eq!(next.has_changed(), changes, "{about}");
            let healthy = condition::find(&next.status.conditions, CONDITION_HEALTHY);
            assert_eq!(healthy.is_some(), stays, "{about}");
        }
    }

    #[test]
    fn a_report_about_an_object_that_left_the_work_stays_until_the_object_is_removed() {
        let mut work = work();
        let gone = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "gone", "namespace": "n"}});
        let gone = identifier(0, &gone).unwrap();
        work.status = Some(
            serde_json::from_value(json!({"manifestStatuses": [
                {"identifier": gone, "health": "Healthy"}]}))
            .unwrap(),
        );
        let none = Interpreter::default();
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "n"}});
        let names = |status: &WorkStatus| -> Vec<String> {
            let reports = status.manifest_statuses.iter();
            reports
                .map(|report| report.identifier.name.clone())
                .collect()
        };
        let mut observations = Observations {
            objects: vec![None, Some(object)],
            ..Observations::default()
        };
        assert_eq!(
            names(&next_status(&work, &observations, &none).status),
            ["c", "gone"]
        );
        observations.removed = vec![gone];
        assert_eq!(
            names(&next_status(&work, &observations, &none).status),
            ["c"]
        );
        observations.objects = vec![None, None];
        let next = next_status(&work, &observations, &none);
        assert!(names(&next.status).is_empty() && next.changes.manifest_statuses);
    }

    #[test]
    fn failures_report_the_count_and_the_reasons() {
        let observations = Observations {
            applied: Some(ApplyOutcome::Failed {
                done: 1,
                reasons: vec!["no".to_owned()],
            }),
            ..Observations::default()
        };
        let status = next_status(&work(), &observations, &Interpreter::default()).status;
        assert_eq!(
            status.conditions[0].message,
            "Failed to apply all manifests (1/2): no"
        );
        assert_eq!(status.conditions[0].reason, "AppliedFailed");
    }
}
