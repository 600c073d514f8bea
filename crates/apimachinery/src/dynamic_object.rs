//! Conversion between typed objects and [`DynamicObject`]s.
//!
//! For each type, the compiler generates another copy of the whole client and watch code. Clients that read few objects
//! can avoid these copies: they request [`DynamicObject`]s, and convert each object with the functions of this module.

use kube::Resource;
use kube::api::DynamicObject;
use kube::runtime::watcher::Event;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// Returns the typed form of an object.
///
/// # Errors
/// When a field does not have the type that `K` declares. The error does not name the object.
pub fn decode<K: Resource + DeserializeOwned>(
    object: DynamicObject,
) -> Result<K, serde_json::Error> {
    let mut data = object.data;
    // Kinds of kube-derive require the field. Its content follows below without a conversion.
    if let Some(fields) = data.as_object_mut() {
        fields.insert("metadata".to_owned(), Value::Object(Map::new()));
    }
    let mut typed: K = serde_json::from_value(data)?;
    *typed.meta_mut() = object.metadata;
    Ok(typed)
}

/// Returns the dynamic form of an object.
///
/// # Errors
/// When the object cannot be represented in JSON.
pub fn encode<K: Resource + Serialize>(object: &K) -> Result<DynamicObject, serde_json::Error> {
    let mut data = serde_json::to_value(object)?;
    if let Some(fields) = data.as_object_mut() {
        fields.remove("metadata");
    }
    Ok(DynamicObject {
        // `apiVersion` and `kind` are in the data.
        types: None,
        metadata: object.meta().clone(),
        data,
    })
}

/// Returns the typed form of a watch event.
///
/// # Errors
/// When the object is malformed.
pub fn decode_event<K: Resource + DeserializeOwned>(
    event: Event<DynamicObject>,
) -> Result<Event<K>, serde_json::Error> {
    Ok(match event {
        Event::Init => Event::Init,
        Event::InitDone => Event::InitDone,
        Event::InitApply(object) => Event::InitApply(decode(object)?),
        Event::Apply(object) => Event::Apply(decode(object)?),
        Event::Delete(object) => Event::Delete(decode(object)?),
    })
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::json;

    use super::*;

    #[test]
    fn an_object_survives_both_conversions() {
        let source = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "name": "c", "namespace": "n", "labels": { "a": "b" } },
            "data": { "key": "value" },
        });
        let dynamic: DynamicObject = serde_json::from_value(source.clone()).unwrap();
        let typed: ConfigMap = decode(dynamic).unwrap();
        assert_eq!(serde_json::to_value(&typed).unwrap(), source);
        let dynamic = encode(&typed).unwrap();
        assert_eq!(serde_json::to_value(dynamic).unwrap(), source);
    }

    #[test]
    fn a_field_of_the_wrong_type_is_an_error() {
        let source = json!({ "metadata": { "name": "c" }, "data": { "key": 1 } });
        let dynamic: DynamicObject = serde_json::from_value(source).unwrap();
        let error = decode::<ConfigMap>(dynamic).unwrap_err().to_string();
        assert!(error.contains("expected a string"), "{error}");
    }
}
