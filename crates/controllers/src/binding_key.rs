//! Keys of ResourceBindings and ClusterResourceBindings. A key has a namespace and a name. The kind of the binding
//! follows from the namespace, which is empty for a ClusterResourceBinding.

use berth_api::well_known::{BINDING_FINALIZER, CLUSTER_RESOURCE_BINDING_FINALIZER};
use kube::ResourceExt as _;
use kube::api::DynamicObject;

/// The key of a binding.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BindingKey {
    /// The namespace, empty for a ClusterResourceBinding.
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

    /// Returns the finalizer that keeps a binding of this kind until the Works of the binding are deleted.
    pub(crate) fn finalizer(self) -> &'static str {
        match self {
            Self::Namespaced => BINDING_FINALIZER,
            Self::Cluster => CLUSTER_RESOURCE_BINDING_FINALIZER,
        }
    }
}
