//! The events that tell users how their Works fare: reasons and messages are Karmada's.

use berth_api::Work;
use berth_events::{EventRecorder, Happening, Severity};
use k8s_openapi::api::core::v1::ObjectReference;

use super::work_status::Told;
use crate::condition;
use berth_api::binding::ResourceHealth;
use berth_api::well_known::{CONDITION_APPLIED, CONDITION_DISPATCHING};
use berth_api::work::{ManifestStatus, WorkStatus};

/// Tells of what is new in the status of a Work.
pub(super) fn tell(
    events: &EventRecorder,
    work: &Work,
    cluster: &str,
    status: &WorkStatus,
    told: Told,
) {
    let say = |severity, reason, message: String| {
        events.record(Happening {
            object: reference(work),
            severity,
            reason,
            message,
        });
    };
    let title = format!(
        "{}/{}",
        work.metadata.namespace.as_deref().unwrap_or_default(),
        work.metadata.name.as_deref().unwrap_or_default()
    );
    if told.dispatching
        && let Some(dispatching) = condition::find(&status.conditions, CONDITION_DISPATCHING)
    {
        say(
            Severity::Normal,
            "WorkDispatching",
            dispatching.message.clone(),
        );
    }
    if told.applied
        && let Some(applied) = condition::find(&status.conditions, CONDITION_APPLIED)
    {
        if applied.status == "True" {
            let message = format!("Sync work({title}) to cluster({cluster}) successful.");
            say(Severity::Normal, "SyncSucceed", message);
        } else {
            let message = format!(
                "Failed to sync work({title}) to cluster({cluster}), err: {}",
                applied.message
            );
            say(Severity::Warning, "SyncFailed", message);
        }
    }
    if told.reflected {
        for report in &status.manifest_statuses {
            let object = describe(report);
            say(
                Severity::Normal,
                "ReflectStatusSucceed",
                format!("Reflect status for object({object}) succeed."),
            );
            let health = if report.health == Some(ResourceHealth::Healthy) {
                "healthy"
            } else {
                "unhealthy"
            };
            say(
                Severity::Normal,
                "InterpretHealthSucceed",
                format!("Interpret health of object({object}) as {health}."),
            );
        }
    }
}

fn describe(report: &ManifestStatus) -> String {
    let id = &report.identifier;
    format!("{}/{}/{}", id.kind, id.namespace, id.name)
}

fn reference(work: &Work) -> ObjectReference {
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
