//! The events that tell users how their resources became Works.

use berth_events::{EventRecorder, Happening, Severity};
use k8s_openapi::api::core::v1::ObjectReference;

use super::record::Binding;
use crate::binding_key::BindingKind;
use crate::overrides::{Applied, OverrideError, OverrideKind};

/// Who tells of overrides, also of those of namespaces.
const OVERRIDES: &str = "override-manager";

/// Who tells of a binding: Karmada has a controller for each of the kinds.
fn component(binding: &Binding) -> &'static str {
    match binding.kind() {
        BindingKind::Namespaced => "binding-controller",
        BindingKind::Cluster => "cluster-resource-binding-controller",
    }
}

/// Works were written; told on the binding and on the template.
pub(super) fn synced(events: &EventRecorder, binding: &Binding, template: &ObjectReference) {
    let events = events.of(component(binding));
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
    let events = events.of(component(binding));
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
    events.of(component(binding)).record(Happening {
        object: binding.reference(),
        severity: Severity::Warning,
        reason: "CleanupWorkFailed",
        message: error.to_owned(),
    });
}

/// Override policies were applied for a cluster.
pub(crate) fn overridden(
    events: &EventRecorder,
    template: &ObjectReference,
    cluster: &str,
    applied: &Applied,
) {
    let events = events.of(OVERRIDES);
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

/// An override policy could not be applied.
pub(crate) fn not_overridden(
    events: &EventRecorder,
    template: &ObjectReference,
    cluster: &str,
    error: &OverrideError,
) {
    let OverrideError {
        kind,
        policy,
        reason,
    } = error;
    let policy = match kind {
        OverrideKind::Cluster => format!("cluster override policy({policy})"),
        OverrideKind::Namespaced => {
            let namespace = template.namespace.as_deref().unwrap_or_default();
            format!("override policy({namespace}/{policy})")
        }
    };
    events.of(OVERRIDES).record(Happening {
        object: template.clone(),
        severity: Severity::Warning,
        reason: "ApplyOverridePolicyFailed",
        message: format!("Apply {policy} for cluster({cluster}) failed: {reason}"),
    });
}
