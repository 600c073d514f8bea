//! The state of a member's object after its last write. A later change of the object results in a different hash.

use std::hash::{DefaultHasher, Hash, Hasher};

use berth_api::well_known::WORK_PERMANENT_ID;
use serde_json::Value;

/// Metadata that changes with every write.
pub(super) const VOLATILE: [&str; 3] = ["resourceVersion", "managedFields", "generation"];

/// Hashes of a manifest and of the object that resulted from applying the manifest. The object also contains the
/// server's defaults, which are no drift: the object is up to date while both hashes stay equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AppliedState {
    manifest: u64,
    object: u64,
    /// Hash of the permanent id of the object's Work.
    work: u64,
}

impl AppliedState {
    /// Returns the state after a manifest was applied and the member returned this object.
    pub(crate) fn of(manifest: &Value, object: &Value) -> Self {
        Self {
            manifest: hash(manifest),
            object: hash_content(object),
            work: hash_work(
                object
                    .pointer("/metadata/labels")
                    .and_then(|labels| labels.get(WORK_PERMANENT_ID)),
            ),
        }
    }

    /// Reports whether this manifest was applied.
    pub(super) fn is_of_manifest(self, manifest: &Value) -> bool {
        self.manifest == hash(manifest)
    }

    /// Reports whether the applied object had this permanent id of a Work.
    pub(super) fn is_of_work(self, permanent_id: Option<&Value>) -> bool {
        self.work == hash_work(permanent_id)
    }
}

fn hash_work(permanent_id: Option<&Value>) -> u64 {
    permanent_id.map_or(0, hash)
}

/// Hashes an object without its status and the metadata that changes with every write.
fn hash_content(object: &Value) -> u64 {
    let mut sum = 0_u64;
    for (key, value) in object.as_object().into_iter().flatten() {
        match key.as_str() {
            "status" => {}
            "metadata" => {
                let fields = value.as_object().into_iter().flatten();
                let fields = fields.filter(|(field, _)| !VOLATILE.contains(&field.as_str()));
                for (field, value) in fields {
                    sum = sum.wrapping_add(hash_entry(field, value).rotate_left(1));
                }
            }
            _ => sum = sum.wrapping_add(hash_entry(key, value)),
        }
    }
    sum
}

fn hash_entry(key: &str, value: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    hash(value).hash(&mut hasher);
    hasher.finish()
}

/// Hashes a value independently of the order of fields.
fn hash(value: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    match value {
        Value::Object(fields) => {
            let entries = fields.iter().map(|(key, value)| hash_entry(key, value));
            entries.fold(1_u64, u64::wrapping_add).hash(&mut hasher);
        }
        Value::Array(items) => {
            for item in items {
                hash(item).hash(&mut hasher);
            }
            items.len().hash(&mut hasher);
        }
        other => other.to_string().hash(&mut hasher),
    }
    hasher.finish()
}
