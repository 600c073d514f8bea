//! Bindings and objects as the distributor remembers them.

use std::collections::BTreeMap;

use berth_api::binding::ObjectReference;
use berth_api::dependency::{self, DependentObjectReference};
use berth_api::names::{binding_name, binding_reference_key};
use berth_api::well_known::{
    DEPENDED_BY_PREFIX, DEPENDENCIES, DEPENDENCIES_FINALIZER, RESOURCE_BINDING_PERMANENT_ID,
};
use kube::ResourceExt as _;
use kube::api::DynamicObject;
use serde::Deserialize as _;
use serde_json::Value;

use crate::binding_key::BindingKey;
use crate::fingerprint::Fingerprints;

/// What a binding is to the distributor, for its own sake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// What its template names follows it.
    Followed,
    /// It was followed, and has to be left by all before it may go, or be as if it never was.
    Left,
    /// Neither.
    Alone,
}

/// A ResourceBinding.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Record {
    pub(super) key: BindingKey,
    pub(super) uid: String,
    /// Its permanent id, empty where nobody has given it one.
    pub(super) id: String,
    pub(super) version: String,
    pub(super) generation: Option<i64>,
    pub(super) deleting: bool,
    pub(super) finalizers: Vec<String>,
    /// The annotation with what its template names.
    pub(super) annotation: Option<String>,
    /// The labels that name those whom it follows.
    pub(super) depended_by: BTreeMap<String, String>,
    /// The UID of the object that controls it.
    pub(super) owner: Option<String>,
    pub(super) resource: ObjectReference,
    pub(super) propagates: bool,
    /// Whether it has a placement, and so is also a policy's.
    pub(super) is_placed: bool,
    /// `spec.clusters` and `spec.requiredBy` as they are stored.
    pub(super) clusters: Vec<Value>,
    /// See above.
    pub(super) required_by: Vec<Value>,
    pub(super) conflict_resolution: Option<String>,
    pub(super) preserve: Option<bool>,
}

impl Record {
    /// Reads a binding.
    ///
    /// # Errors
    /// When it does not say what it is the binding of.
    pub(super) fn read(object: &DynamicObject) -> Result<Self, serde_json::Error> {
        let (meta, spec) = (&object.metadata, &object.data["spec"]);
        let labels = object.labels();
        let list = |name: &str| spec[name].as_array().cloned().unwrap_or_default();
        let owners = meta.owner_references.iter().flatten();
        let mut owners = owners.filter(|owner| owner.controller == Some(true));
        Ok(Self {
            key: key_of(object),
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
            required_by: list("requiredBy"),
            conflict_resolution: spec["conflictResolution"].as_str().map(str::to_owned),
            preserve: spec["preserveResourcesOnDeletion"].as_bool(),
        })
    }

    /// Whether it may not go before it was left by all.
    pub(super) fn is_guarded(&self) -> bool {
        self.finalizers
            .iter()
            .any(|name| name == DEPENDENCIES_FINALIZER)
    }

    /// What it is. One that was never scheduled is not followed yet.
    pub(super) fn role(&self) -> Role {
        let guarded = self.is_guarded();
        if self.propagates && !self.deleting && !self.id.is_empty() {
            if guarded || !self.clusters.is_empty() {
                return Role::Followed;
            }
            return Role::Alone;
        }
        if guarded { Role::Left } else { Role::Alone }
    }

    /// What its template named when somebody last looked. Only as long as it is guarded: what was written before that
    /// may be old.
    pub(super) fn noted(&self) -> Option<Vec<DependentObjectReference>> {
        let annotation = self.annotation.as_ref().filter(|_| self.is_guarded())?;
        dependency::read_list(annotation)
    }

    /// The object that it is the binding of.
    pub(super) fn object(&self) -> ObjectKey {
        ObjectKey {
            kind: Kind {
                api_version: self.resource.api_version.clone(),
                kind: self.resource.kind.clone(),
            },
            namespace: self.key.namespace.clone(),
            name: self.resource.name.clone(),
        }
    }
}

/// The key of the label that those have who follow a binding.
pub(super) fn label_of(key: &BindingKey) -> String {
    let hash = binding_reference_key(&key.namespace, &key.name);
    format!("{DEPENDED_BY_PREFIX}{hash}")
}

/// The key of a binding.
pub(super) fn key_of(object: &DynamicObject) -> BindingKey {
    BindingKey {
        namespace: object.namespace().unwrap_or_default(),
        name: object.name_any(),
    }
}

/// A kind of object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Kind {
    pub(super) api_version: String,
    pub(super) kind: String,
}

/// Names an object that others may name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct ObjectKey {
    pub(super) kind: Kind,
    pub(super) namespace: String,
    pub(super) name: String,
}

impl ObjectKey {
    /// The key of its binding.
    pub(super) fn binding(&self) -> BindingKey {
        BindingKey {
            namespace: self.namespace.clone(),
            name: binding_name(&self.kind.kind, &self.name),
        }
    }
}

/// An object that others may name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Object {
    pub(super) uid: String,
    /// The version in which its content was last seen to change.
    pub(super) version: String,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) deleting: bool,
    fingerprint: u64,
}

impl Object {
    /// Keeps what matters of an object.
    pub(super) fn read(object: &DynamicObject) -> Self {
        Self {
            uid: object.uid().unwrap_or_default(),
            version: object.resource_version().unwrap_or_default(),
            labels: object.labels().clone(),
            deleting: object.metadata.deletion_timestamp.is_some(),
            fingerprint: Fingerprints::of(object).all,
        }
    }

    /// Whether it says the same; its status does not count.
    pub(super) fn says_the_same(&self, other: &Self) -> bool {
        self.uid == other.uid && self.fingerprint == other.fingerprint
    }
}
