//! Bindings as the service holds them: both kinds in one shape, named by one key.

use std::fmt;
use std::sync::Arc;

use berth_api::binding::{BindingSpec, BindingStatus};
use berth_api::{ClusterResourceBinding, ResourceBinding};
use berth_core::BindingObject;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// Names a binding: with a namespace it is a ResourceBinding, without one a ClusterResourceBinding.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BindingKey {
    /// The namespace of a ResourceBinding.
    pub namespace: Option<Arc<str>>,
    /// The name.
    pub name: Arc<str>,
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
            placement.drop_empties();
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
        if self.metadata.uid != other.metadata.uid {
            return true;
        }
        match (
            self.resource_version().parse::<u64>(),
            other.resource_version().parse::<u64>(),
        ) {
            (Ok(mine), Ok(theirs)) => mine >= theirs,
            _ => true,
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
