//! The binding controller. It creates, updates and deletes the Works of a binding, one Work per target cluster.
//!
//! [`targets`] selects the clusters, [`migration`] decides how many replicas each of them gets now, [`desired_work`]
//! computes the content of a Work, and [`work_patch`] compares it with the stored Work. These four modules are pure.
//! [`sync`] sends the requests. This module must not depend on the module `execution`, which applies the Works in
//! members.

mod completions;
pub(crate) mod desired_work;
mod inject_preserved_state;
pub(crate) mod migration;
mod recorded_events;
pub(crate) mod sync;
pub(crate) mod sync_input;
pub(crate) mod targets;
pub(crate) mod work_patch;

use berth_api::well_known::{
    CLUSTER_RESOURCE_BINDING_NAME, POLICY_LIMITS, RESOURCE_BINDING_NAME,
    RESOURCE_BINDING_NAMESPACE, TRACEPARENT,
};
use berth_api::{Binding, BindingKey};
use kube::api::DynamicObject;

/// Decodes a binding. Only the annotations with the trace context and the limits of the policy are kept, because the index
/// holds all bindings.
///
/// # Errors
/// When spec or status are malformed.
pub(crate) fn decode(object: &DynamicObject) -> Result<Binding, serde_json::Error> {
    let mut binding = Binding::read(object)?;
    if let Some(annotations) = &mut binding.metadata.annotations {
        annotations.retain(|name, _| name == TRACEPARENT || POLICY_LIMITS.contains(&name.as_str()));
    }
    Ok(binding)
}

/// Returns the trace context of the binding's last change.
fn trace(binding: &Binding) -> Option<&String> {
    binding.metadata.annotations.as_ref()?.get(TRACEPARENT)
}

/// Returns the annotations of Works and manifests that refer to the binding.
fn back_pointers(key: &BindingKey) -> Vec<(&'static str, String)> {
    let name = key.name.to_string();
    match &key.namespace {
        Some(namespace) => vec![
            (RESOURCE_BINDING_NAMESPACE, namespace.to_string()),
            (RESOURCE_BINDING_NAME, name),
        ],
        None => vec![(CLUSTER_RESOURCE_BINDING_NAME, name)],
    }
}
