//! ResourceBindings and ClusterResourceBindings as one type with one key.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use berth_api::binding::{BindingSpec, BindingStatus};
use berth_api::{ClusterResourceBinding, ResourceBinding};
use berth_core::{BindingName, BindingObject};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::lazy_object::LazyObject;

/// Key of a binding: a ResourceBinding if it has a namespace, otherwise a ClusterResourceBinding.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BindingKey {
    /// Namespace of a ResourceBinding.
    pub namespace: Option<Arc<str>>,
    /// Name.
    pub name: Arc<str>,
}

/// Key of the binding of an engine request.
impl From<&BindingName> for BindingKey {
    fn from(name: &BindingName) -> Self {
        Self {
            namespace: name.namespace.as_deref().map(Into::into),
            name: name.name.as_str().into(),
        }
    }
}

impl BindingKey {
    /// Returns the key of an object with this metadata.
    pub fn of(metadata: &ObjectMeta) -> Self {
        Self {
            namespace: metadata
                .namespace
                .as_deref()
                .filter(|namespace| !namespace.is_empty())
                .map(Arc::from),
            name: metadata.name.as_deref().unwrap_or_default().into(),
        }
    }

    /// Returns the kind of the object.
    pub fn kind(&self) -> &'static str {
        if self.namespace.is_some() {
            "ResourceBinding"
        } else {
            "ClusterResourceBinding"
        }
    }
}

impl fmt::Display for BindingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{namespace}/{}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

/// A ResourceBinding or ClusterResourceBinding.
#[derive(Clone, Debug)]
pub struct Binding {
    /// Key.
    pub key: BindingKey,
    /// Metadata without managed fields.
    pub metadata: ObjectMeta,
    /// Spec.
    pub spec: BindingSpec,
    /// Status; empty if the object has none.
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
        // Unused here, and two thirds of the memory of a typed object.
        metadata.managed_fields = None;
        // Normalized for the comparison with the applied placement, which Go has written.
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

    /// Reports whether this state is at least as new as the other one.
    ///
    /// Resource versions of a server are increasing decimal numbers. If one is not a number, `self` counts as
    /// newer, which costs at most one extra cycle.
    pub fn at_least_as_new_as(&self, other: &Self) -> bool {
        age(&self.metadata, &other.metadata).is_none_or(Ordering::is_ge)
    }
}

/// Compares the versions of two states of an object. Returns `None` if they are not comparable or belong to
/// different objects.
fn age(this: &ObjectMeta, other: &ObjectMeta) -> Option<Ordering> {
    if this.uid != other.uid {
        return None;
    }
    let version = |metadata: &ObjectMeta| metadata.resource_version.as_deref()?.parse::<u64>().ok();
    Some(version(this)?.cmp(&version(other)?))
}

/// A binding whose content is not decoded yet.
#[derive(Clone, Debug)]
pub enum RawBinding {
    /// A ResourceBinding.
    Namespaced(Box<LazyObject<ResourceBinding>>),
    /// A ClusterResourceBinding.
    ClusterScoped(Box<LazyObject<ClusterResourceBinding>>),
}

impl RawBinding {
    /// Returns the identity of the binding.
    pub fn metadata(&self) -> &ObjectMeta {
        match self {
            Self::Namespaced(object) => object.metadata(),
            Self::ClusterScoped(object) => object.metadata(),
        }
    }

    /// Reports whether it is no newer than `binding`, a state received from the server.
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
        Self::new(object.metadata, object.spec, object.status)
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
    fn only_newer_states_and_other_objects_are_new() {
        let known: ResourceBinding = serde_json::from_value(object("a", "9")).unwrap();
        let known = Binding::from(known);
        let cases = [
            ("a", "8", true),
            ("a", "9", true),
            // Compared as numbers: as strings, "10" is less than "9".
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
