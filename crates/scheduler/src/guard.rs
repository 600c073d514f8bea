//! Objects that may be malformed: one that cannot be read does not make a list or a watch unreadable.
//!
//! kube's own guard builds a tree of generic values and copies it, which costs more than everything else
//! that is done to an object here. This one keeps the bytes and reads them once; a second time only where
//! the first has failed. It relies on watch events that name their type before their object, as every API
//! server writes them.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// An object, or what can be said of one that cannot be read.
#[derive(Clone, Debug)]
pub struct Guarded<K>(pub Result<K, Invalid>);

/// An object that cannot be read.
#[derive(Clone, Debug)]
pub struct Invalid {
    /// Why not.
    pub error: String,
    /// Its metadata.
    pub metadata: ObjectMeta,
}

#[derive(Deserialize)]
struct MetadataOnly {
    #[serde(default)]
    metadata: ObjectMeta,
}

impl<'de, K: DeserializeOwned> Deserialize<'de> for Guarded<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = <&RawValue>::deserialize(deserializer)?.get();
        match serde_json::from_str(raw) {
            Ok(object) => Ok(Self(Ok(object))),
            Err(error) => {
                let MetadataOnly { metadata } =
                    serde_json::from_str(raw).map_err(serde::de::Error::custom)?;
                Ok(Self(Err(Invalid {
                    error: error.to_string(),
                    metadata,
                })))
            }
        }
    }
}

impl<K: Resource> Resource for Guarded<K> {
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
        match &self.0 {
            Ok(object) => object.meta(),
            Err(invalid) => &invalid.metadata,
        }
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        match &mut self.0 {
            Ok(object) => object.meta_mut(),
            Err(invalid) => &mut invalid.metadata,
        }
    }
}

#[cfg(test)]
mod tests {
    use berth_api::ResourceBinding;
    use kube::api::{ObjectList, WatchEvent};

    use super::*;

    const READABLE: &str = r#"{"metadata":{"name":"a"},"spec":{"resource":{"apiVersion":"v1","kind":"ConfigMap","name":"a"}}}"#;
    const MALFORMED: &str = r#"{"metadata":{"name":"b","resourceVersion":"7"},"spec":"none"}"#;

    #[test]
    fn a_malformed_item_leaves_the_list_readable() {
        let list = format!(
            r#"{{"kind":"List","apiVersion":"v1","metadata":{{"resourceVersion":"9"}},"items":[{READABLE},{MALFORMED}]}}"#
        );
        let list: ObjectList<Guarded<ResourceBinding>> =
            serde_json::from_slice(list.as_bytes()).unwrap();
        assert_eq!(list.items.len(), 2);
        assert_eq!(
            list.items[0].0.as_ref().unwrap().metadata.name.as_deref(),
            Some("a")
        );
        let invalid = list.items[1].0.as_ref().unwrap_err();
        assert_eq!(invalid.metadata.name.as_deref(), Some("b"));
        assert!(invalid.error.contains("none"), "{}", invalid.error);
    }

    #[test]
    fn a_malformed_object_of_a_watch_is_an_event_like_others() {
        for object in [READABLE, MALFORMED] {
            let line = format!(r#"{{"type":"MODIFIED","object":{object}}}"#);
            let event: WatchEvent<Guarded<ResourceBinding>> = serde_json::from_str(&line).unwrap();
            let WatchEvent::Modified(guarded) = event else {
                panic!("{event:?}")
            };
            assert_eq!(guarded.0.is_ok(), object == READABLE);
        }
    }
}
