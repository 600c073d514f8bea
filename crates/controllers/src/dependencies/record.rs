//! [`BindingRecord`] and [`Object`]: the parts of observed bindings and objects that `index` stores.

use std::collections::BTreeMap;

use berth_api::BindingKey;
use berth_api::binding::{BindingSuspension, ObjectReference};
use berth_api::dependency::{self, DependentObjectReference};
use berth_api::names::{binding_name, binding_reference_key};
use berth_api::well_known::{
    DEPENDED_BY_PREFIX, DEPENDENCIES, DEPENDENCIES_FINALIZER, RESOURCE_BINDING_PERMANENT_ID,
};
use kube::ResourceExt as _;
use kube::api::DynamicObject;
use serde::Deserialize as _;
use serde_json::{Value, json};

use crate::fingerprint::Fingerprints;
use crate::suspension::suspends;

/// The role of a binding in the propagation of dependencies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// The dependencies of the binding's template are propagated.
    Independent,
    /// The binding was independent. Its finalizer is removed when no attached binding refers to it.
    Detaching,
    /// The binding has no dependencies to propagate.
    Unrelated,
}

/// The fields of a ResourceBinding that the distributor uses.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct BindingRecord {
    pub(super) key: BindingKey,
    pub(super) uid: String,
    /// The permanent id, or an empty string.
    pub(super) id: String,
    pub(super) version: String,
    pub(super) generation: Option<i64>,
    pub(super) deleting: bool,
    pub(super) finalizers: Vec<String>,
    /// The annotation that lists the dependencies of the template.
    pub(super) annotation: Option<String>,
    /// The reference labels on this binding. A label refers to an independent binding, and the value is the permanent
    /// id of the independent binding.
    pub(super) depended_by: BTreeMap<String, String>,
    /// The UID of the object that controls the binding.
    pub(super) owner: Option<String>,
    pub(super) resource: ObjectReference,
    pub(super) propagates: bool,
    /// True if the binding has a placement, which comes from a policy.
    pub(super) is_placed: bool,
    /// The JSON items of `spec.clusters`, with unknown fields.
    pub(super) clusters: Vec<Value>,
    /// The clusters from which the template's copy is being evicted, with its replicas. A copy with purge mode
    /// `Directly` no longer needs its dependencies.
    pub(super) evicted: Vec<Value>,
    pub(super) suspension: Option<BindingSuspension>,
    /// The JSON items of `spec.requiredBy`, with unknown fields.
    pub(super) required_by: Vec<Value>,
    pub(super) conflict_resolution: Option<String>,
    pub(super) preserve: Option<bool>,
}

impl BindingRecord {
    /// Reads a binding.
    ///
    /// # Errors
    /// When `spec.resource` is missing or invalid.
    pub(super) fn read(object: &DynamicObject) -> Result<Self, serde_json::Error> {
        let (meta, spec) = (&object.metadata, &object.data["spec"]);
        let labels = object.labels();
        let list = |name: &str| spec[name].as_array().cloned().unwrap_or_default();
        let owners = meta.owner_references.iter().flatten();
        let mut owners = owners.filter(|owner| owner.controller == Some(true));
        Ok(Self {
            key: BindingKey::of(&object.metadata),
            uid: meta.uid.clone().unwrap_or_default(),
            id: labels
                .get(RESOURCE_BINDING_PERMANENT_ID)
                .cloned()
                .unwrap_or_default(),
            version: meta.resource_version.clone().unwrap_or_default(),
            generation: meta.generation,
            deleting: meta.deletion_timestamp.is_some(),
            finalizers: meta.finalizers.clone().unwrap_or_default(),
            annotation: object.annotations().get(DEPENDENCIES).cloned(),
            depended_by: labels
                .iter()
                .filter(|(key, _)| key.starts_with(DEPENDED_BY_PREFIX))
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect(),
            owner: owners.next().map(|owner| owner.uid.clone()),
            resource: ObjectReference::deserialize(&spec["resource"])?,
            propagates: spec["propagateDeps"] == true,
            is_placed: spec["placement"].is_object(),
            clusters: list("clusters"),
            evicted: list("gracefulEvictionTasks")
                .iter()
                .filter(|task| task["purgeMode"] != "Directly")
                .map(evicted_target)
                .collect(),
            suspension: Option::deserialize(&spec["suspension"])?,
            required_by: list("requiredBy"),
            conflict_resolution: spec["conflictResolution"].as_str().map(str::to_owned),
            preserve: spec["preserveResourcesOnDeletion"].as_bool(),
        })
    }

