//! The events that tell users what follows what, in Karmada's words.

use berth_api::dependency::DependentObjectReference;
use berth_events::{Happening, Severity};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::api::DynamicObject;

use super::record::Record;
use crate::object_reference::object_reference;

/// The component that events name.
pub(super) const COMPONENT: &str = "dependencies-distributor";

/// It was found out what a template names.
pub(super) fn explored(
    template: &DynamicObject,
    dependencies: &[DependentObjectReference],
) -> Happening {
    let list: Vec<String> = dependencies.iter().map(ToString::to_string).collect();
    Happening {
        object: object_reference(template),
        severity: Severity::Normal,
        reason: "GetDependenciesSucceed",
        message: format!("Get dependencies([{}]) succeed.", list.join(" ")),
    }
}

/// A template cannot be understood.
pub(super) fn not_explored(template: &DynamicObject, error: &str) -> Happening {
    Happening {
        object: object_reference(template),
        severity: Severity::Warning,
        reason: "GetDependenciesFailed",
        message: error.to_owned(),
    }
}

/// What follows a binding knows where it is.
pub(super) fn followed(binding: &Record) -> Happening {
    Happening {
        object: about(binding),
        severity: Severity::Normal,
        reason: "SyncScheduleResultToDependenciesSucceed",
        message: "Sync schedule results to dependencies succeed.".to_owned(),
    }
}

/// Something does not follow a binding.
pub(super) fn not_followed(binding: &Record, error: &str) -> Happening {
    Happening {
        object: about(binding),
        severity: Severity::Warning,
        reason: "SyncScheduleResultToDependenciesFailed",
        message: error.to_owned(),
    }
}

/// Those that a binding follows are not of one mind.
pub(super) fn conflicting(attached: &Record, message: String) -> Happening {
    Happening {
        object: about(attached),
        severity: Severity::Warning,
        reason: "DependencyPolicyConflict",
        message,
    }
}

fn about(binding: &Record) -> ObjectReference {
    ObjectReference {
        api_version: Some("work.karmada.io/v1alpha2".to_owned()),
        kind: Some("ResourceBinding".to_owned()),
        namespace: Some(binding.key.namespace.clone()),
        name: Some(binding.key.name.clone()),
        uid: Some(binding.uid.clone()),
        resource_version: Some(binding.version.clone()),
        field_path: None,
    }
}
