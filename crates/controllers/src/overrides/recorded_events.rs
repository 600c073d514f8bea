//! The Kubernetes events about override policies, with Karmada's reasons and messages.

use berth_events::{Event, EventRecorder, Severity};
use k8s_openapi::api::core::v1::ObjectReference;

use super::{AppliedOverrides, OverrideError, OverrideKind};

/// The name of the component in events. Karmada uses this name for overrides of templates and of Namespaces.
const COMPONENT: &str = "override-manager";

/// Records an event for each policy that was applied to a template for a cluster.
pub(crate) fn applied(
    events: &EventRecorder,
    template: &ObjectReference,
    cluster: &str,
    applied: &AppliedOverrides,
) {
    let events = events.of(COMPONENT);
    let record = |message| {
        events.record(Event {
            object: template.clone(),
            severity: Severity::Normal,
            reason: "ApplyOverridePolicySucceed",
            message,
        });
    };
    for name in &applied.cluster_names {
        record(format!(
            "Apply cluster override policy({name}) for cluster({cluster}) succeed."
        ));
    }
    let namespace = template.namespace.as_deref().unwrap_or_default();
    for name in &applied.namespaced_names {
        record(format!(
            "Apply override policy({namespace}/{name}) for cluster({cluster}) succeed."
        ));
    }
}

/// Records that a policy could not be applied to a template for a cluster.
pub(crate) fn failed(
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
    events.of(COMPONENT).record(Event {
        object: template.clone(),
        severity: Severity::Warning,
        reason: "ApplyOverridePolicyFailed",
        message: format!("Apply {policy} for cluster({cluster}) failed: {reason}"),
    });
}
