//! Hashes of observed objects, kept in memory. A controller compares them to detect whether an object changed, and
//! whether a user changed the object. The controller therefore need not store the whole object.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use berth_api::well_known::SKIP_AUTO_PROPAGATION;
use kube::api::DynamicObject;
use serde_json::Value;

/// The text in the keys of labels and annotations that Karmada's controllers write.
const SYSTEM_KEYS: &str = ".karmada.io";

/// Hashes of an object, with and without the fields that controllers write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fingerprints {
    /// The hash of all fields except the status, the managed fields and the resource version.
    pub all: u64,
    /// The hash without the generation and without the labels and annotations that controllers write.
    pub by_user: u64,
}

impl Fingerprints {
    /// Hashes an object.
    pub fn of(object: &DynamicObject) -> Self {
        let meta = &object.metadata;
        let labels = meta.labels.as_ref();
        let annotations = meta.annotations.as_ref();
        let mut user = DefaultHasher::new();
        meta.uid.hash(&mut user);
        meta.name.hash(&mut user);
        meta.finalizers.hash(&mut user);
        meta.deletion_timestamp.is_some().hash(&mut user);
        for owner in meta.owner_references.iter().flatten() {
            owner.uid.hash(&mut user);
        }
        let by_user = |key: &str| !key.contains(SYSTEM_KEYS);
        hash_map(labels, |key| by_user(key) || key == SKIP_AUTO_PROPAGATION).hash(&mut user);
        hash_map(annotations, by_user).hash(&mut user);
        if let Some(fields) = object.data.as_object() {
            let content = fields.iter().filter(|(field, _)| *field != "status");
            combine(content.map(|(field, value)| hash_entry(field, hash_value(value))))
                .hash(&mut user);
        }
        let by_user = user.finish();
        let mut all = DefaultHasher::new();
        by_user.hash(&mut all);
        meta.generation.hash(&mut all);
        hash_map(labels, |_| true).hash(&mut all);
        hash_map(annotations, |_| true).hash(&mut all);
        Self {
            all: all.finish(),
            by_user,
        }
    }

    /// Returns the fingerprints of the object after a controller has changed labels or annotations. `marks` identifies
    /// the change. The hash `by_user` stays the same.
    pub(crate) fn with_marks(self, marks: &str) -> Self {
        Self {
            all: hash_of(&(self.all, marks)),
            ..self
        }
    }
}

fn hash_map(map: Option<&BTreeMap<String, String>>, keep: impl Fn(&str) -> bool) -> u64 {
    let entries = map.into_iter().flatten().filter(|(key, _)| keep(key));
    combine(entries.map(|(key, value)| hash_entry(key, hash_of(value))))
}

/// Combines hashes independently of their order.
fn combine(hashes: impl Iterator<Item = u64>) -> u64 {
    hashes.fold(0, u64::wrapping_add)
}

fn hash_entry(key: &str, value: u64) -> u64 {
    hash_of(&(key, value))
}

fn hash_of(value: &(impl Hash + ?Sized)) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

fn hash_value(value: &Value) -> u64 {
    match value {
        Value::Null => hash_of("null"),
        Value::Bool(flag) => hash_of(flag),
        Value::Number(number) => hash_of(&("number", number.to_string())),
        Value::String(text) => hash_of(text),
        Value::Array(list) => hash_of(&list.iter().map(hash_value).collect::<Vec<_>>()),
        Value::Object(map) => hash_of(&(
            "object",
            combine(
                map.iter()
                    .map(|(key, value)| hash_entry(key, hash_value(value))),
            ),
        )),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(object: Value) -> Fingerprints {
        Fingerprints::of(&serde_json::from_value(object).unwrap())
    }

    #[test]
    fn changes_by_users_and_by_the_system_are_distinguished() {
        let base = json!({
            "metadata": {"name": "a", "uid": "u", "generation": 1, "resourceVersion": "1"},
            "spec": {"replicas": 1},
        });
        let before = of(base.clone());
        // The changed field, its value, and whether the hashes `all` and `by_user` change.
        for (path, value, counts, by_user) in [
            ("/metadata/resourceVersion", json!("2"), false, false),
            ("/status", json!({"ready": 1}), false, false),
            ("/metadata/generation", json!(2), true, false),
            (
                "/metadata/labels",
                json!({"propagationpolicy.karmada.io/permanent-id": "x"}),
                true,
                false,
            ),
            (
                "/metadata/annotations",
                json!({"propagationpolicy.karmada.io/name": "x"}),
                true,
                false,
            ),
            (
                "/metadata/labels",
                json!({"namespace.karmada.io/skip-auto-propagation": "true"}),
                true,
                true,
            ),
            ("/metadata/labels", json!({"app": "web"}), true, true),
            ("/metadata/annotations", json!({"note": "x"}), true, true),
            ("/spec/replicas", json!(2), true, true),
            ("/spec", json!({"replicas": 1, "paused": true}), true, true),
        ] {
            let mut changed = base.clone();
            let (parent, key) = path.rsplit_once('/').unwrap();
            changed.pointer_mut(parent).unwrap()[key] = value;
            let after = of(changed);
            assert_eq!(after.all != before.all, counts, "{path}");
            assert_eq!(after.by_user != before.by_user, by_user, "{path}");
        }
    }
}
