//! The content of the attached binding of an object. [`plan`] computes it from the independent bindings that depend on
//! the object. `dependencies.rs` explains attached and independent bindings.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use berth_api::BindingKey;
use berth_api::well_known::{BINDING_FINALIZER, RESOURCE_BINDING_PERMANENT_ID};
use serde_json::{Map, Value, json};

use super::merged_settings::{ABORT, Conflict, Strategy};
use super::record::{BindingRecord, Object, ObjectKey, reference_label};

/// The observed state from which [`plan`] computes the attached binding of an object.
#[derive(Clone, Debug)]
pub(super) struct AttachmentInput {
    pub(super) key: ObjectKey,
    /// The object, if it exists.
    pub(super) object: Option<Object>,
    /// The existing binding of the object.
    pub(super) existing: Option<Arc<BindingRecord>>,
    /// The independent bindings that depend on the object.
    pub(super) independent: BTreeMap<BindingKey, Arc<BindingRecord>>,
    /// Reference labels of independent bindings whose dependencies are not resolved yet.
    pub(super) unresolved: BTreeSet<String>,
    /// The observed bindings that `requiredBy` of the existing binding lists.
    pub(super) referenced: BTreeMap<BindingKey, Arc<BindingRecord>>,
}

/// A decision about an attached binding.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Plan {
    /// The write, if one is needed.
    pub(super) write: Option<Write>,
    /// The independent bindings whose clusters the write adds to `requiredBy` or updates there.
    pub(super) synced: Vec<BindingKey>,
    /// The settings that differ between the independent bindings.
    pub(super) conflict: Conflict,
}

/// A write of an attached binding.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Write {
    /// Create this binding. The writer adds the permanent id.
    Create(Value),
    /// Apply this merge patch to the existing binding.
    Patch(Value),
}

/// Decides how to write the attached binding of an object.
pub(super) fn plan(input: &AttachmentInput) -> Plan {
    let object = input.object.as_ref();
    match (&input.existing, object) {
        (None, Some(object)) if !input.independent.is_empty() && !object.deleting => {
            create(input, object)
        }
        (Some(existing), object) if is_attachable(existing, object, input) => {
            change(existing, object, input)
        }
        _ => Plan::default(),
    }
}

/// Reports whether [`plan`] may change the existing binding: the binding propagates the object, is or becomes attached,
/// and is not being deleted. If a deleted object of the same name owns the binding, the garbage collector must first
/// delete the binding.
fn is_attachable(
    existing: &BindingRecord,
    object: Option<&Object>,
    input: &AttachmentInput,
) -> bool {
    let other_owner = match (&existing.owner, object) {
        (Some(owner), Some(object)) => *owner != object.uid,
        _ => false,
    };
    let is_attached = !existing.depended_by.is_empty() || !input.independent.is_empty();
    is_attached && !existing.deleting && !other_owner && existing.object() == input.key
}

fn create(input: &AttachmentInput, object: &Object) -> Plan {
    let key = &input.key;
    let independent = input.independent.values();
    let labels: Map<String, Value> = independent
        .clone()
        .map(|record| (reference_label(&record.key), json!(record.id)))
        .collect();
    let required_by: Vec<Value> = independent.clone().map(|record| snapshot(record)).collect();
    let strategy = Strategy::of(independent.clone().map(|record| &**record));
    let mut spec = json!({ "resource": resource(key, object), "requiredBy": required_by });
    if let Some(strategy) = strategy {
        spec["conflictResolution"] = json!(strategy.conflict_resolution());
        spec["preserveResourcesOnDeletion"] = json!(strategy.preserve);
    }
    let write = json!({
        "apiVersion": "work.karmada.io/v1alpha2",
        "kind": "ResourceBinding",
        "metadata": {
            "name": &*key.binding().name,
            "namespace": key.namespace,
            "labels": labels,
            "finalizers": [BINDING_FINALIZER],
            "ownerReferences": [{
                "apiVersion": key.kind.api_version,
                "kind": key.kind.kind,
                "name": key.name,
                "uid": object.uid,
                "controller": true,
                "blockOwnerDeletion": true,
            }],
        },
        "spec": spec,
    });
    Plan {
        write: Some(Write::Create(write)),
        synced: independent.map(|record| record.key.clone()).collect(),
        conflict: strategy.map(|s| s.conflict).unwrap_or_default(),
    }
}

