//! API objects that are decoded on demand.
//!
//! A list or watch stays readable if one of its objects is malformed. An object that is never decoded costs little, for
//! example the object in the event for a write of this process. In a watch event, the field `type` must precede the
//! field `object`, as in the events of every API server.

use std::borrow::Cow;
use std::marker::PhantomData;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// An object whose identity is decoded. Its content is decoded on demand.
#[derive(Clone, Debug)]
pub(crate) struct LazyObject<K> {
    /// Only the name, namespace, UID, resourceVersion and generation.
    metadata: ObjectMeta,
    raw: Box<RawValue>,
    kind: PhantomData<fn() -> K>,
}

impl<K: DeserializeOwned> LazyObject<K> {
    /// Decodes the object.
    ///
    /// # Errors
    /// When the object is malformed.
    pub(crate) fn decode(&self) -> Result<K, serde_json::Error> {
        serde_json::from_str(self.raw.get())
    }
}

impl<K> LazyObject<K> {
    /// Returns the name, namespace, UID, resourceVersion and generation. Other metadata is absent.
    pub(crate) fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }
}

#[derive(Deserialize)]
struct WithIdentity {
    #[serde(default)]
    metadata: Identity,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Identity {
    name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    generation: Option<i64>,
}

impl<'de, K> Deserialize<'de> for LazyObject<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = <&RawValue>::deserialize(deserializer)?;
        let WithIdentity { metadata } =
            serde_json::from_str(raw.get()).map_err(serde::de::Error::custom)?;
        Ok(Self {
            metadata: ObjectMeta {
                name: metadata.name,
                namespace: metadata.namespace,
                uid: metadata.uid,
                resource_version: metadata.resource_version,
                generation: metadata.generation,
                ..ObjectMeta::default()
            },
            raw: raw.to_owned(),
            kind: PhantomData,
        })
    }
}

impl<K: Resource> Resource for LazyObject<K> {
    type DynamicType = K::DynamicType;
    type Scope = K::Scope;

    fn kind(dynamic: &Self::DynamicType) -> Cow<'_, str> {
        K::kind(dynamic)
    }

    fn group(dynamic: &Self::DynamicType) -> Cow<'_, str> {
        K::group(dynamic)
    }

    fn version(dynamic: &Self::DynamicType) -> Cow<'_, str> {
        K::version(dynamic)
    }

    fn plural(dynamic: &Self::DynamicType) -> Cow<'_, str> {
        K::plural(dynamic)
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

#[cfg(test)]
mod tests {
    use berth_api::ResourceBinding;
    use kube::api::{ObjectList, WatchEvent};

    use super::*;

    const READABLE: &str = r#"{"metadata":{"name":"a","generation":2},"spec":{"resource":{"apiVersion":"v1","kind":"ConfigMap","name":"a"}}}"#;
    const MALFORMED: &str = r#"{"metadata":{"name":"b","resourceVersion":"7"},"spec":"none"}"#;

    #[test]
    fn a_malformed_item_leaves_the_list_readable() {
        let list = format!(
            r#"{{"kind":"List","apiVersion":"v1","metadata":{{"resourceVersion":"9"}},"items":[{READABLE},{MALFORMED}]}}"#
        );
        let list: ObjectList<LazyObject<ResourceBinding>> =
            serde_json::from_slice(list.as_bytes()).unwrap();
        assert_eq!(list.items.len(), 2);
        let object = list.items[0].decode().unwrap();
        assert_eq!(object.metadata.name.as_deref(), Some("a"));
        assert_eq!(list.items[0].metadata().generation, Some(2));
        let malformed = &list.items[1];
        assert_eq!(malformed.metadata().name.as_deref(), Some("b"));
        assert_eq!(malformed.metadata().resource_version.as_deref(), Some("7"));
        let error = malformed.decode().unwrap_err().to_string();
        assert!(error.contains("none"), "{error}");
    }

    #[test]
    fn a_malformed_object_in_a_watch_is_a_normal_event() {
        for object in [READABLE, MALFORMED] {
            let line = format!(r#"{{"type":"MODIFIED","object":{object}}}"#);
            let event: WatchEvent<LazyObject<ResourceBinding>> =
                serde_json::from_str(&line).unwrap();
            let WatchEvent::Modified(lazy) = event else {
                panic!("{event:?}")
            };
            assert_eq!(lazy.decode().is_ok(), object == READABLE);
        }
    }
}
