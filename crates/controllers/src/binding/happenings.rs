//! The events that tell users how their resources became Works.

use berth_events::{EventRecorder, Happening, Severity};
use k8s_openapi::api::core::v1::ObjectReference;

use super::record::Binding;
use crate::overrides::Applied;

/// Works were written; told on the binding and on the template.
pub(super) fn synced(events: &EventRecorder, binding: &Binding, template: &ObjectReference) {
    let message = format!("Sync work of {} successful.", binding.title());
    for object in [binding.reference(), template.clone()] {
        events.record(Happening {
            object,
            severity: Severity::Normal,
            reason: "SyncWorkSucceed",
            message: message.clone(),
        });
    }
}

/// Works could not be written.
pub(super) fn not_synced(
    events: &EventRecorder,
    binding: &Binding,
    template: &ObjectReference,
    error: &str,
) {
    for object in [binding.reference(), template.clone()] {
        events.record(Happening {
            object,
            severity: Severity::Warning,
            reason: "SyncWorkFailed",
            message: error.to_owned(),
        });
    }
}

/// Works of clusters that the resource has left could not be deleted.
pub(super) fn not_cleaned(events: &EventRecorder, binding: &Binding, error: &str) {
    events.record(Happening {
        object: binding.reference(),
        severity: Severity::Warning,
        reason: "CleanupWorkFailed",
        message: error.to_owned(),
    });
}

/// Override policies were applied for a cluster.
pub(super) fn overridden(
    events: &EventRecorder,
    template: &ObjectReference,
    cluster: &str,
    applied: &Applied,
) {
    let told = |message| {
        events.record(Happening {
            object: template.clone(),
            severity: Severity::Normal,
            reason: "ApplyOverridePolicySucceed",
            message,
        });
    };
    for name in &applied.cluster_names {
        told(format!(
            "Apply cluster override policy({name}) for cluster({cluster}) succeed."
        ));
    }
    let namespace = template.namespace.as_deref().unwrap_or_default();
    for name in &applied.namespaced_names {
        told(format!(
            "Apply override policy({namespace}/{name}) for cluster({cluster}) succeed."
        ));
    }
}

/// Override policies could not be applied.
pub(super) fn not_overridden(
    events: &EventRecorder,
    template: &ObjectReference,
    cluster: &str,
    error: &str,
) {
    events.record(Happening {
        object: template.clone(),
        severity: Severity::Warning,
        reason: "ApplyOverridePolicyFailed",
        message: format!("cluster({cluster}): {error}"),
    });
}
