//! The index of the distributor: the observed bindings, their dependencies, and the observed objects that may be
//! dependencies.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use berth_api::BindingKey;
use berth_api::dependency::DependentObjectReference;

use super::attachment::{AttachmentInput, key_of_snapshot};
use super::record::{BindingRecord, Object, ObjectKey, ObjectKind, Role, reference_label};

/// A kind of objects and a namespace.
type NamespacedKind = (ObjectKind, String);

/// The observed bindings and objects.
#[derive(Debug, Default)]
pub(super) struct Index {
    bindings: HashMap<BindingKey, Arc<BindingRecord>>,
    /// All bindings, each by the reference label that refers to the binding.
    by_label: HashMap<String, BindingKey>,
    /// The attached bindings that have a reference label, by this label.
    attached: HashMap<String, BTreeSet<BindingKey>>,
    /// The resolved dependencies of independent bindings.
    dependencies: HashMap<BindingKey, Vec<DependentObjectReference>>,
    /// The independent bindings that refer to an object by name. The key is the object.
    by_object: HashMap<ObjectKey, BTreeSet<BindingKey>>,
    /// The independent bindings that select objects by labels. The key is the kind and the namespace of the objects.
    by_selected_kind: HashMap<NamespacedKind, BTreeSet<BindingKey>>,
    objects: HashMap<NamespacedKind, BTreeMap<String, Object>>,
    /// The kinds whose first list of objects is complete.
    pub(super) listed: HashSet<ObjectKind>,
}

impl Index {
    pub(super) fn binding(&self, key: &BindingKey) -> Option<&Arc<BindingRecord>> {
        self.bindings.get(key)
    }

    pub(super) fn binding_keys(&self) -> impl Iterator<Item = &BindingKey> {
        self.bindings.keys()
    }

    /// Stores a binding. Returns the replaced record.
    pub(super) fn put_binding(&mut self, record: Arc<BindingRecord>) -> Option<Arc<BindingRecord>> {
        let key = record.key.clone();
        let old = self.bindings.insert(key.clone(), Arc::clone(&record));
        for label in old.iter().flat_map(|old| old.depended_by.keys()) {
            if !record.depended_by.contains_key(label) {
                self.detach(label, &key);
            }
        }
        for label in record.depended_by.keys() {
            let attached = self.attached.entry(label.clone()).or_default();
            attached.insert(key.clone());
        }
        if old.is_none() {
            self.by_label.insert(reference_label(&key), key.clone());
        }
        if record.role() == Role::Independent {
            if !self.dependencies.contains_key(&key)
                && let Some(stored) = record.stored_dependencies()
            {
                self.set_dependencies(&key, stored);
            }
        } else {
            self.clear_dependencies(&key);
        }
        old
    }

    /// Removes a binding. Returns its record.
    pub(super) fn remove_binding(&mut self, key: &BindingKey) -> Option<Arc<BindingRecord>> {
        let record = self.bindings.remove(key)?;
        for label in record.depended_by.keys() {
            self.detach(label, key);
        }
        self.by_label.remove(&reference_label(key));
        self.clear_dependencies(key);
        Some(record)
    }

    fn detach(&mut self, label: &str, key: &BindingKey) {
        if let Some(attached) = self.attached.get_mut(label) {
            attached.remove(key);
            if attached.is_empty() {
                self.attached.remove(label);
            }
        }
    }

    /// Returns the binding to which a reference label refers.
    pub(super) fn binding_with_label(&self, label: &str) -> Option<&Arc<BindingRecord>> {
        self.bindings.get(self.by_label.get(label)?)
    }

