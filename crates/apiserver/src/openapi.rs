//! OpenAPI v3: one document a group and version, with the schemas kubectl explains and validates by.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use axum::body::Body;
use http::{Response, StatusCode};
use serde_json::{Map, Value, json};

use crate::error::ApiError;
use crate::http::query::Query;
use crate::http::respond::json_value;
use crate::registry::{GroupVersion, Resource, Snapshot, Source, Style};
use crate::schema::builtin;

const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

fn path_of(group: &str, version: &str) -> String {
    if group.is_empty() {
        format!("api/{version}")
    } else {
        format!("apis/{group}/{version}")
    }
}

/// Answers `/openapi/v3` and what is below it.
pub(crate) fn answer(
    snapshot: &Snapshot,
    rest: &[&str],
    _query: &Query,
) -> Result<Response<Body>, ApiError> {
    let resources = match rest {
        [] => return Ok(json_value(StatusCode::OK, &index(snapshot))),
        ["api", version] => snapshot.group_version("", version),
        ["apis", group, version] => snapshot.group_version(group, version),
        _ => None,
    };
    let resources = resources.ok_or_else(ApiError::path_not_found)?;
    Ok(json_value(StatusCode::OK, &document(resources)))
}

fn index(snapshot: &Snapshot) -> Value {
    let mut paths = Map::new();
    for (group, versions) in &snapshot.groups {
        for (version, resources) in versions {
            let path = path_of(group, version);
            let mut hasher = DefaultHasher::new();
            env!("CARGO_PKG_VERSION").hash(&mut hasher);
            for r in resources.values() {
                r.kind.hash(&mut hasher);
                if let Source::Custom { json, .. } = &r.source {
                    json.to_string().hash(&mut hasher);
                }
            }
            let url = format!("/openapi/v3/{path}?hash={:016X}", hasher.finish());
            paths.insert(path, json!({"serverRelativeURL": url}));
        }
    }
    json!({"paths": paths})
}

/// The definition name of a resource: that of Kubernetes, or the reversed group for custom ones.
fn definition_name(resource: &Resource) -> String {
    match &resource.source {
        Source::Builtin { definition, .. } => definition.clone(),
        Source::Custom { .. } => {
            let reversed: Vec<&str> = resource.group.split('.').rev().collect();
            format!(
                "{}.{}.{}",
                reversed.join("."),
                resource.version,
                resource.kind
            )
        }
    }
}

fn document(resources: &GroupVersion) -> Value {
    let mut schemas: BTreeMap<String, Value> = BTreeMap::new();
    let mut wanted: BTreeSet<String> = ["ObjectMeta", "ListMeta", "DeleteOptions", "Status"]
        .into_iter()
        .map(|n| format!("io.k8s.apimachinery.pkg.apis.meta.v1.{n}"))
        .collect();
    let mut paths = Map::new();
    for resource in resources.values() {
        let name = definition_name(resource);
        let kind =
            json!([{"group": resource.group, "version": resource.version, "kind": resource.kind}]);
        let mut schema = match &resource.source {
            Source::Builtin { definition, .. } => builtin::definitions()
                .get(definition)
                .cloned()
                .unwrap_or_default(),
            Source::Custom { json, .. } => custom_schema(json),
        };
        schema["x-kubernetes-group-version-kind"] = kind;
        references(&schema, &mut wanted);
        schemas.insert(name.clone(), schema);
        add_paths(&mut paths, resource, &name);
    }
    while let Some(name) = wanted.pop_first() {
        if schemas.contains_key(&name) {
            continue;
        }
        if let Some(schema) = builtin::definitions().get(&name) {
            references(schema, &mut wanted);
            schemas.insert(name, schema.clone());
        }
    }
    json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": crate::discovery::version()["gitVersion"]},
        "paths": paths,
        "components": {"schemas": schemas},
    })
}

fn custom_schema(json: &Value) -> Value {
    let mut schema = if json.is_object() {
        json.clone()
    } else {
        json!({"type": "object"})
    };
    let string = |text: &str| json!({"type": "string", "description": text});
    if !schema["properties"].is_object() {
        schema["properties"] = json!({});
    }
    schema["properties"]["apiVersion"] =
        string("APIVersion defines the versioned schema of this representation of an object.");
    schema["properties"]["kind"] =
        string("Kind is a string value representing the REST resource this object represents.");
    schema["properties"]["metadata"] = json!({
        "description": "Standard object's metadata.",
        "allOf": [{"$ref": format!("#/components/schemas/{OBJECT_META}")}],
    });
    schema
}

fn references(value: &Value, into: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) => {
            if let Some(name) = map
                .get("$ref")
                .and_then(Value::as_str)
                .and_then(|r| r.rsplit('/').next())
            {
                into.insert(name.to_owned());
            }
            map.values().for_each(|v| references(v, into));
        }
        Value::Array(items) => items.iter().for_each(|v| references(v, into)),
        _ => {}
    }
}

/// The operations kubectl looks at to learn that the server validates fields.
fn add_paths(paths: &mut Map<String, Value>, resource: &Resource, definition: &str) {
    let kind = json!({"group": resource.group, "version": resource.version, "kind": resource.kind});
    let schema = json!({"$ref": format!("#/components/schemas/{definition}")});
    let query = |name: &str| json!({"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": true}});
    let write_parameters = json!([
        query("dryRun"),
        query("fieldManager"),
        query("fieldValidation")
    ]);
    let operation = |action: &str, write: bool| {
        let content = json!({"application/json": {"schema": schema}});
        let mut op = json!({
            "x-kubernetes-action": action, "x-kubernetes-group-version-kind": kind,
            "responses": {"200": {"description": "OK", "content": content}},
        });
        if write {
            op["parameters"] = write_parameters.clone();
            op["requestBody"] = json!({"content": {"application/json": {"schema": schema}}});
        }
        op
    };
    let root = format!("/{}", path_of(&resource.group, &resource.version));
    let base = if resource.namespaced() {
        format!("{root}/namespaces/{{namespace}}/{}", resource.plural)
    } else {
        format!("{root}/{}", resource.plural)
    };
    if resource.style == Style::Review {
        paths.insert(base, json!({"post": operation("post", true)}));
        return;
    }
    paths.insert(
        base.clone(),
        json!({"get": operation("list", false), "post": operation("post", true)}),
    );
    let mut patch = operation("patch", true);
    if let Some(parameters) = patch["parameters"].as_array_mut() {
        parameters.push(query("force"));
    }
    let one = json!({
        "get": operation("get", false), "put": operation("put", true), "patch": patch,
        "delete": operation("delete", false),
    });
    paths.insert(format!("{base}/{{name}}"), one);
}
