//! What the binding of an object should say that others name.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use berth_api::well_known::{BINDING_FINALIZER, RESOURCE_BINDING_PERMANENT_ID};
use serde_json::{Map, Value, json};

use super::record::{Object, ObjectKey, Record, label_of};
use super::strategy::{ABORT, Conflict, Strategy};
use crate::binding_key::BindingKey;

/// All that counts when the binding of an object is looked at.
#[derive(Clone, Debug)]
pub(super) struct Situation {
    pub(super) key: ObjectKey,
    /// The object, if it is there.
    pub(super) object: Option<Object>,
    /// Its binding, if there is one.
    pub(super) existing: Option<Arc<Record>>,
    /// The followed bindings that name the object.
    pub(super) followed: BTreeMap<BindingKey, Arc<Record>>,
    /// Labels of followed bindings of which it is not known yet what they name.
    pub(super) unexplored: BTreeSet<String>,
    /// Bindings that the existing one says it is required by, as far as they are there.
    pub(super) named: BTreeMap<BindingKey, Arc<Record>>,
}

/// What is to be done.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Plan {
    /// What is to be written, if anything.
    pub(super) write: Option<Write>,
    /// The followed bindings whose place becomes known by it.
    pub(super) informs: Vec<BindingKey>,
    /// Where those that it follows are not of one mind.
    pub(super) conflict: Conflict,
}

/// How it is written.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Write {
    /// A binding without a permanent id.
    Create(Value),
    /// A merge patch of the one that is there.
    Patch(Value),
}

/// Looks at the binding of an object.
pub(super) fn plan(situation: &Situation) -> Plan {
    let object = situation.object.as_ref();
    match (&situation.existing, object) {
        (None, Some(object)) if !situation.followed.is_empty() && !object.deleting => {
            create(situation, object)
        }
        (Some(existing), object) if is_ours(existing, object, situation) => {
            change(existing, object, situation)
        }
        _ => Plan::default(),
    }
}

/// Whether the binding is that of the object, and has to do with dependencies at all. One that belongs to an
/// older object of the name is collected before the new one gets its own.
fn is_ours(existing: &Record, object: Option<&Object>, situation: &Situation) -> bool {
    let other_owner = match (&existing.owner, object) {
        (Some(owner), Some(object)) => *owner != object.uid,
        _ => false,
    };
    let concerned = !existing.depended_by.is_empty() || !situation.followed.is_empty();
    concerned && !existing.deleting && !other_owner && existing.object() == situation.key
}

fn create(situation: &Situation, object: &Object) -> Plan {
    let key = &situation.key;
    let followed = situation.followed.values();
    let labels: Map<String, Value> = followed
        .clone()
        .map(|record| (label_of(&record.key), json!(record.id)))
        .collect();
    let required_by: Vec<Value> = followed.clone().map(|record| snapshot(record)).collect();
    let strategy = Strategy::of(followed.clone().map(|record| &**record));
    let mut spec = json!({ "resource": resource(key, object), "requiredBy": required_by });
    if let Some(strategy) = strategy {
        spec["conflictResolution"] = json!(strategy.conflict_resolution());
        spec["preserveResourcesOnDeletion"] = json!(strategy.preserve);
    }
    let write = json!({
        "apiVersion": "work.karmada.io/v1alpha2",
        "kind": "ResourceBinding",
        "metadata": {
            "name": key.binding().name,
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
        informs: followed.map(|record| record.key.clone()).collect(),
        conflict: strategy.map(|s| s.conflict).unwrap_or_default(),
    }
}

fn change(existing: &Record, object: Option<&Object>, situation: &Situation) -> Plan {
    let mut informs = Vec::new();
    let required_by = required_by(existing, situation, &mut informs);
    let labels = label_changes(existing, situation);
    let mut spec = Map::new();
    if required_by != existing.required_by {
        spec.insert("requiredBy".to_owned(), list_or_nothing(&required_by));
    }
    let all = situation.named.iter().chain(&situation.followed);
    let all: BTreeMap<&BindingKey, &Arc<Record>> = all.collect();
    let remaining = required_by
        .iter()
        .filter_map(|entry| all.get(&name_of(entry)));
    let strategy = Strategy::of(remaining.map(|record| &***record));
    // What a policy decides is not decided here.
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
            let same = stored.uid.as_ref() == Some(&object.uid)
                && stored.resource_version.as_ref() == Some(&object.version);
            if !same && !situation.followed.is_empty() {
                spec.insert("resource".to_owned(), resource(&situation.key, object));
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
        informs,
        conflict: match strategy {
            Some(strategy) if !existing.is_placed => strategy.conflict,
            _ => Conflict::default(),
        },
    }
}

/// The snapshots that should be there, in the order in which they are. Those that nobody has marked by a label
/// were put there by others, and stay.
fn required_by(
    existing: &Record,
    situation: &Situation,
    informs: &mut Vec<BindingKey>,
) -> Vec<Value> {
    let mut entries = Vec::new();
    let mut seen = BTreeSet::new();
    for entry in &existing.required_by {
        let name = name_of(entry);
        let label = label_of(&name);
        if let Some(record) = situation.followed.get(&name) {
            let current = refreshed(entry, record);
            if current != *entry {
                informs.push(record.key.clone());
            }
            entries.push(current);
        } else if situation.unexplored.contains(&label)
            || !existing.depended_by.contains_key(&label)
        {
            entries.push(entry.clone());
        }
        seen.insert(name);
    }
    for (name, record) in &situation.followed {
        if !seen.contains(name) {
            informs.push(record.key.clone());
            entries.push(snapshot(record));
        }
    }
    entries
}

fn label_changes(existing: &Record, situation: &Situation) -> Map<String, Value> {
    let wanted: BTreeMap<String, &String> = situation
        .followed
        .values()
        .map(|record| (label_of(&record.key), &record.id))
        .collect();
    let mut changes = Map::new();
    for (label, id) in &wanted {
        if existing.depended_by.get(label) != Some(*id) {
            changes.insert(label.clone(), json!(id));
        }
    }
    for label in existing.depended_by.keys() {
        if !wanted.contains_key(label) && !situation.unexplored.contains(label) {
            changes.insert(label.clone(), Value::Null);
        }
    }
    changes
}

/// A binding, as those say it that follow it.
fn snapshot(record: &Record) -> Value {
    let entry = json!({ "namespace": record.key.namespace, "name": record.key.name });
    refreshed(&entry, record)
}

fn refreshed(entry: &Value, record: &Record) -> Value {
    let mut entry = entry.clone();
    if let Some(fields) = entry.as_object_mut() {
        if record.clusters.is_empty() {
            fields.remove("clusters");
        } else {
            fields.insert("clusters".to_owned(), json!(record.clusters));
        }
    }
    entry
}

/// The binding that a snapshot is of.
pub(super) fn name_of(entry: &Value) -> BindingKey {
    let text = |field: &str| entry[field].as_str().unwrap_or_default().to_owned();
    BindingKey {
        namespace: text("namespace"),
        name: text("name"),
    }
}

fn list_or_nothing(list: &[Value]) -> Value {
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

/// With a permanent id, for servers without a webhook that gives one.
pub(super) fn identified(mut binding: Value, id: &str) -> Value {
    binding["metadata"]["labels"][RESOURCE_BINDING_PERMANENT_ID] = json!(id);
    binding
}

#[cfg(test)]
#[path = "attachment_tests.rs"]
mod tests;
