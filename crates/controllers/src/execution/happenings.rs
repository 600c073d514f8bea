//! The events that tell users how their Works, and the templates of these, fare: reasons and messages are Karmada's.

use berth_api::Work;
use berth_events::{EventRecorder, Happening, Severity};
use k8s_openapi::api::core::v1::ObjectReference;
use serde_json::Value;

use super::work_status::{Fate, Told};
use crate::condition;
use crate::interpreter::has_health;
use berth_api::binding::ResourceHealth;
use berth_api::well_known::{CONDITION_APPLIED, CONDITION_DISPATCHING, TEMPLATE_UID};
use berth_api::work::{ManifestStatus, WorkStatus};

/// Tells of what is new in the status of a Work.
pub(super) fn tell(
    events: &EventRecorder,
    work: &Work,
    cluster: &str,
    status: &WorkStatus,
    reasons: &str,
    told: Told,
) {
    let statuses = events.of("work-status-controller");
    let say_of = |events: &EventRecorder, severity, reason, message: String| {
        events.record(Happening {
            object: reference(work),
            severity,
            reason,
            message,
        });
    };
    let say = |severity, reason, message| say_of(events, severity, reason, message);
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
            let message =
                format!("Failed to sync work({title}) to cluster({cluster}), err: {reasons}");
            say(Severity::Warning, "SyncFailed", message);
        }
    }
    if told.reflected {
        for report in &status.manifest_statuses {
            let object = describe(report);
            say_of(
                &statuses,
                Severity::Normal,
                "ReflectStatusSucceed",
                format!("Reflect status for object({object}) succeed."),
            );
            let id = &report.identifier;
            if !has_health(&id.group, &id.version, &id.kind) {
                continue;
            }
            let health = if report.health == Some(ResourceHealth::Healthy) {
                "healthy"
            } else {
                "unhealthy"
            };
            say_of(
                &statuses,
                Severity::Normal,
                "InterpretHealthSucceed",
                format!("Interpret health of object({object}) as {health}."),
            );
        }
    }
}

/// Tells the templates of a Work what became of them in the member: that they were written there, or why not, if that
/// is new.
pub(super) fn tell_templates(
    events: &EventRecorder,
    manifests: &[Value],
    cluster: &str,
    fates: &[Fate],
    told: Told,
) {
    for (manifest, fate) in manifests.iter().zip(fates) {
        let Some(object) = template(manifest) else {
            continue;
        };
        let name = object.name.as_deref().unwrap_or_default();
        let namespace = object.namespace.as_deref();
        let (severity, reason, message) = match fate {
            Fate::Unchanged => continue,
            Fate::Failed(_) if !told.applied => continue,
            Fate::Written => (
                Severity::Normal,
                "SyncSucceed",
                format!(
                    "Successfully applied resource({}/{name}) to cluster {cluster}",
                    namespace.unwrap_or_default()
                ),
            ),
            Fate::Failed(why) => (
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
        events.record(Happening {
            object,
            severity,
            reason,
            message,
        });
    }
}

/// The template that a manifest was made from, if it says so.
fn template(manifest: &Value) -> Option<ObjectReference> {
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
