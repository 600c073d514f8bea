//! The Kubernetes events about Works and their templates, with Karmada's reasons and messages.

use berth_api::binding::ResourceHealth;
use berth_api::well_known::{
    CONDITION_APPLIED, CONDITION_DISPATCHING, RETAIN_REPLICAS, TEMPLATE_UID,
};
use berth_api::work::{ManifestStatus, ResourceIdentifier, WorkStatus};
use berth_api::{Work, condition};
use berth_events::{Event, EventRecorder, Severity};
use k8s_openapi::api::core::v1::ObjectReference;
use serde_json::Value;

use super::manifest_outcome::ManifestOutcome;
use super::object_cache::RevertedScale;
use super::work_status::{FailedOperation, Failure, StatusChanges, has_failed};

/// Records events about the changes in the status of a Work.
pub(super) fn record_work(
    events: &EventRecorder,
    work: &Work,
    cluster: &str,
    status: &WorkStatus,
    reasons: &str,
    changes: StatusChanges,
    has_health: impl Fn(&str, &str) -> bool,
) {
    let status_events = events.of("work-status-controller");
    let event = |severity, reason, message: String| Event {
        object: work_reference(work),
        severity,
        reason,
        message,
    };
    let title = format!(
        "{}/{}",
        work.metadata.namespace.as_deref().unwrap_or_default(),
        work.metadata.name.as_deref().unwrap_or_default()
    );
    if changes.dispatching
        && let Some(dispatching) = condition::find(&status.conditions, CONDITION_DISPATCHING)
    {
        let message = dispatching.message.clone();
        let dispatched = event(Severity::Normal, "WorkDispatching", message);
        if dispatching.status == "True" {
            events.record_routine(dispatched);
        } else {
            events.record(dispatched);
        }
    }
    if changes.applied
        && let Some(applied) = condition::find(&status.conditions, CONDITION_APPLIED)
    {
        if applied.status == "True" {
            let message = format!("Sync work({title}) to cluster({cluster}) successful.");
            let synced = event(Severity::Normal, "SyncSucceed", message);
            if has_failed(work) {
                events.record(synced);
            } else {
                events.record_routine(synced);
            }
        } else {
            let message =
                format!("Failed to sync work({title}) to cluster({cluster}), err: {reasons}");
            events.record(event(Severity::Warning, "SyncFailed", message));
        }
    }
    if changes.manifest_statuses {
        for report in &status.manifest_statuses {
            let object = object_name(report);
            let message = format!("Reflect status for object({object}) succeed.");
            status_events.record_routine(event(Severity::Normal, "ReflectStatusSucceed", message));
            let id = &report.identifier;
            if !has_health(&api_version(id), &id.kind) || is_unknown(report) {
                continue;
            }
            let health = if report.health == Some(ResourceHealth::Healthy) {
                "healthy"
            } else {
                "unhealthy"
            };
            let message = format!("Interpret health of object({object}) as {health}.");
            status_events.record_routine(event(
                Severity::Normal,
                "InterpretHealthSucceed",
                message,
            ));
        }
    }
}

/// Records an event for each object of a Work that could not be interpreted.
pub(super) fn record_failures(events: &EventRecorder, work: &Work, failures: &[Failure]) {
    let events = events.of("work-status-controller");
    for failure in failures {
        events.record(Event {
            object: work_reference(work),
            severity: Severity::Warning,
            reason: match failure.operation {
                FailedOperation::Reflection => "ReflectStatusFailed",
                FailedOperation::Health => "InterpretHealthFailed",
            },
            message: failure.message.clone(),
        });
    }
}

fn api_version(id: &ResourceIdentifier) -> String {
    if id.group.is_empty() {
        id.version.clone()
    } else {
        format!("{}/{}", id.group, id.version)
    }
}

fn is_unknown(report: &ManifestStatus) -> bool {
    report.health == Some(ResourceHealth::Unknown)
}

