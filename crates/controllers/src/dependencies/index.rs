//! What is known: bindings, what their templates name, and the objects of the kinds that are named.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use berth_api::dependency::DependentObjectReference;

use super::attachment::{Situation, name_of};
use super::record::{Kind, Object, ObjectKey, Record, Role, label_of};
use crate::binding_key::BindingKey;

/// A kind of object in a namespace.
type Place = (Kind, String);

/// Everything that is known.
#[derive(Debug, Default)]
pub(super) struct Index {
    bindings: HashMap<BindingKey, Arc<Record>>,
    /// By the label that those have who follow a binding.
    by_label: HashMap<String, BindingKey>,
    /// Those that have the label.
    attached: HashMap<String, BTreeSet<BindingKey>>,
    /// What templates name, as far as that is known.
    explored: HashMap<BindingKey, Vec<DependentObjectReference>>,
    /// By whom an object is named.
    named: HashMap<ObjectKey, BTreeSet<BindingKey>>,
    /// By whom objects are named by their labels.
    selecting: HashMap<Place, BTreeSet<BindingKey>>,
    objects: HashMap<Place, BTreeMap<String, Object>>,
    /// Kinds whose objects are all known.
    pub(super) listed: HashSet<Kind>,
}

impl Index {
    pub(super) fn binding(&self, key: &BindingKey) -> Option<&Arc<Record>> {
        self.bindings.get(key)
    }

    pub(super) fn binding_keys(&self) -> impl Iterator<Item = &BindingKey> {
        self.bindings.keys()
    }

