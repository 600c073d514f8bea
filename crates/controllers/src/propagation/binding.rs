//! The binding controller. It creates, updates and deletes the Works of a binding, one Work per target cluster.
//!
//! [`targets`] selects the clusters, [`desired_work`] computes the content of a Work, and [`work_patch`] compares it
//! with the stored Work. These three modules are pure. [`sync`] sends the requests. This module must not depend on the
//! module `execution`, which applies the Works in members.

mod completions;
pub(crate) mod desired_work;
mod inject_preserved_state;
mod recorded_events;
pub(crate) mod sync;
pub(crate) mod targets;
pub(crate) mod work_patch;

use berth_api::binding::{BindingSpec, BindingStatus};
use berth_api::well_known::{
    CLUSTER_RESOURCE_BINDING_NAME, RESOURCE_BINDING_NAME, RESOURCE_BINDING_NAMESPACE, TRACEPARENT,
};
use berth_api::{BindingKey, BindingKind};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::api::DynamicObject;

/// The fields of a ResourceBinding or ClusterResourceBinding.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Binding {
    /// The namespace and the name.
    pub(crate) key: BindingKey,
    pub(crate) uid: String,
    /// The permanent id. Empty before the controller has assigned an id.
    pub(crate) id: String,
    pub(crate) resource_version: String,
    pub(crate) generation: i64,
    pub(crate) deleting: bool,
    /// The trace context of the binding's last change, from an annotation.
    pub(crate) trace: Option<String>,
    pub(crate) finalizers: Vec<String>,
    pub(crate) spec: BindingSpec,
    pub(crate) status: BindingStatus,
}

impl Binding {
    /// Decodes a binding.
    ///
    /// # Errors
    /// When spec or status are malformed.
    pub(crate) fn from_object(object: &DynamicObject) -> Result<Self, serde_json::Error> {
        let meta = &object.metadata;
        let field = |name: &str| object.data.get(name).cloned().unwrap_or_default();
        let key = BindingKey::of(meta);
        let labels = meta.labels.as_ref();
        Ok(Self {
            id: labels
                .and_then(|labels| labels.get(key.kind().id_label()))
                .cloned()
                .unwrap_or_default(),
            key,
            uid: meta.uid.clone().unwrap_or_default(),
            resource_version: meta.resource_version.clone().unwrap_or_default(),
            generation: meta.generation.unwrap_or_default(),
            deleting: meta.deletion_timestamp.is_some(),
            trace: annotation(object, TRACEPARENT),
            finalizers: meta.finalizers.clone().unwrap_or_default(),
            spec: serde_json::from_value(field("spec"))?,
            status: match field("status") {
                serde_json::Value::Null => BindingStatus::default(),
                status => serde_json::from_value(status)?,
            },
        })
    }

    /// Returns the kind of the binding.
    pub(crate) fn kind(&self) -> BindingKind {
        self.key.kind()
    }

    /// Returns the key of the label that contains the permanent id on the binding, on its Works, and on the objects in
    /// members.
    pub(crate) fn id_label(&self) -> &'static str {
        self.kind().id_label()
    }

    /// Returns the annotations of Works and manifests that refer to the binding.
    pub(crate) fn back_pointers(&self) -> Vec<(&'static str, String)> {
        let key = &self.key;
        match self.kind() {
            BindingKind::Namespaced => vec![
                (
                    RESOURCE_BINDING_NAMESPACE,
                    key.namespace_or_empty().to_owned(),
                ),
                (RESOURCE_BINDING_NAME, key.name.to_string()),
            ],
            BindingKind::Cluster => vec![(CLUSTER_RESOURCE_BINDING_NAME, key.name.to_string())],
        }
    }

    /// Returns the object reference for events about the binding.
    pub(crate) fn reference(&self) -> ObjectReference {
        let (uid, version) = (self.uid.clone(), self.resource_version.clone());
        self.key.reference(Some(uid), Some(version))
    }

    /// Returns the kind and the name for messages, such as `ResourceBinding(default/nginx-deployment)`.
    pub(crate) fn title(&self) -> String {
        format!("{}({})", self.kind(), self.key)
    }
}

fn annotation(object: &DynamicObject, name: &str) -> Option<String> {
    object.metadata.annotations.as_ref()?.get(name).cloned()
}
