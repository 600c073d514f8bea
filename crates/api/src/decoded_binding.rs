//! The type [`Binding`], which represents a ResourceBinding or a ClusterResourceBinding.

use std::cmp::Ordering;

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::DynamicObject;
use serde::Deserialize as _;
use serde_json::Value;

use crate::binding::{BindingSpec, BindingStatus, ClusterResourceBinding, ResourceBinding};
use crate::binding_key::BindingKey;
use crate::well_known::{CLUSTER_PROPAGATION_POLICY_NAME, PROPAGATION_POLICY_NAME};

/// A ResourceBinding or ClusterResourceBinding.
#[derive(Clone, Debug, PartialEq)]
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

impl Binding {
    fn new(mut metadata: ObjectMeta, mut spec: BindingSpec, status: Option<BindingStatus>) -> Self {
        // No component uses managed fields, and they take two thirds of the memory of a typed object.
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

    /// Decodes a binding.
    ///
    /// # Errors
    /// When spec or status are malformed.
    pub fn read(object: &DynamicObject) -> Result<Self, serde_json::Error> {
        let status = match &object.data["status"] {
            Value::Null => None,
            status => Some(BindingStatus::deserialize(status)?),
        };
        let spec = BindingSpec::deserialize(&object.data["spec"])?;
        Ok(Self::new(object.metadata.clone(), spec, status))
    }

    /// Returns `metadata.uid`, or an empty string if it is not set.
    pub fn uid(&self) -> &str {
        self.metadata.uid.as_deref().unwrap_or_default()
    }

    /// Returns the permanent id, or an empty string before a controller has assigned an id.
    pub fn permanent_id(&self) -> &str {
        let labels = self.metadata.labels.as_ref();
        labels
            .and_then(|labels| labels.get(self.key.kind().id_label()))
            .map_or("", String::as_str)
    }

    /// Returns the finalizers.
    pub fn finalizers(&self) -> &[String] {
        self.metadata.finalizers.as_deref().unwrap_or_default()
    }

    /// Returns an object reference to this version of the binding, for events.
    pub fn reference(&self) -> ObjectReference {
        let metadata = &self.metadata;
        self.key
            .reference(metadata.uid.clone(), metadata.resource_version.clone())
    }

    /// Returns the kind and the name for messages, such as `ResourceBinding(default/nginx-deployment)`.
    pub fn title(&self) -> String {
        format!("{}({})", self.key.kind(), self.key)
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

    /// Returns the name of the policy that has claimed the template.
    pub fn policy(&self) -> Option<&str> {
        let annotations = self.metadata.annotations.as_ref()?;
        let policy = annotations.get(PROPAGATION_POLICY_NAME);
        policy
            .or_else(|| annotations.get(CLUSTER_PROPAGATION_POLICY_NAME))
            .map(String::as_str)
    }

    /// Reports whether this state of a binding is at least as new as the state `other`.
    ///
    /// Resource versions are increasing decimal numbers. If a resource version is not a number, or the UIDs differ,
    /// `self` counts as newer. A wrong result costs at most one unnecessary scheduling cycle.
    pub fn at_least_as_new_as(&self, other: &Self) -> bool {
        age(&self.metadata, &other.metadata).is_none_or(Ordering::is_ge)
    }

    /// Reports whether this binding is a state of the object with the metadata `other`, and at least as new as that
    /// state.
    pub fn outdates(&self, other: &ObjectMeta) -> bool {
        age(other, &self.metadata).is_some_and(Ordering::is_le)
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
