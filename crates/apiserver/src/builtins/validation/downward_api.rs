//! Validation of references to fields of a pod and to resources of a container.

use super::field::Field;
use super::rules::Check::OneOf;

/// Fields of a pod that can be referred to.
const FIELDS: [&str; 9] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];
/// Fields of a pod that only files of the downward API can refer to.
const MAPS: [&str; 2] = ["metadata.annotations", "metadata.labels"];
const RESOURCES: &[&str] = &[
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];

/// Checks a reference to a field of the pod.
pub(super) fn field_path(reference: &Field<'_>) {
    let path = reference.get("fieldPath");
    let keyed = path.text().strip_suffix("']");
    if path.is_empty() {
        path.required("");
    } else if let Some((map, _)) = keyed.and_then(|rest| rest.split_once("['")) {
        if !MAPS.contains(&map) {
            path.invalid("only labels and annotations have keys");
        }
    } else if !FIELDS.contains(&path.text()) && !MAPS.contains(&path.text()) {
        path.invalid("is not a field of pods that can be referred to");
    }
}

/// Checks a reference to a resource of a container.
pub(super) fn resource_field(reference: &Field<'_>) {
    let resource = reference.get("resource");
    if resource.is_empty() {
        resource.required("");
    } else if !resource.text().contains(".hugepages-") {
        OneOf(RESOURCES).apply(&resource);
    }
}
