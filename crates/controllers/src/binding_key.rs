//! What a binding is called, and of which of the two kinds it is.

use berth_api::well_known::{BINDING_FINALIZER, CLUSTER_RESOURCE_BINDING_FINALIZER};

/// Names a ResourceBinding, or with an empty namespace a ClusterResourceBinding.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BindingKey {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
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

impl BindingKind {
    /// The kind of the binding of this key.
    pub fn of(key: &BindingKey) -> Self {
        if key.namespace.is_empty() {
            Self::Cluster
        } else {
            Self::Namespaced
        }
    }

    /// The kind's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Namespaced => "ResourceBinding",
            Self::Cluster => "ClusterResourceBinding",
        }
    }

    /// The finalizer that keeps a binding of this kind until its Works are gone.
    pub(crate) fn finalizer(self) -> &'static str {
        match self {
            Self::Namespaced => BINDING_FINALIZER,
            Self::Cluster => CLUSTER_RESOURCE_BINDING_FINALIZER,
        }
    }
}
