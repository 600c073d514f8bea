//! The Kubernetes events about the Works of a binding, with Karmada's reasons and messages.

use berth_api::{Binding, BindingKind};
use berth_events::{Event, EventRecorder, Severity};
use k8s_openapi::api::core::v1::ObjectReference;

/// Returns the name of the Karmada controller that writes the Works of bindings of this kind.
fn component(binding: &Binding) -> &'static str {
    match binding.key.kind() {
        BindingKind::Namespaced => "binding-controller",
        BindingKind::Cluster => "cluster-resource-binding-controller",
    }
}

/// Records an event about the template: the Works were written. The same event about the binding is a routine.
pub(super) fn works_synced(events: &EventRecorder, binding: &Binding, template: &ObjectReference) {
    let message = format!("Sync work of {} successful.", binding.title());
    let events = events.of(component(binding));
    let event = |object| Event {
        object,
        severity: Severity::Normal,
        reason: "SyncWorkSucceed",
        message: message.clone(),
    };
    events.record_routine(event(binding.reference()));
    events.record(event(template.clone()));
}

/// Records an event about the binding and its template: the Works could not be written.
pub(super) fn sync_failed(
    events: &EventRecorder,
    binding: &Binding,
    template: &ObjectReference,
    error: &str,
) {
    let (severity, reason) = (Severity::Warning, "SyncWorkFailed");
    record_on_both(events, binding, template, severity, reason, error);
}

/// Records an event about the binding and its template: no cluster has some completions of the Job.
pub(super) fn completions_missing(
    events: &EventRecorder,
    binding: &Binding,
    template: &ObjectReference,
    missing: i64,
) {
    let message = format!(
        "{missing} completions of the Job are in no cluster, because the Jobs that exist keep their completions; to run \
        all completions, delete the Job and create it again"
    );
    let (severity, reason) = (Severity::Warning, "CompletionsMissing");
    record_on_both(events, binding, template, severity, reason, &message);
}

fn record_on_both(
    events: &EventRecorder,
    binding: &Binding,
    template: &ObjectReference,
    severity: Severity,
    reason: &'static str,
    message: &str,
) {
    let events = events.of(component(binding));
    for object in [binding.reference(), template.clone()] {
        events.record(Event {
            object,
            severity,
            reason,
            message: message.to_owned(),
        });
    }
}

/// Records that the Works of former target clusters could not be deleted.
pub(super) fn cleanup_failed(events: &EventRecorder, binding: &Binding, error: &str) {
    events.of(component(binding)).record(Event {
        object: binding.reference(),
        severity: Severity::Warning,
        reason: "CleanupWorkFailed",
        message: error.to_owned(),
    });
}