    /// Returns the attached bindings that refer to an independent binding.
    pub(super) fn attached_to<'a>(
        &'a self,
        key: &BindingKey,
    ) -> impl Iterator<Item = &'a Arc<BindingRecord>> + use<'a> {
        let attached = self
            .attached
            .get(&reference_label(key))
            .into_iter()
            .flatten();
        attached.filter_map(|key| self.bindings.get(key))
    }

    /// Stores the dependencies of an independent binding.
    pub(super) fn set_dependencies(
        &mut self,
        key: &BindingKey,
        references: Vec<DependentObjectReference>,
    ) {
        self.clear_dependencies(key);
        for reference in &references {
            let namespaced_kind = kind_of(reference);
            let by = if reference.name.is_empty() {
                self.by_selected_kind.entry(namespaced_kind).or_default()
            } else {
                self.by_object
                    .entry(object_in(namespaced_kind, &reference.name))
                    .or_default()
            };
            by.insert(key.clone());
        }
        self.dependencies.insert(key.clone(), references);
    }

    fn clear_dependencies(&mut self, key: &BindingKey) {
        for reference in self.dependencies.remove(key).unwrap_or_default() {
            let namespaced_kind = kind_of(&reference);
            if reference.name.is_empty() {
                remove_from(&mut self.by_selected_kind, &namespaced_kind, key);
            } else {
                remove_from(
                    &mut self.by_object,
                    &object_in(namespaced_kind, &reference.name),
                    key,
                );
            }
        }
    }

    /// Returns the dependencies of an independent binding. An object that the template refers to by name is included
    /// even if it does not exist. A label selector includes the existing objects that match.
    pub(super) fn dependencies_of(&self, key: &BindingKey) -> Vec<ObjectKey> {
        let mut all = Vec::new();
        for reference in self.dependencies.get(key).into_iter().flatten() {
            let namespaced_kind = kind_of(reference);
            if reference.name.is_empty() {
                let objects = self.objects.get(&namespaced_kind).into_iter().flatten();
                let meant =
                    objects.filter(|(name, object)| reference.matches(name, &object.labels));
                all.extend(meant.map(|(name, _)| object_in(namespaced_kind.clone(), name)));
            } else {
                all.push(object_in(namespaced_kind, &reference.name));
            }
        }
        all
    }

    /// Stores an object. Reports whether the content of the object changed.
    pub(super) fn put_object(&mut self, key: &ObjectKey, object: Object) -> bool {
        let namespaced_kind = (key.kind.clone(), key.namespace.clone());
        let objects = self.objects.entry(namespaced_kind).or_default();
        if let Some(known) = objects.get(&key.name)
            && known.semantically_eq(&object)
        {
            return false;
        }
        objects.insert(key.name.clone(), object);
        true
    }

    /// Removes an object.
    pub(super) fn remove_object(&mut self, key: &ObjectKey) {
        let namespaced_kind = (key.kind.clone(), key.namespace.clone());
        if let Some(objects) = self.objects.get_mut(&namespaced_kind) {
            objects.remove(&key.name);
            if objects.is_empty() {
                self.objects.remove(&namespaced_kind);
            }
        }
    }

    /// Returns the existing objects of a kind.
    pub(super) fn objects_of(&self, kind: &ObjectKind) -> Vec<ObjectKey> {
        let namespaced_kinds = self.objects.iter().filter(|((of, _), _)| of == kind);
        let keys = namespaced_kinds.flat_map(|(namespaced_kind, objects)| {
            let names = objects.keys();
            names.map(|name| object_in(namespaced_kind.clone(), name))
        });
        keys.collect()
    }

    /// Returns the objects of a kind that templates refer to by name, including objects that do not exist.
    pub(super) fn named_of(&self, kind: &ObjectKind) -> Vec<ObjectKey> {
        let keys = self.by_object.keys().filter(|key| key.kind == *kind);
        keys.cloned().collect()
    }

    /// Reports whether an object may be a dependency, or has an attached binding.
    pub(super) fn is_relevant(&self, key: &ObjectKey) -> bool {
        let binding = self.bindings.get(&key.binding());
        self.may_be_dependency(key) || binding.is_some_and(|record| !record.depended_by.is_empty())
    }

    fn may_be_dependency(&self, key: &ObjectKey) -> bool {
        let namespaced_kind = (key.kind.clone(), key.namespace.clone());
        self.by_object.contains_key(key) || self.by_selected_kind.contains_key(&namespaced_kind)
    }

    /// Returns the input for the attached binding of an object. Returns `None` if the object may be a dependency and
    /// the objects of its kind are not listed yet.
    pub(super) fn attachment_input(&self, key: &ObjectKey) -> Option<AttachmentInput> {
        if !self.listed.contains(&key.kind) && self.may_be_dependency(key) {
            return None;
        }
        let namespaced_kind = (key.kind.clone(), key.namespace.clone());
        let object = self
            .objects
            .get(&namespaced_kind)
            .and_then(|all| all.get(&key.name));
        let existing = self.bindings.get(&key.binding());
        let none = BTreeMap::new();
        let labels = object.map_or(&none, |object| &object.labels);
        let by = [
            self.by_object.get(key),
            self.by_selected_kind.get(&namespaced_kind),
        ];
        let independent = by
            .into_iter()
            .flatten()
            .flatten()
            .filter(|independent| self.depends_on(independent, &namespaced_kind, &key.name, labels))
            .filter_map(|key| self.bindings.get(key))
            .filter(|record| record.role() == Role::Independent);
        let unresolved = existing.into_iter().flat_map(|record| {
            let labels = record.depended_by.keys();
            labels.filter(|label| self.is_unresolved(label)).cloned()
        });
        let referenced = existing
            .into_iter()
            .flat_map(|record| &record.required_by)
            .filter_map(|entry| self.bindings.get(&key_of_snapshot(entry)));
        Some(AttachmentInput {
            key: key.clone(),
            object: object.cloned(),
            existing: existing.cloned(),
            independent: independent.map(with_key).collect(),
            unresolved: unresolved.collect(),
            referenced: referenced.map(with_key).collect(),
        })
    }

    /// Reports whether an independent binding depends on an object.
    fn depends_on(
        &self,
        independent: &BindingKey,
        namespaced_kind: &NamespacedKind,
        name: &str,
        labels: &BTreeMap<String, String>,
    ) -> bool {
        let references = self.dependencies.get(independent).into_iter().flatten();
        let mut of_kind = references.filter(|reference| kind_of(reference) == *namespaced_kind);
        of_kind.any(|reference| reference.matches(name, labels))
    }

    fn is_unresolved(&self, label: &str) -> bool {
        let record = self.binding_with_label(label);
        record.is_some_and(|record| {
            record.role() == Role::Independent && !self.dependencies.contains_key(&record.key)
        })
    }
}

fn with_key(record: &Arc<BindingRecord>) -> (BindingKey, Arc<BindingRecord>) {
    (record.key.clone(), Arc::clone(record))
}

fn kind_of(reference: &DependentObjectReference) -> NamespacedKind {
    let kind = ObjectKind {
        api_version: reference.api_version.clone(),
        kind: reference.kind.clone(),
    };
    (kind, reference.namespace.clone())
}

fn object_in(namespaced_kind: NamespacedKind, name: &str) -> ObjectKey {
    ObjectKey {
        kind: namespaced_kind.0,
        namespace: namespaced_kind.1,
        name: name.to_owned(),
    }
}

fn remove_from<K: Eq + std::hash::Hash>(
    map: &mut HashMap<K, BTreeSet<BindingKey>>,
    key: &K,
    binding: &BindingKey,
) {
    if let Some(all) = map.get_mut(key) {
        all.remove(binding);
        if all.is_empty() {
            map.remove(key);
        }
    }
}

#[cfg(test)]
mod tests;
