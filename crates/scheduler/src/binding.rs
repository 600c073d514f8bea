//! Bindings as the service holds them: both kinds in one shape, named by one key.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use berth_api::binding::{BindingSpec, BindingStatus};
use berth_api::{ClusterResourceBinding, ResourceBinding};
use berth_core::{BindingName, BindingObject};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::guard::Guarded;

/// Names a binding: with a namespace it is a ResourceBinding, without one a ClusterResourceBinding.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BindingKey {
    /// The namespace of a ResourceBinding.
    pub namespace: Option<Arc<str>>,
    /// The name.
    pub name: Arc<str>,
}

/// The key of what a request is about.
impl From<&BindingName> for BindingKey {
    fn from(name: &BindingName) -> Self {
        Self {
            namespace: name.namespace.as_deref().map(Into::into),
            name: name.name.as_str().into(),
        }
    }
}

impl BindingKey {
    /// The key of an object with this metadata.
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

    /// The kind of the object named.
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
    /// Its key.
    pub key: BindingKey,
    /// Its metadata, without managed fields.
    pub metadata: ObjectMeta,
    /// Its spec.
    pub spec: BindingSpec,
    /// Its status; empty where the object has none.
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
        // Nobody here reads them, and they are two thirds of the memory of a typed object.
        metadata.managed_fields = None;
        // It is compared with the applied placement, which Go has written.
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

    /// `metadata.generation`, 0 where the server sets none.
    pub fn generation(&self) -> i64 {
        self.metadata.generation.unwrap_or(0)
    }

    /// `metadata.resourceVersion`, empty where there is none.
    pub fn resource_version(&self) -> &str {
        self.metadata
            .resource_version
            .as_deref()
            .unwrap_or_default()
    }

    /// Whether the object is being deleted.
    pub fn deleting(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    /// An annotation; empty where it is missing.
    pub fn annotation(&self, name: &str) -> &str {
        self.metadata
            .annotations
            .as_ref()
            .and_then(|annotations| annotations.get(name))
            .map_or("", String::as_str)
    }

    /// Whether this object is at least as new as the other one.
    ///
    /// Resource versions of one server are increasing decimal numbers; where one is not, the newcomer
    /// counts as newer, which costs at most one more cycle.
    pub fn at_least_as_new_as(&self, other: &Self) -> bool {
        age(&self.metadata, &other.metadata).is_none_or(Ordering::is_ge)
    }
}

/// How the version of an object compares with that of another state of the same object; `None` where nobody
/// can tell, or where it is another object of the same name.
fn age(this: &ObjectMeta, other: &ObjectMeta) -> Option<Ordering> {
    if this.uid != other.uid {
        return None;
    }
    let version = |metadata: &ObjectMeta| metadata.resource_version.as_deref()?.parse::<u64>().ok();
    Some(version(this)?.cmp(&version(other)?))
}

/// A binding as it came, not read yet.
#[derive(Clone, Debug)]
pub enum Unread {
    /// A ResourceBinding.
    Namespaced(Box<Guarded<ResourceBinding>>),
    /// A ClusterResourceBinding.
    ClusterScoped(Box<Guarded<ClusterResourceBinding>>),
}

impl Unread {
    /// What names the binding.
    pub fn metadata(&self) -> &ObjectMeta {
        match self {
            Self::Namespaced(object) => object.metadata(),
            Self::ClusterScoped(object) => object.metadata(),
        }
    }

    /// Whether it says nothing that is not known from `binding`, a state as the server gave it.
    pub fn is_known_from(&self, binding: &Binding) -> bool {
        age(self.metadata(), &binding.metadata).is_some_and(Ordering::is_le)
    }

    /// Reads it.
    ///
    /// # Errors
    /// When it is malformed.
    pub fn read(&self) -> Result<Binding, serde_json::Error> {
        match self {
            Self::Namespaced(object) => object.read().map(Into::into),
            Self::ClusterScoped(object) => object.read().map(Into::into),
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
    fn only_newer_states_and_other_objects_are_news() {
        let known: ResourceBinding = serde_json::from_value(object("a", "9")).unwrap();
        let known = Binding::from(known);
        let cases = [
            ("a", "8", true),
            ("a", "9", true),
            // As a number: "10" is below "9" as a text.
            ("a", "10", false),
            ("b", "1", false),
            ("a", "not a number", false),
        ];
        for (uid, version, is_known) in cases {
            let bytes = object(uid, version).to_string();
            let unread = Unread::Namespaced(Box::new(serde_json::from_str(&bytes).unwrap()));
            assert_eq!(unread.is_known_from(&known), is_known, "{uid} {version}");
            assert_eq!(unread.read().unwrap().resource_version(), version);
        }
    }
}
