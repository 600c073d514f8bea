//! [`RawBinding`], a binding from a watch event or a list. It is decoded on demand.

use berth_api::{Binding, ClusterResourceBinding, ResourceBinding};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::lazy_object::LazyObject;

/// A binding whose spec and status are not decoded yet.
#[derive(Clone, Debug)]
pub(crate) enum RawBinding {
    /// A ResourceBinding.
    Namespaced(Box<LazyObject<ResourceBinding>>),
    /// A ClusterResourceBinding.
    ClusterScoped(Box<LazyObject<ClusterResourceBinding>>),
}

impl RawBinding {
    /// Returns the name, namespace, UID, resource version and generation of the binding.
    pub(crate) fn metadata(&self) -> &ObjectMeta {
        match self {
            Self::Namespaced(object) => object.metadata(),
            Self::ClusterScoped(object) => object.metadata(),
        }
    }

    /// Reports whether `binding` is a state of the same object and at least as new as this state.
    pub(crate) fn is_outdated_by(&self, binding: &Binding) -> bool {
        binding.outdates(self.metadata())
    }

    /// Decodes the binding.
    ///
    /// # Errors
    /// When the object is malformed.
    pub(crate) fn decode(&self) -> Result<Binding, serde_json::Error> {
        match self {
            Self::Namespaced(object) => object.decode().map(Into::into),
            Self::ClusterScoped(object) => object.decode().map(Into::into),
        }
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
