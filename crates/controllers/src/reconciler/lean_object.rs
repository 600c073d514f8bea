//! The objects of a watch, without most of their managed fields.
//!
//! Managed fields take a third of an object, and of these fields, only the entries of the subresource `scale` are used,
//! which name an autoscaler. They are skipped while the object is parsed. The other fields are parsed once: the derived parser of
//! [`DynamicObject`] reads each field twice, because it flattens them.

use std::borrow::Cow;
use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, ObjectMeta};
use kube::Resource;
use kube::api::{ApiResource, DynamicObject, TypeMeta};
use serde::de::value::{CowStrDeserializer, MapAccessDeserializer};
use serde::de::{DeserializeSeed, Error, IntoDeserializer as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

/// An object without managed fields except those of the subresource `scale`. It is parsed from JSON text only. In a watch
/// event, the field `type` must precede the field `object`, as in the events of every API server.
#[derive(Clone, Debug)]
pub(crate) struct LeanObject(pub(crate) DynamicObject);

impl<'de> Deserialize<'de> for LeanObject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ObjectVisitor)
    }
}

struct ObjectVisitor;

impl<'de> Visitor<'de> for ObjectVisitor {
    type Value = LeanObject;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a Kubernetes object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<LeanObject, A::Error> {
        let (mut api_version, mut kind) = (None, None);
        let mut metadata = ObjectMeta::default();
        let mut data = Map::new();
        while let Some(key) = fields.next_key::<Cow<'de, str>>()? {
            match &*key {
                "apiVersion" => api_version = fields.next_value::<Option<String>>()?,
                "kind" => kind = fields.next_value::<Option<String>>()?,
                "metadata" => metadata = fields.next_value::<LeanMetadata>()?.0,
                _ => {
                    data.insert(key.into_owned(), fields.next_value()?);
                }
            }
        }
        let types = api_version.zip(kind);
        Ok(LeanObject(DynamicObject {
            types: types.map(|(api_version, kind)| TypeMeta { api_version, kind }),
            metadata,
            data: Value::Object(data),
        }))
    }
}

struct LeanMetadata(ObjectMeta);

impl<'de> Deserialize<'de> for LeanMetadata {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(MetadataVisitor)
    }
}

struct MetadataVisitor;

impl<'de> Visitor<'de> for MetadataVisitor {
    type Value = LeanMetadata;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("the metadata of an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<LeanMetadata, A::Error> {
        let mut of_scale = Vec::new();
        let others = OtherFields {
            fields,
            of_scale: &mut of_scale,
        };
        let mut metadata = ObjectMeta::deserialize(MapAccessDeserializer::new(others))?;
        metadata.managed_fields = Some(of_scale).filter(|entries| !entries.is_empty());
        Ok(LeanMetadata(metadata))
    }
}

/// The fields of the metadata except `managedFields`.
struct OtherFields<'a, A> {
    fields: A,
    of_scale: &'a mut Vec<ManagedFieldsEntry>,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for OtherFields<'_, A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, A::Error> {
        while let Some(key) = self.fields.next_key::<Cow<'de, str>>()? {
            if key != "managedFields" {
                let key: CowStrDeserializer<'de, A::Error> = key.into_deserializer();
                return seed.deserialize(key).map(Some);
            }
            let entries = self.fields.next_value::<Option<Vec<&'de RawValue>>>()?;
            for entry in entries.into_iter().flatten() {
                if entry.get().contains(r#""scale""#) {
                    let entry: ManagedFieldsEntry =
                        serde_json::from_str(entry.get()).map_err(A::Error::custom)?;
                    if entry.subresource.as_deref() == Some("scale") {
                        self.of_scale.push(entry);
                    }
                }
            }
        }
        Ok(None)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        self.fields.next_value_seed(seed)
    }
}

impl Resource for LeanObject {
    type DynamicType = ApiResource;
    type Scope = <DynamicObject as Resource>::Scope;

    fn kind(resource: &ApiResource) -> Cow<'_, str> {
        DynamicObject::kind(resource)
    }

    fn group(resource: &ApiResource) -> Cow<'_, str> {
        DynamicObject::group(resource)
    }

    fn version(resource: &ApiResource) -> Cow<'_, str> {
        DynamicObject::version(resource)
    }

    fn plural(resource: &ApiResource) -> Cow<'_, str> {
        DynamicObject::plural(resource)
    }

    fn meta(&self) -> &ObjectMeta {
        self.0.meta()
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        self.0.meta_mut()
    }
}

#[cfg(test)]
mod tests {
    use kube::api::WatchEvent;
    use serde_json::json;

    use super::*;

    /// Parses an object in a watch event.
    fn parse(object: &Value) -> Result<DynamicObject, serde_json::Error> {
        let line = format!(r#"{{"type":"MODIFIED","object":{object}}}"#);
        match serde_json::from_str(&line)? {
            WatchEvent::Modified(LeanObject(object)) => Ok(object),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_object_equals_the_derived_parser_s_except_for_managed_fields() {
        let labels = json!({ "app": "w\u{e9}b \"x\"" });
        for object in [
            json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "a", "labels": labels,
                "creationTimestamp": "2026-01-01T00:00:00Z", "generation": 3, "finalizers": ["f"],
                "ownerReferences": [{ "apiVersion": "v1", "kind": "K", "name": "o", "uid": "1" }] },
                "data": { "a": "b" }, "type": "Opaque" }),
            json!({ "metadata": { "name": "a" }, "spec": null }),
            json!({ "kind": "Secret", "metadata": {} }),
            json!({ "metadata": { "name": "a", "unknown": { "x": 1 }, "managedFields": null } }),
            json!({}),
        ] {
            let derived: DynamicObject = serde_json::from_value(object.clone()).unwrap();
            assert_eq!(parse(&object).unwrap(), derived, "{object}");
        }
    }

    #[test]
    fn only_the_managed_fields_of_the_subresource_scale_are_kept() {
        let entry = |manager: &str, subresource: &str| {
            json!({ "manager": manager, "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1",
                "fieldsV1": { "f:spec": { "f:replicas": {}, "f:scale": {} } }, "subresource": subresource })
        };
        let entries = [
            entry("kubectl", ""),
            entry("hpa", "scale"),
            entry("scale", "status"),
        ];
        let object = json!({ "metadata": { "managedFields": entries, "name": "a" } });
        let metadata = parse(&object).unwrap().metadata;
        assert_eq!(metadata.name.as_deref(), Some("a"));
        let managers = metadata.managed_fields.into_iter().flatten();
        let managers: Vec<_> = managers.filter_map(|entry| entry.manager).collect();
        assert_eq!(managers, ["hpa"]);
    }

    #[test]
    fn a_malformed_object_is_an_error() {
        for object in [json!([]), json!({ "metadata": 1 }), json!({ "kind": 1 })] {
            assert!(parse(&object).is_err(), "{object}");
        }
    }
}
