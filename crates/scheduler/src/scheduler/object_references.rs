//! ObjectReferences of a binding and of its template, for events.

use berth_api::{Binding, BindingKey};
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// Returns a reference to a binding.
pub(super) fn binding_reference(key: &BindingKey, metadata: &ObjectMeta) -> ObjectReference {
    key.reference(metadata.uid.clone(), metadata.resource_version.clone())
}

/// Returns a reference to the template of a binding.
pub(super) fn template_reference(binding: &Binding) -> ObjectReference {
    (&binding.spec.resource).into()
}
