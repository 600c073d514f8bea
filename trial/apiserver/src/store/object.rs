//! A stored object: its JSON bytes, and the metadata that reads and garbage collection need without parsing the bytes.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use serde::ser::{Serialize, SerializeMap as _, Serializer};
use serde_json::Value;

/// The key of an object within its table.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Key {
    pub(crate) namespace: Arc<str>,
    pub(crate) name: Arc<str>,
}

impl Key {
    pub(crate) fn new(namespace: &str, name: &str) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
        }
    }
}

/// A reference to the owner of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) uid: Box<str>,
    pub(crate) blocks: bool,
}

/// One immutable version of an object. The table, the history and all readers share this value.
#[derive(Debug)]
pub(crate) struct Stored {
    pub(crate) key: Key,
    pub(crate) version: u64,
    pub(crate) uid: Box<str>,
    pub(crate) api_version: Box<str>,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) owners: Vec<Owner>,
    pub(crate) finalizers: Vec<String>,
    pub(crate) deleting: bool,
    pub(crate) bytes: Bytes,
}

impl Stored {
    /// Serialises `value`. Its metadata must already contain `version`.
    pub(crate) fn new(key: Key, version: u64, value: &Value) -> Result<Self, serde_json::Error> {
        Ok(Self::with_bytes(
            key,
            version,
            value,
            Bytes::from(encode(value)?),
        ))
    }

    pub(crate) fn with_bytes(key: Key, version: u64, value: &Value, bytes: Bytes) -> Self {
        let meta = &value["metadata"];
        let labels = meta["labels"]
            .as_object()
            .map(|m| {
                m.iter()
                    .filter_map(|(k, v)| Some((k.clone(), v.as_str()?.to_owned())))
                    .collect()
            })
            .unwrap_or_default();
        let owners = meta["ownerReferences"]
            .as_array()
            .map(|list| {
                list.iter()
                    .filter_map(|o| {
                        Some(Owner {
                            uid: o["uid"].as_str()?.into(),
                            blocks: o["blockOwnerDeletion"].as_bool().unwrap_or(false),
                        })
                    })
                    .collect()
            })
            .unwrap_or_default();
        let finalizers = meta["finalizers"]
            .as_array()
            .map(|list| {
                list.iter()
                    .filter_map(|f| f.as_str().map(str::to_owned))
                    .collect()
            })
            .unwrap_or_default();
        Self {
            key,
            version,
            uid: meta["uid"].as_str().unwrap_or_default().into(),
            api_version: value["apiVersion"].as_str().unwrap_or_default().into(),
            labels,
            owners,
            finalizers,
            deleting: meta.get("deletionTimestamp").is_some_and(|d| !d.is_null()),
            bytes,
        }
    }

    /// Parses the JSON bytes of the object.
    pub(crate) fn value(&self) -> Value {
        // The bytes were serialised or parsed before, so parsing cannot fail.
        serde_json::from_slice(&self.bytes).unwrap_or_default()
    }
}

/// Serialises an object with its kind and API version first.
pub(crate) fn encode(value: &Value) -> Result<Vec<u8>, serde_json::Error> {
    serde_json::to_vec(&TypeFirst(value))
}

/// The serialised form of an object with kind and API version first, as in kube-apiserver. Thus lists can remove these
/// fields without parsing.
struct TypeFirst<'a>(&'a Value);

const TYPE: [&str; 2] = ["kind", "apiVersion"];

impl Serialize for TypeFirst<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Some(object) = self.0.as_object() else {
            return self.0.serialize(serializer);
        };
        let mut map = serializer.serialize_map(Some(object.len()))?;
        for name in TYPE {
            if let Some(value) = object.get(name) {
                map.serialize_entry(name, value)?;
            }
        }
        for (name, value) in object {
            if !TYPE.contains(&name.as_str()) {
                map.serialize_entry(name, value)?;
            }
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn objects_are_serialised_with_their_type_first() {
        let object =
            json!({"apiVersion": "v1", "data": {"kind": "x"}, "kind": "A", "metadata": {}});
        let stored = Stored::new(Key::new("n", "a"), 1, &object).unwrap();
        assert!(
            stored
                .bytes
                .starts_with(br#"{"kind":"A","apiVersion":"v1","data":"#)
        );
        assert_eq!(stored.value(), object);
        let untyped = json!({"metadata": {"name": "a"}});
        let stored = Stored::new(Key::new("n", "a"), 1, &untyped).unwrap();
        assert_eq!(stored.value(), untyped);
    }
}
