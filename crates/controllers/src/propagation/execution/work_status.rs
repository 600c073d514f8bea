//! The computation of the next status of a Work from the observations of one reconciliation.

use berth_api::binding::ResourceHealth;
use berth_api::well_known::{CONDITION_APPLIED, CONDITION_DISPATCHING};
use berth_api::work::{ManifestStatus, ResourceIdentifier, WorkStatus};
use berth_api::{Work, condition_message};
use berth_interpreter::{InterpretError, Interpreter};
use serde_json::Value;

use crate::condition;
use berth_apimachinery::json_fields::{kind_of, text_at};

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
}

/// The outcome of applying one manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ManifestOutcome {
    /// The object was up to date.
    Unchanged,
    /// The object was written.
    Written,
    /// The object could not be written, with the error.
    Failed(String),
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
}

/// The parts of a status that have changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StatusChanges {
    /// True if the condition `Dispatching` changed.
    pub(crate) dispatching: bool,
    /// True if the condition `Applied` changed.
    pub(crate) applied: bool,
    /// True if the reports about the objects changed.
    pub(crate) manifest_statuses: bool,
}

impl StatusChanges {
    /// Reports whether any part changed.
    pub(crate) fn any(self) -> bool {
        self.dispatching || self.applied || self.manifest_statuses
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
    /// The changed parts of the status.
    pub(crate) changes: StatusChanges,
    /// The failed interpretations of objects.
    pub(crate) failures: Vec<Failure>,
}

impl NextStatus {
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
        let (reason, message) = if dispatching {
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
        changes.dispatching = condition::set(
            conditions,
            CONDITION_DISPATCHING,
            dispatching,
            reason,
            message,
        );
    }
    match &observations.applied {
        None => {}
        Some(ApplyOutcome::Succeeded) => {
            let message = "Manifest has been successfully applied";
            changes.applied = condition::set(
                conditions,
                CONDITION_APPLIED,
                true,
                "AppliedSuccessful",
                message,
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
                false,
                "AppliedFailed",
                &message,
            );
        }
    }
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
    if !statuses.is_empty() && statuses != status.manifest_statuses {
        status.manifest_statuses = statuses;
        changes.manifest_statuses = true;
    }
    NextStatus {
        status,
        changes,
        failures,
    }
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
        let (api_version, kind) = kind_of(manifest);
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let identifier = ResourceIdentifier {
            ordinal: i64::try_from(ordinal).ok()?,
            group: group.to_owned(),
            version: version.to_owned(),
            kind: kind.to_owned(),
            resource: String::new(),
            namespace: text_at(manifest, "/metadata/namespace").to_owned(),
            name: text_at(manifest, "/metadata/name").to_owned(),
        };
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
            is_retried: operation == FailedOperation::Reflection || error.is_of_webhook(),
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
