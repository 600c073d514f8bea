//! ObjectReferences of a binding and of its template, for events.

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::binding::{Binding, BindingKey};

/// Returns a reference to a binding.
pub(super) fn binding_reference(key: &BindingKey, metadata: &ObjectMeta) -> ObjectReference {
    ObjectReference {
        api_version: Some("work.karmada.io/v1alpha2".into()),
        kind: Some(key.kind().into()),
        namespace: key.namespace.as_deref().map(Into::into),
        name: Some(key.name.to_string()),
        uid: metadata.uid.clone(),
        resource_version: metadata.resource_version.clone(),
        field_path: None,
    }
}

/// Returns a reference to the template of a binding.
pub(super) fn template_reference(binding: &Binding) -> ObjectReference {
    (&binding.spec.resource).into()
}