    /// Keeps a binding; the one of before, if there was one.
    pub(super) fn keep_binding(&mut self, record: Arc<Record>) -> Option<Arc<Record>> {
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
            self.by_label.insert(label_of(&key), key.clone());
        }
        if record.role() == Role::Followed {
            if !self.explored.contains_key(&key)
                && let Some(noted) = record.noted()
            {
                self.names(&key, noted);
            }
        } else {
            self.names_nothing(&key);
        }
        old
    }

    pub(super) fn forget_binding(&mut self, key: &BindingKey) -> Option<Arc<Record>> {
        let record = self.bindings.remove(key)?;
        for label in record.depended_by.keys() {
            self.detach(label, key);
        }
        self.by_label.remove(&label_of(key));
        self.names_nothing(key);
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

    /// The binding that is followed by those with this label.
    pub(super) fn followed_by_label(&self, label: &str) -> Option<&Arc<Record>> {
        self.bindings.get(self.by_label.get(label)?)
    }

    /// The bindings that say that they follow this one.
    pub(super) fn attached_to<'a>(
        &'a self,
        key: &BindingKey,
    ) -> impl Iterator<Item = &'a Arc<Record>> + use<'a> {
        let attached = self.attached.get(&label_of(key)).into_iter().flatten();
        attached.filter_map(|key| self.bindings.get(key))
    }

    /// Notes what the template of a followed binding names.
    pub(super) fn names(&mut self, key: &BindingKey, references: Vec<DependentObjectReference>) {
        self.names_nothing(key);
        for reference in &references {
            let place = place_of(reference);
            let by = if reference.name.is_empty() {
                self.selecting.entry(place).or_default()
            } else {
                self.named
                    .entry(object_in(place, &reference.name))
                    .or_default()
            };
            by.insert(key.clone());
        }
        self.explored.insert(key.clone(), references);
    }

    fn names_nothing(&mut self, key: &BindingKey) {
        for reference in self.explored.remove(key).unwrap_or_default() {
            let place = place_of(&reference);
            if reference.name.is_empty() {
                drop_from(&mut self.selecting, &place, key);
            } else {
                drop_from(&mut self.named, &object_in(place, &reference.name), key);
            }
        }
    }

    /// The objects that a followed binding names: by name, whether they are there or not; by labels, those that are.
    pub(super) fn named_by(&self, key: &BindingKey) -> Vec<ObjectKey> {
        let mut all = Vec::new();
        for reference in self.explored.get(key).into_iter().flatten() {
            let place = place_of(reference);
            if reference.name.is_empty() {
                let objects = self.objects.get(&place).into_iter().flatten();
                let meant =
                    objects.filter(|(name, object)| reference.matches(name, &object.labels));
                all.extend(meant.map(|(name, _)| object_in(place.clone(), name)));
            } else {
                all.push(object_in(place, &reference.name));
            }
        }
        all
    }

    /// Keeps an object; whether it says something else than before.
    pub(super) fn keep_object(&mut self, key: &ObjectKey, object: Object) -> bool {
        let place = (key.kind.clone(), key.namespace.clone());
        let objects = self.objects.entry(place).or_default();
        if let Some(known) = objects.get(&key.name)
            && known.says_the_same(&object)
        {
            return false;
        }
        objects.insert(key.name.clone(), object);
        true
    }

    pub(super) fn forget_object(&mut self, key: &ObjectKey) {
        let place = (key.kind.clone(), key.namespace.clone());
        if let Some(objects) = self.objects.get_mut(&place) {
            objects.remove(&key.name);
            if objects.is_empty() {
                self.objects.remove(&place);
            }
        }
    }

    /// All known objects of a kind.
    pub(super) fn objects_of(&self, kind: &Kind) -> Vec<ObjectKey> {
        let places = self.objects.iter().filter(|((of, _), _)| of == kind);
        let keys = places.flat_map(|(place, objects)| {
            let names = objects.keys();
            names.map(|name| object_in(place.clone(), name))
        });
        keys.collect()
    }

    /// All objects of a kind that are named by name, whether they are there or not.
    pub(super) fn named_of(&self, kind: &Kind) -> Vec<ObjectKey> {
        let keys = self.named.keys().filter(|key| key.kind == *kind);
        keys.cloned().collect()
    }

    /// Whether anybody names an object, or may; or its binding says that somebody does.
    pub(super) fn concerns(&self, key: &ObjectKey) -> bool {
        let binding = self.bindings.get(&key.binding());
        self.may_be_named(key) || binding.is_some_and(|record| !record.depended_by.is_empty())
    }

    fn may_be_named(&self, key: &ObjectKey) -> bool {
        let place = (key.kind.clone(), key.namespace.clone());
        self.named.contains_key(key) || self.selecting.contains_key(&place)
    }

    /// All that counts for the binding of an object; nothing where it has to be waited for the object's kind.
    pub(super) fn situation(&self, key: &ObjectKey) -> Option<Situation> {
        if !self.listed.contains(&key.kind) && self.may_be_named(key) {
            return None;
        }
        let place = (key.kind.clone(), key.namespace.clone());
        let object = self.objects.get(&place).and_then(|all| all.get(&key.name));
        let existing = self.bindings.get(&key.binding());
        let none = BTreeMap::new();
        let labels = object.map_or(&none, |object| &object.labels);
        let by = [self.named.get(key), self.selecting.get(&place)];
        let followed = by
            .into_iter()
            .flatten()
            .flatten()
            .filter(|follower| self.means(follower, &place, &key.name, labels))
            .filter_map(|key| self.bindings.get(key))
            .filter(|record| record.role() == Role::Followed);
        let unexplored = existing.into_iter().flat_map(|record| {
            let labels = record.depended_by.keys();
            labels.filter(|label| self.is_unexplored(label)).cloned()
        });
        let named = existing
            .into_iter()
            .flat_map(|record| &record.required_by)
            .filter_map(|entry| self.bindings.get(&name_of(entry)));
        Some(Situation {
            key: key.clone(),
            object: object.cloned(),
            existing: existing.cloned(),
            followed: followed.map(by_name).collect(),
            unexplored: unexplored.collect(),
            named: named.map(by_name).collect(),
        })
    }

    fn means(
        &self,
        follower: &BindingKey,
        place: &Place,
        name: &str,
        labels: &BTreeMap<String, String>,
    ) -> bool {
        let references = self.explored.get(follower).into_iter().flatten();
        let mut here = references.filter(|reference| place_of(reference) == *place);
        here.any(|reference| reference.matches(name, labels))
    }

    fn is_unexplored(&self, label: &str) -> bool {
        let record = self.followed_by_label(label);
        record.is_some_and(|record| {
            record.role() == Role::Followed && !self.explored.contains_key(&record.key)
        })
    }
}

fn by_name(record: &Arc<Record>) -> (BindingKey, Arc<Record>) {
    (record.key.clone(), Arc::clone(record))
}

fn place_of(reference: &DependentObjectReference) -> Place {
    let kind = Kind {
        api_version: reference.api_version.clone(),
        kind: reference.kind.clone(),
    };
    (kind, reference.namespace.clone())
}

fn object_in(place: Place, name: &str) -> ObjectKey {
    ObjectKey {
        kind: place.0,
        namespace: place.1,
        name: name.to_owned(),
    }
}

fn drop_from<K: Eq + std::hash::Hash>(
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
#[path = "index_tests.rs"]
mod tests;