/// Records an event for each template of a Work that was written to the member or could not be written. A failure is
/// recorded only if the condition `Applied` changed. A success is a routine unless it follows a failure.
pub(super) fn record_templates(
    events: &EventRecorder,
    work: &Work,
    cluster: &str,
    outcomes: &[ManifestOutcome],
    changes: StatusChanges,
) {
    for (manifest, outcome) in work.spec.workload.manifests.iter().zip(outcomes) {
        let Some(object) = template_reference(manifest) else {
            continue;
        };
        let name = object.name.as_deref().unwrap_or_default();
        let namespace = object.namespace.as_deref();
        let (severity, reason, message) = match outcome {
            ManifestOutcome::Unchanged
            | ManifestOutcome::Terminating
            | ManifestOutcome::Drifted(_) => continue,
            ManifestOutcome::Failed(_) if !changes.applied => continue,
            ManifestOutcome::Written { .. } => (
                Severity::Normal,
                "SyncSucceed",
                format!(
                    "Successfully applied resource({}/{name}) to cluster {cluster}",
                    namespace.unwrap_or_default()
                ),
            ),
            ManifestOutcome::Failed(why) => (
                Severity::Warning,
                "SyncFailed",
                format!(
                    "Failed to create or update resource({}) in member cluster({cluster}): {why}",
                    namespace.map_or_else(
                        || name.to_owned(),
                        |namespace| format!("{namespace}/{name}")
                    )
                ),
            ),
        };
        if let ManifestOutcome::Written {
            reverted: Some(reverted),
            ..
        } = outcome
        {
            events.record(Event {
                object: object.clone(),
                severity: Severity::Warning,
                reason: "ReplicasReverted",
                message: describe_reverted_scale(reverted, cluster),
            });
        }
        let event = Event {
            object,
            severity,
            reason,
            message,
        };
        if severity == Severity::Warning || has_failed(work) {
            events.record(event);
        } else {
            events.record_routine(event);
        }
    }
}

fn describe_reverted_scale(reverted: &RevertedScale, cluster: &str) -> String {
    let RevertedScale { manager, from, to } = reverted;
    let client = if manager == "kube-controller-manager" {
        "an autoscaler"
    } else {
        manager
    };
    format!(
        "{client} in the cluster {cluster} set {from} replicas, which were set back to {to}; to keep the replicas of members, set the label {RETAIN_REPLICAS}=true on the template, or propagate the HorizontalPodAutoscaler and start the controllers with --controllers=*,hpaScaleTargetMarker"
    )
}

/// Returns a reference to the template of a manifest, or `None` if the manifest lacks the template's UID.
pub(super) fn template_reference(manifest: &Value) -> Option<ObjectReference> {
    let text = |from: Option<&Value>| from.and_then(Value::as_str).map(str::to_owned);
    let metadata = manifest.get("metadata")?;
    let uid = text(metadata.get("annotations")?.get(TEMPLATE_UID));
    Some(ObjectReference {
        api_version: text(manifest.get("apiVersion")),
        kind: text(manifest.get("kind")),
        namespace: text(metadata.get("namespace")),
        name: text(metadata.get("name")),
        uid: Some(uid.filter(|uid| !uid.is_empty())?),
        ..ObjectReference::default()
    })
}

fn object_name(report: &ManifestStatus) -> String {
    let id = &report.identifier;
    format!("{}/{}/{}", id.kind, id.namespace, id.name)
}

pub(super) fn work_reference(work: &Work) -> ObjectReference {
    let meta = &work.metadata;
    ObjectReference {
        api_version: Some("work.karmada.io/v1alpha1".to_owned()),
        kind: Some("Work".to_owned()),
        namespace: meta.namespace.clone(),
        name: meta.name.clone(),
        uid: meta.uid.clone(),
        resource_version: meta.resource_version.clone(),
        field_path: None,
    }
}
