//! The type [`Binding`], which represents a ResourceBinding or a ClusterResourceBinding.
//!
//! [`RawBinding`] is a binding from a watch event or a list. It is decoded on demand.

use std::cmp::Ordering;

use berth_api::binding::{BindingSpec, BindingStatus};
use berth_api::{BindingKey, ClusterResourceBinding, ResourceBinding};
use berth_core::BindingObject;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::lazy_object::LazyObject;

/// A ResourceBinding or ClusterResourceBinding.
#[derive(Clone, Debug)]
pub struct Binding {
    /// Key of the binding.
    pub key: BindingKey,
    /// Metadata without managed fields.
    pub metadata: ObjectMeta,
    /// Spec of the binding.
    pub spec: BindingSpec,
    /// Status of the binding, or the default status if the object has no status.
    pub status: BindingStatus,
}

impl BindingObject for Binding {
    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn spec(&self) -> &BindingSpec {
        &self.spec
    }
}

impl Binding {
    fn new(mut metadata: ObjectMeta, mut spec: BindingSpec, status: Option<BindingStatus>) -> Self {
        // The scheduler does not use managed fields, and they take two thirds of the memory of a typed object.
        metadata.managed_fields = None;
        // The scheduler compares the placement with the applied-placement annotation. Karmada, which is written in Go,
        // omits empty strings in this annotation.
        if let Some(placement) = &mut spec.placement {
            placement.drop_empty_strings();
        }
        Self {
            key: BindingKey::of(&metadata),
            metadata,
            spec,
            status: status.unwrap_or_default(),
        }
    }

    /// Returns `metadata.generation`, or 0 if it is not set.
    pub fn generation(&self) -> i64 {
        self.metadata.generation.unwrap_or(0)
    }

    /// Returns `metadata.resourceVersion`, or an empty string if it is not set.
    pub fn resource_version(&self) -> &str {
        self.metadata
            .resource_version
            .as_deref()
            .unwrap_or_default()
    }

    /// Reports whether the object is being deleted.
    pub fn deleting(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    /// Returns the value of an annotation, or an empty string if it is missing.
    pub fn annotation(&self, name: &str) -> &str {
        self.metadata
            .annotations
            .as_ref()
            .and_then(|annotations| annotations.get(name))
            .map_or("", String::as_str)
    }

    /// Reports whether this state of a binding is at least as new as the state `other`.
    ///
    /// Resource versions are increasing decimal numbers. If a resource version is not a number, or the UIDs differ,
    /// `self` counts as newer. A wrong result costs at most one unnecessary scheduling cycle.
    pub fn at_least_as_new_as(&self, other: &Self) -> bool {
        age(&self.metadata, &other.metadata).is_none_or(Ordering::is_ge)
    }
}

/// Compares the resource versions of two states of an object. Returns `None` if a resource version is not a number, or
/// if the states belong to different objects.
fn age(this: &ObjectMeta, other: &ObjectMeta) -> Option<Ordering> {
    if this.uid != other.uid {
        return None;
    }
    let version = |metadata: &ObjectMeta| metadata.resource_version.as_deref()?.parse::<u64>().ok();
    Some(version(this)?.cmp(&version(other)?))
}

/// A binding whose spec and status are not decoded yet.
#[derive(Clone, Debug)]
pub enum RawBinding {
    /// A ResourceBinding.
    Namespaced(Box<LazyObject<ResourceBinding>>),
    /// A ClusterResourceBinding.
    ClusterScoped(Box<LazyObject<ClusterResourceBinding>>),
}

impl RawBinding {
    /// Returns the name, namespace, UID, resource version and generation of the binding.
    pub fn metadata(&self) -> &ObjectMeta {
        match self {
            Self::Namespaced(object) => object.metadata(),
            Self::ClusterScoped(object) => object.metadata(),
        }
    }

    /// Reports whether `binding` is a state of the same object and at least as new as this state.
    pub fn is_outdated_by(&self, binding: &Binding) -> bool {
        age(self.metadata(), &binding.metadata).is_some_and(Ordering::is_le)
    }

    /// Decodes the binding.
    ///
    /// # Errors
    /// When the object is malformed.
    pub fn decode(&self) -> Result<Binding, serde_json::Error> {
        match self {
            Self::Namespaced(object) => object.decode().map(Into::into),
            Self::ClusterScoped(object) => object.decode().map(Into::into),
        }
    }
}

impl From<ResourceBinding> for Binding {
    fn from(object: ResourceBinding) -> Self {
        Self::new(object.metadata, object.spec, object.status)
    }
}

impl From<ClusterResourceBinding> for Binding {
    fn from(object: ClusterResourceBinding) -> Self {
        Self::new(object.metadata, object.spec.0, object.status)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(uid: &str, version: &str) -> serde_json::Value {
        json!({
            "metadata": { "name": "b", "namespace": "n", "uid": uid, "resourceVersion": version },
            "spec": { "resource": { "apiVersion": "v1", "kind": "ConfigMap", "name": "c" } },
        })
    }

    #[test]
    fn equal_and_older_states_of_the_same_object_are_outdated() {
        let known: ResourceBinding = serde_json::from_value(object("a", "9")).unwrap();
        let known = Binding::from(known);
        let cases = [
            ("a", "8", true),
            ("a", "9", true),
            // Resource versions are compared as numbers. As strings, "10" would be less than "9".
            ("a", "10", false),
            ("b", "1", false),
            ("a", "not a number", false),
        ];
        for (uid, version, is_outdated) in cases {
            let bytes = object(uid, version).to_string();
            let raw = RawBinding::Namespaced(Box::new(serde_json::from_str(&bytes).unwrap()));
            assert_eq!(raw.is_outdated_by(&known), is_outdated, "{uid} {version}");
            assert_eq!(raw.decode().unwrap().resource_version(), version);
        }
    }
}