    /// Returns the clusters that may have a copy of the template: the clusters of the binding, clusters from which the
    /// copy is being evicted, and clusters of `former` to which dispatching is suspended.
    pub(super) fn copies(&self, former: &[Value]) -> Vec<Value> {
        let suspended = former.iter().filter(|cluster| {
            let suspension = self.suspension.as_ref();
            let name = cluster["name"].as_str().unwrap_or_default();
            suspension.is_some_and(|suspension| suspends(suspension, name))
        });
        let mut copies = self.clusters.clone();
        for cluster in self.evicted.iter().chain(suspended) {
            if copies.iter().all(|known| known["name"] != cluster["name"]) {
                copies.push(cluster.clone());
            }
        }
        copies
    }

    /// Reports whether the binding has the distributor's finalizer.
    pub(super) fn has_finalizer(&self) -> bool {
        self.finalizers
            .iter()
            .any(|name| name == DEPENDENCIES_FINALIZER)
    }

    /// Returns the role of the binding. A binding that was never scheduled is not independent yet.
    pub(super) fn role(&self) -> Role {
        let has_finalizer = self.has_finalizer();
        if self.propagates && !self.deleting && !self.id.is_empty() {
            if has_finalizer || !self.clusters.is_empty() {
                return Role::Independent;
            }
            return Role::Unrelated;
        }
        if has_finalizer {
            Role::Detaching
        } else {
            Role::Unrelated
        }
    }

    /// Returns the dependencies in the annotation. Without the finalizer, the annotation may be outdated and is
    /// ignored.
    pub(super) fn stored_dependencies(&self) -> Option<Vec<DependentObjectReference>> {
        let annotation = self.annotation.as_ref().filter(|_| self.has_finalizer())?;
        dependency::read_list(annotation)
    }

    /// Returns the key of the object that the binding propagates.
    pub(super) fn object(&self) -> ObjectKey {
        ObjectKey {
            kind: ObjectKind {
                api_version: self.resource.api_version.clone(),
                kind: self.resource.kind.clone(),
            },
            namespace: self.key.namespace_or_empty().to_owned(),
            name: self.resource.name.clone(),
        }
    }
}

/// Returns the target cluster that an eviction task has removed.
fn evicted_target(task: &Value) -> Value {
    let mut target = json!({ "name": task["fromCluster"] });
    if let Some(replicas) = task["replicas"].as_i64() {
        target["replicas"] = json!(replicas);
    }
    target
}

/// Returns the reference label of a binding. The attached bindings of this binding have a label with this key.
pub(super) fn reference_label(key: &BindingKey) -> String {
    let hash = binding_reference_key(key.namespace_or_empty(), &key.name);
    format!("{DEPENDED_BY_PREFIX}{hash}")
}

/// A kind of object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct ObjectKind {
    pub(super) api_version: String,
    pub(super) kind: String,
}

/// The key of an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct ObjectKey {
    pub(super) kind: ObjectKind,
    pub(super) namespace: String,
    pub(super) name: String,
}

impl ObjectKey {
    /// Returns the key of the object's binding.
    pub(super) fn binding(&self) -> BindingKey {
        BindingKey::new(&self.namespace, &binding_name(&self.kind.kind, &self.name))
    }
}

/// An object that may be a dependency.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Object {
    pub(super) uid: String,
    /// The resource version of the last change of the object's content.
    pub(super) version: String,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) deleting: bool,
    fingerprint: u64,
}

impl Object {
    /// Reads an object.
    pub(super) fn read(object: &DynamicObject) -> Self {
        Self {
            uid: object.uid().unwrap_or_default(),
            version: object.resource_version().unwrap_or_default(),
            labels: object.labels().clone(),
            deleting: object.metadata.deletion_timestamp.is_some(),
            fingerprint: Fingerprints::of(object).all,
        }
    }

    /// Reports whether two versions of an object have equal content. The status is not compared.
    pub(super) fn semantically_eq(&self, other: &Self) -> bool {
        self.uid == other.uid && self.fingerprint == other.fingerprint
    }
}
