//! OpenAPI v2: the schemas of all groups in one document without paths, as JSON or protobuf.

use axum::body::Body;
use bytes::Bytes;
use http::{HeaderMap, Response};
use serde_json::{Map, Value, json};

use super::{document, gnostic};
use crate::error::{ApiError, Reason};
use crate::http::accept::is_json;
use crate::http::{discovery, etag, respond};
use crate::registry::Snapshot;

/// The two spellings of the media type of the protobuf form.
const PROTOBUF: [&str; 2] = [
    "application/com.github.proto-openapi.spec.v2.v1.0+protobuf",
    "application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
];

/// The extension that lists the kinds of a definition.
const KINDS: &str = "x-kubernetes-group-version-kind";

/// Serves `/openapi/v2`.
pub(crate) fn serve(
    snapshot: &Snapshot,
    headers: &HeaderMap,
    accept: &str,
) -> Result<Response<Body>, ApiError> {
    let mut accepted = accept
        .split(',')
        .filter_map(|entry| entry.split(';').next())
        .map(str::trim)
        .filter(|media| is_json(media) || PROTOBUF.contains(media));
    let media = match accepted.next() {
        Some(media) if PROTOBUF.contains(&media) => PROTOBUF[0],
        Some(_) => "application/json",
        None if accept.is_empty() => "application/json",
        None => {
            return Err(ApiError::new(
                Reason::NotAcceptable,
                "only application/json and the protobuf form of OpenAPI v2 are served here",
            ));
        }
    };
    let json = snapshot.documents.openapi_v2.get_or_init(|| {
        let contents = serde_json::to_vec(&document_of_all(snapshot)).unwrap_or_default();
        (etag::of(&contents), Bytes::from(contents))
    });
    let (tag, contents) = json;
    if etag::matches(headers, tag) {
        let response = etag::set(respond::bytes_as(media, Bytes::new()), tag);
        return Ok(etag::not_modified(response));
    }
    let contents = if media == "application/json" {
        contents
    } else {
        let protobuf = &snapshot.documents.openapi_v2_protobuf;
        protobuf.get_or_init(|| Bytes::from(gnostic::encode(&document_of_all(snapshot))))
    };
    Ok(etag::set(respond::bytes_as(media, contents.clone()), tag))
}

/// Returns the document with the definitions of all groups.
fn document_of_all(snapshot: &Snapshot) -> Value {
    let mut definitions = Map::new();
    for (_, resources) in snapshot.groups.values().flatten() {
        let mut part = document(resources);
        if let Some(Value::Object(own)) = part["components"].get_mut("schemas").map(Value::take) {
            for (name, mut schema) in own {
                simplify_open_root(&mut schema);
                downgrade(&mut schema);
                describe_alternatives(&name, &mut schema);
                add(&mut definitions, name, schema);
            }
        }
    }
    json!({
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": discovery::version()["gitVersion"]},
        "paths": {},
        "definitions": definitions,
    })
}

/// Adds a definition. If several kinds share a definition, the definition lists all of these kinds.
fn add(definitions: &mut Map<String, Value>, name: String, schema: Value) {
    match definitions.get_mut(&name) {
        None => drop(definitions.insert(name, schema)),
        Some(known) => {
            for kind in schema[KINDS].as_array().into_iter().flatten() {
                match known.get_mut(KINDS).and_then(Value::as_array_mut) {
                    Some(kinds) if kinds.contains(kind) => {}
                    Some(kinds) => kinds.push(kind.clone()),
                    None => known[KINDS] = json!([kind]),
                }
            }
        }
    }
}

/// Replaces the schema of a kind that preserves unknown fields at its root by a plain object. Otherwise v2 clients
/// would refuse fields that the schema does not name.
fn simplify_open_root(schema: &mut Value) {
    if schema["x-kubernetes-preserve-unknown-fields"] == true && schema[KINDS].is_array() {
        *schema = json!({"type": "object", KINDS: schema[KINDS]});
    }
}

/// Describes `IntOrString` and `Quantity`, which accept two JSON types, with the single type that v2 allows.
fn describe_alternatives(name: &str, schema: &mut Value) {
    match name.rsplit('.').next() {
        Some("IntOrString") => {
            schema["type"] = json!("string");
            schema["format"] = json!("int-or-string");
        }
        Some("Quantity") => schema["type"] = json!("string"),
        _ => {}
    }
}

/// Removes keywords that v2 does not have, and keywords that make v2 clients refuse valid objects.
fn downgrade(schema: &mut Value) {
    let Some(map) = schema.as_object_mut() else {
        return;
    };
    if let Some(Value::Array(parts)) = map.remove("allOf")
        && let [Value::Object(only)] = parts.as_slice()
        && let Some(reference) = only.get("$ref")
    {
        map.insert("$ref".to_owned(), reference.clone());
    }
    if let Some(reference) = map.get("$ref").and_then(Value::as_str) {
        let moved = reference.replace("#/components/schemas/", "#/definitions/");
        map.insert("$ref".to_owned(), json!(moved));
    }
    for unknown in ["anyOf", "oneOf", "not", "default"] {
        map.remove(unknown);
    }
    let is_set = |map: &Map<String, Value>, name: &str| map.get(name) == Some(&Value::Bool(true));
    let nullable = is_set(map, "nullable");
    map.remove("nullable");
    if nullable || is_set(map, "x-kubernetes-int-or-string") {
        for name in [
            "type",
            "items",
            "properties",
            "required",
            "additionalProperties",
        ] {
            map.remove(name);
        }
    }
    if is_set(map, "x-kubernetes-preserve-unknown-fields") {
        for name in ["type", "items", "properties", "required"] {
            map.remove(name);
        }
    }
    if map.get("type") == Some(&json!("array")) && !map.contains_key("items") {
        map.remove("type");
    }
    for name in ["items", "additionalProperties"] {
        if let Some(inner) = map.get_mut(name) {
            downgrade(inner);
        }
    }
    if let Some(Value::Object(properties)) = map.get_mut("properties") {
        properties.values_mut().for_each(downgrade);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemas_keep_only_keywords_of_openapi_v2() {
        let mut schema = json!({"type": "object", "properties": {
            "meta": {"description": "d", "allOf": [{"$ref": "#/components/schemas/a.B"}]},
            "port": {"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"a": {}}},
            "none": {"type": "string", "nullable": true},
            "list": {"type": "array", "items": {"type": "string", "default": "x"}}}});
        downgrade(&mut schema);
        assert_eq!(
            schema["properties"],
            json!({
                "meta": {"description": "d", "$ref": "#/definitions/a.B"},
                "port": {"x-kubernetes-int-or-string": true},
                "free": {"x-kubernetes-preserve-unknown-fields": true},
                "none": {},
                "list": {"type": "array", "items": {"type": "string"}}})
        );
    }

    #[test]
    fn kinds_that_preserve_unknown_fields_at_the_root_become_plain_objects() {
        let kinds = json!([{"group": "g", "version": "v1", "kind": "K"}]);
        let mut open = json!({"type": "object", "description": "d", "x-kubernetes-preserve-unknown-fields": true,
            "properties": {"spec": {}}, "x-kubernetes-group-version-kind": kinds});
        simplify_open_root(&mut open);
        let expected = json!({"type": "object", "x-kubernetes-group-version-kind": kinds});
        assert_eq!(open, expected);
        downgrade(&mut open);
        assert_eq!(open, expected);
    }
}
