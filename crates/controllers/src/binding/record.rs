//! A binding of either kind, as the controllers remember it.

use berth_api::binding::{BindingSpec, BindingStatus};
use berth_api::well_known::{
    CLUSTER_RESOURCE_BINDING_NAME, CLUSTER_RESOURCE_BINDING_PERMANENT_ID, RESOURCE_BINDING_NAME,
    RESOURCE_BINDING_NAMESPACE, RESOURCE_BINDING_PERMANENT_ID,
};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::api::{Api, DynamicObject};
use kube::core::ApiResource;

use crate::binding_key::BindingKey;
use crate::binding_key::BindingKind;

/// A binding of either kind.
#[derive(Clone, Debug, PartialEq)]
pub struct Binding {
    /// What it is called.
    pub key: BindingKey,
    /// Its UID.
    pub uid: String,
    /// Its permanent id, empty where nobody has given it one.
    pub id: String,
    /// The version that was seen.
    pub resource_version: String,
    /// Counts changes of the spec.
    pub generation: i64,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Its finalizers.
    pub finalizers: Vec<String>,
    /// What is wanted.
    pub spec: BindingSpec,
    /// What was observed.
    pub status: BindingStatus,
}

impl Binding {
    /// Reads a binding.
    ///
    /// # Errors
    /// When its spec or status does not have the shape of one.
    pub fn from_object(object: &DynamicObject) -> Result<Self, serde_json::Error> {
        let meta = &object.metadata;
        let part = |name: &str| object.data.get(name).cloned().unwrap_or_default();
        let namespace = meta.namespace.clone().unwrap_or_default();
        let name = meta.name.clone().unwrap_or_default();
        let key = BindingKey { namespace, name };
        let label = id_label(BindingKind::of(&key));
        let labels = meta.labels.as_ref();
        Ok(Self {
            id: labels
                .and_then(|labels| labels.get(label))
                .cloned()
                .unwrap_or_default(),
            key,
            uid: meta.uid.clone().unwrap_or_default(),
            resource_version: meta.resource_version.clone().unwrap_or_default(),
            generation: meta.generation.unwrap_or_default(),
            deleting: meta.deletion_timestamp.is_some(),
            finalizers: meta.finalizers.clone().unwrap_or_default(),
            spec: serde_json::from_value(part("spec"))?,
            status: match part("status") {
                serde_json::Value::Null => BindingStatus::default(),
                status => serde_json::from_value(status)?,
            },
        })
    }

    /// Which of the two kinds it is.
    pub fn kind(&self) -> BindingKind {
        BindingKind::of(&self.key)
    }

    /// The label by which its Works, and the members' objects, are known.
    pub fn id_label(&self) -> &'static str {
        id_label(self.kind())
    }

    /// The annotations that name it.
    pub fn back_pointers(&self) -> Vec<(&'static str, String)> {
        let key = &self.key;
        match self.kind() {
            BindingKind::Namespaced => vec![
                (RESOURCE_BINDING_NAMESPACE, key.namespace.clone()),
                (RESOURCE_BINDING_NAME, key.name.clone()),
            ],
            BindingKind::Cluster => vec![(CLUSTER_RESOURCE_BINDING_NAME, key.name.clone())],
        }
    }

    /// What events about it point at.
    pub fn reference(&self) -> ObjectReference {
        ObjectReference {
            api_version: Some("work.karmada.io/v1alpha2".to_owned()),
            kind: Some(self.kind().name().to_owned()),
            namespace: Some(self.key.namespace.clone()).filter(|n| !n.is_empty()),
            name: Some(self.key.name.clone()),
            uid: Some(self.uid.clone()),
            resource_version: Some(self.resource_version.clone()),
            field_path: None,
        }
    }

    /// As messages name it: `ResourceBinding(default/nginx-deployment)`.
    pub fn title(&self) -> String {
        let BindingKey { namespace, name } = &self.key;
        match self.kind() {
            BindingKind::Namespaced => format!("ResourceBinding({namespace}/{name})"),
            BindingKind::Cluster => format!("ClusterResourceBinding({name})"),
        }
    }

    /// A handle on it.
    pub(crate) fn api(&self, client: kube::Client) -> Api<DynamicObject> {
        let resource = resource(self.kind());
        match self.kind() {
            BindingKind::Namespaced => Api::namespaced_with(client, &self.key.namespace, &resource),
            BindingKind::Cluster => Api::all_with(client, &resource),
        }
    }
}

fn id_label(kind: BindingKind) -> &'static str {
    match kind {
        BindingKind::Namespaced => RESOURCE_BINDING_PERMANENT_ID,
        BindingKind::Cluster => CLUSTER_RESOURCE_BINDING_PERMANENT_ID,
    }
}

/// The API of a kind of binding.
pub(crate) fn resource(kind: BindingKind) -> ApiResource {
    match kind {
        BindingKind::Namespaced => ApiResource::erase::<berth_api::ResourceBinding>(&()),
        BindingKind::Cluster => ApiResource::erase::<berth_api::ClusterResourceBinding>(&()),
    }
}