fn change(existing: &BindingRecord, object: Option<&Object>, input: &AttachmentInput) -> Plan {
    let mut synced = Vec::new();
    let required_by = required_by(existing, input, &mut synced);
    let labels = label_changes(existing, input);
    let mut spec = Map::new();
    if required_by != existing.required_by {
        spec.insert("requiredBy".to_owned(), list_or_null(&required_by));
    }
    let all = input.referenced.iter().chain(&input.independent);
    let all: BTreeMap<&BindingKey, &Arc<BindingRecord>> = all.collect();
    let remaining = required_by
        .iter()
        .filter_map(|entry| all.get(&key_of_snapshot(entry)));
    let strategy = Strategy::of(remaining.map(|record| &***record));
    // If the binding has a placement, a policy determines these fields.
    if !existing.is_placed {
        let wanted = strategy.map(Strategy::conflict_resolution);
        let stored = existing.conflict_resolution.as_deref();
        if wanted.unwrap_or(ABORT) != stored.unwrap_or(ABORT) {
            spec.insert("conflictResolution".to_owned(), json!(wanted));
        }
        let wanted = strategy.map(|strategy| strategy.preserve);
        if wanted != existing.preserve {
            spec.insert("preserveResourcesOnDeletion".to_owned(), json!(wanted));
        }
        if let Some(object) = object {
            let stored = &existing.resource;
            let is_same = stored.uid.as_ref() == Some(&object.uid)
                && stored.resource_version.as_ref() == Some(&object.version);
            if !is_same && !input.independent.is_empty() {
                spec.insert("resource".to_owned(), resource(&input.key, object));
            }
        }
    }
    let mut patch = Map::new();
    if !labels.is_empty() {
        patch.insert("metadata".to_owned(), json!({ "labels": labels }));
    }
    if !spec.is_empty() {
        patch.insert("spec".to_owned(), Value::Object(spec));
    }
    Plan {
        write: (!patch.is_empty()).then_some(Write::Patch(Value::Object(patch))),
        synced,
        conflict: match strategy {
            Some(strategy) if !existing.is_placed => strategy.conflict,
            _ => Conflict::default(),
        },
    }
}

/// Returns the desired entries of `requiredBy`. An entry is a snapshot of an independent binding: its key and its
/// clusters. Existing entries keep their order. An entry without a reference label was added by another controller, and
/// is kept. Adds the bindings of new and changed entries to `synced`.
fn required_by(
    existing: &BindingRecord,
    input: &AttachmentInput,
    synced: &mut Vec<BindingKey>,
) -> Vec<Value> {
    let mut entries = Vec::new();
    let mut seen = BTreeSet::new();
    for entry in &existing.required_by {
        let key = key_of_snapshot(entry);
        let label = reference_label(&key);
        if let Some(record) = input.independent.get(&key) {
            let current = refreshed(entry, record);
            if current != *entry {
                synced.push(record.key.clone());
            }
            entries.push(current);
        } else if input.unresolved.contains(&label) || !existing.depended_by.contains_key(&label) {
            entries.push(entry.clone());
        }
        seen.insert(key);
    }
    for (key, record) in &input.independent {
        if !seen.contains(key) {
            synced.push(record.key.clone());
            entries.push(snapshot(record));
        }
    }
    entries
}

fn label_changes(existing: &BindingRecord, input: &AttachmentInput) -> Map<String, Value> {
    let wanted: BTreeMap<String, &String> = input
        .independent
        .values()
        .map(|record| (reference_label(&record.key), &record.id))
        .collect();
    let mut changes = Map::new();
    for (label, id) in &wanted {
        if existing.depended_by.get(label) != Some(*id) {
            changes.insert(label.clone(), json!(id));
        }
    }
    for label in existing.depended_by.keys() {
        if !wanted.contains_key(label) && !input.unresolved.contains(label) {
            changes.insert(label.clone(), Value::Null);
        }
    }
    changes
}

/// Returns the snapshot of an independent binding, which is its entry in `requiredBy`.
fn snapshot(record: &BindingRecord) -> Value {
    let key = &record.key;
    let entry = json!({ "namespace": key.namespace_or_empty(), "name": &*key.name });
    refreshed(&entry, record)
}

fn refreshed(entry: &Value, record: &BindingRecord) -> Value {
    let mut entry = entry.clone();
    let former = entry["clusters"].as_array().cloned().unwrap_or_default();
    let copies = record.copies(&former);
    if let Some(fields) = entry.as_object_mut() {
        if copies.is_empty() {
            fields.remove("clusters");
        } else {
            fields.insert("clusters".to_owned(), json!(copies));
        }
    }
    entry
}

/// Returns the key of the binding that a snapshot refers to.
pub(super) fn key_of_snapshot(entry: &Value) -> BindingKey {
    let text = |field: &str| entry[field].as_str().unwrap_or_default();
    BindingKey::new(text("namespace"), text("name"))
}

fn list_or_null(list: &[Value]) -> Value {
    if list.is_empty() {
        Value::Null
    } else {
        json!(list)
    }
}

fn resource(key: &ObjectKey, object: &Object) -> Value {
    json!({
        "apiVersion": key.kind.api_version,
        "kind": key.kind.kind,
        "namespace": key.namespace,
        "name": key.name,
        "uid": object.uid,
        "resourceVersion": object.version,
    })
}

/// Adds a permanent id to a new binding, because the server may run without the webhook that adds one.
pub(super) fn with_permanent_id(mut binding: Value, id: &str) -> Value {
    binding["metadata"]["labels"][RESOURCE_BINDING_PERMANENT_ID] = json!(id);
    binding
}

#[cfg(test)]
mod tests;
