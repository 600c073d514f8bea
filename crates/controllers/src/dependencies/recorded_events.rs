//! The Kubernetes events that the distributor records, with Karmada's reasons and messages.

use berth_api::dependency::DependentObjectReference;
use berth_events::{Event, Severity};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::api::DynamicObject;

use super::record::BindingRecord;
use crate::object_reference::object_reference;

/// The name of this component in events.
pub(super) const COMPONENT: &str = "dependencies-distributor";

/// Reports the resolved dependencies of a template.
pub(super) fn resolved(
    template: &DynamicObject,
    dependencies: &[DependentObjectReference],
) -> Event {
    let list: Vec<String> = dependencies.iter().map(ToString::to_string).collect();
    Event {
        object: object_reference(template),
        severity: Severity::Normal,
        reason: "GetDependenciesSucceed",
        message: format!("Get dependencies([{}]) succeed.", list.join(" ")),
    }
}

/// Reports that a template cannot be interpreted.
pub(super) fn resolve_failed(template: &DynamicObject, error: &str) -> Event {
    Event {
        object: object_reference(template),
        severity: Severity::Warning,
        reason: "GetDependenciesFailed",
        message: error.to_owned(),
    }
}

/// Reports that the clusters of a binding were copied to its attached bindings.
pub(super) fn synced(binding: &BindingRecord) -> Event {
    Event {
        object: binding_reference(binding),
        severity: Severity::Normal,
        reason: "SyncScheduleResultToDependenciesSucceed",
        message: "Sync schedule results to dependencies succeed.".to_owned(),
    }
}

/// Reports that the clusters of a binding could not be copied to its attached bindings.
pub(super) fn sync_failed(binding: &BindingRecord, error: &str) -> Event {
    Event {
        object: binding_reference(binding),
        severity: Severity::Warning,
        reason: "SyncScheduleResultToDependenciesFailed",
        message: error.to_owned(),
    }
}

/// Reports that an attached binding gets conflicting settings from the bindings that depend on it.
pub(super) fn policy_conflict(attached: &BindingRecord, message: String) -> Event {
    Event {
        object: binding_reference(attached),
        severity: Severity::Warning,
        reason: "DependencyPolicyConflict",
        message,
    }
}

fn binding_reference(binding: &BindingRecord) -> ObjectReference {
    let (uid, version) = (binding.uid.clone(), binding.version.clone());
    binding.key.reference(Some(uid), Some(version))
}
