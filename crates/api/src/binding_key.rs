//! The identity of a binding: its kind, namespace and name.

use std::fmt;
use std::sync::Arc;

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::ApiResource;

use crate::well_known::{
    BINDING_FINALIZER, CLUSTER_RESOURCE_BINDING_FINALIZER, CLUSTER_RESOURCE_BINDING_PERMANENT_ID,
    RESOURCE_BINDING_PERMANENT_ID,
};
use crate::{ClusterResourceBinding, ResourceBinding};

/// The two kinds of binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BindingKind {
    /// ResourceBinding, for namespaced templates.
    Namespaced,
    /// ClusterResourceBinding, for cluster-scoped templates.
    Cluster,
}

impl BindingKind {
    /// Returns the name of the kind.
    pub fn name(self) -> &'static str {
        match self {
            Self::Namespaced => "ResourceBinding",
            Self::Cluster => "ClusterResourceBinding",
        }
    }

    /// Returns the name of the kind in the scheduler's messages, which Karmada prescribes.
    pub fn name_in_messages(self) -> &'static str {
        match self {
            Self::Namespaced => "resourceBinding",
            Self::Cluster => "clusterResourceBinding",
        }
    }

    /// Returns the finalizer that keeps a binding of this kind until the Works of the binding are deleted.
    pub fn finalizer(self) -> &'static str {
        match self {
            Self::Namespaced => BINDING_FINALIZER,
            Self::Cluster => CLUSTER_RESOURCE_BINDING_FINALIZER,
        }
    }

    /// Returns the key of the label that contains the permanent id on the binding, on its Works, and on the objects in
    /// members.
    pub fn id_label(self) -> &'static str {
        match self {
            Self::Namespaced => RESOURCE_BINDING_PERMANENT_ID,
            Self::Cluster => CLUSTER_RESOURCE_BINDING_PERMANENT_ID,
        }
    }

    /// Returns the API resource of the kind.
    pub fn api_resource(self) -> ApiResource {
        match self {
            Self::Namespaced => ApiResource::erase::<ResourceBinding>(&()),
            Self::Cluster => ApiResource::erase::<ClusterResourceBinding>(&()),
        }
    }
}

impl fmt::Display for BindingKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The key of a binding. A key with a namespace identifies a ResourceBinding. A key without a namespace identifies a
/// ClusterResourceBinding.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BindingKey {
    /// The namespace of a ResourceBinding, or `None` for a ClusterResourceBinding.
    pub namespace: Option<Arc<str>>,
    /// The name of the binding.
    pub name: Arc<str>,
}

impl BindingKey {
    /// Returns the key of a ResourceBinding, or of a ClusterResourceBinding if the namespace is empty.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self {
            namespace: (!namespace.is_empty()).then(|| namespace.into()),
            name: name.into(),
        }
    }

    /// Returns the key of an object with this metadata.
    pub fn of(metadata: &ObjectMeta) -> Self {
        Self::new(
            metadata.namespace.as_deref().unwrap_or_default(),
            metadata.name.as_deref().unwrap_or_default(),
        )
    }

    /// Returns the kind of the binding.
    pub fn kind(&self) -> BindingKind {
        match self.namespace {
            Some(_) => BindingKind::Namespaced,
            None => BindingKind::Cluster,
        }
    }

    /// Returns the namespace, which is empty for a ClusterResourceBinding.
    pub fn namespace_or_empty(&self) -> &str {
        self.namespace.as_deref().unwrap_or_default()
    }

    /// Returns an object reference to a version of the binding, for events.
    pub fn reference(
        &self,
        uid: Option<String>,
        resource_version: Option<String>,
    ) -> ObjectReference {
        ObjectReference {
            api_version: Some("work.karmada.io/v1alpha2".to_owned()),
            kind: Some(self.kind().name().to_owned()),
            namespace: self.namespace.as_deref().map(str::to_owned),
            name: Some(self.name.to_string()),
            uid,
            resource_version,
            field_path: None,
        }
    }
}

/// Formats a key as `NAMESPACE/NAME`, or as the name for a ClusterResourceBinding.
impl fmt::Display for BindingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{namespace}/{}", self.name),
            None => f.write_str(&self.name),
        }
    }
}
