//! Objects that are found by their own name and by their owner.

use std::collections::{BTreeMap, HashMap};

/// Namespace and name of an object.
pub(crate) type Key = (String, String);

/// Values of objects, by the UID of the controller that owns the object.
#[derive(Debug)]
pub(crate) struct OwnedIndex<V> {
    owners: HashMap<Key, String>,
    by_owner: HashMap<String, BTreeMap<Key, V>>,
}

impl<V> Default for OwnedIndex<V> {
    fn default() -> Self {
        Self {
            owners: HashMap::new(),
            by_owner: HashMap::new(),
        }
    }
}

impl<V> OwnedIndex<V> {
    /// Adds or replaces the value of an object.
    pub(crate) fn insert(&mut self, key: Key, owner: String, value: V) {
        self.remove(&key);
        self.owners.insert(key.clone(), owner.clone());
        self.by_owner.entry(owner).or_default().insert(key, value);
    }

    /// Removes an object.
    pub(crate) fn remove(&mut self, key: &Key) {
        let Some(owner) = self.owners.remove(key) else {
            return;
        };
        if let Some(values) = self.by_owner.get_mut(&owner) {
            values.remove(key);
            if values.is_empty() {
                self.by_owner.remove(&owner);
            }
        }
    }

    /// Removes the objects that do not satisfy the condition about namespace and name.
    pub(crate) fn retain(&mut self, is_kept: impl Fn(&str, &str) -> bool) {
        let removed = self
            .owners
            .keys()
            .filter(|(namespace, name)| !is_kept(namespace, name));
        for key in removed.cloned().collect::<Vec<_>>() {
            self.remove(&key);
        }
    }

    /// Returns the objects of an owner, sorted by key.
    pub(crate) fn of(&self, owner: &str) -> impl Iterator<Item = (&Key, &V)> {
        self.by_owner.get(owner).into_iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_can_change_their_owner() {
        let key = |name: &str| ("ns".to_owned(), name.to_owned());
        let mut index = OwnedIndex::default();
        index.insert(key("b"), "one".into(), 1);
        index.insert(key("a"), "one".into(), 2);
        let values = |index: &OwnedIndex<i32>, owner| -> Vec<i32> {
            index.of(owner).map(|(_, value)| *value).collect()
        };
        assert_eq!(values(&index, "one"), [2, 1]);
        index.insert(key("a"), "two".into(), 3);
        assert_eq!(
            (values(&index, "one"), values(&index, "two")),
            (vec![1], vec![3])
        );
        index.retain(|_, name| name == "a");
        assert!(values(&index, "one").is_empty());
        index.remove(&key("a"));
        assert!(index.owners.is_empty() && index.by_owner.is_empty());
    }
}
