//! The ObjectReference of a dynamic object, for events.

use k8s_openapi::api::core::v1::ObjectReference;
use kube::api::DynamicObject;

/// Returns a reference to the version of an object that the caller has read.
pub(crate) fn object_reference(object: &DynamicObject) -> ObjectReference {
    let (types, meta) = (object.types.as_ref(), &object.metadata);
    ObjectReference {
        api_version: types.map(|types| types.api_version.clone()),
        kind: types.map(|types| types.kind.clone()),
        namespace: meta.namespace.clone(),
        name: meta.name.clone(),
        uid: meta.uid.clone(),
        resource_version: meta.resource_version.clone(),
        field_path: None,
    }
}
