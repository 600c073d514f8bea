//! The key of a ResourceBinding or ClusterResourceBinding: its kind, namespace and name.

use berth_api::well_known::{BINDING_FINALIZER, CLUSTER_RESOURCE_BINDING_FINALIZER};
use kube::ResourceExt as _;
use kube::api::DynamicObject;

/// The key of a ResourceBinding, or with an empty namespace of a ClusterResourceBinding.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BindingKey {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
}

/// The two kinds of binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BindingKind {
    /// ResourceBinding, for namespaced templates.
    Namespaced,
    /// ClusterResourceBinding, for cluster-scoped templates.
    Cluster,
}

impl BindingKey {
    /// Returns the key of a binding object.
    pub(crate) fn of(object: &DynamicObject) -> Self {
        Self {
            namespace: object.namespace().unwrap_or_default(),
            name: object.name_any(),
        }
    }
}

impl BindingKind {
    /// Returns the kind of the binding with this key.
    pub fn of(key: &BindingKey) -> Self {
        if key.namespace.is_empty() {
            Self::Cluster
        } else {
            Self::Namespaced
        }
    }

    /// Returns the name of the kind.
    pub fn name(self) -> &'static str {
        match self {
            Self::Namespaced => "ResourceBinding",
            Self::Cluster => "ClusterResourceBinding",
        }
    }

    /// Returns the finalizer that keeps a binding of this kind until its Works are deleted.
    pub(crate) fn finalizer(self) -> &'static str {
        match self {
            Self::Namespaced => BINDING_FINALIZER,
            Self::Cluster => CLUSTER_RESOURCE_BINDING_FINALIZER,
        }
    }
}
