//! OpenAPI v3: one document for each group and version. kubectl uses the documents to explain kinds and to validate
//! objects. The submodule [`v2`] serves all groups in one document for older clients.

mod gnostic;
pub(crate) mod v2;

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use axum::body::Body;
use http::{HeaderMap, Response, StatusCode};
use serde_json::{Map, Value, json};

use super::etag;
use super::respond::{self, json_value};
use crate::registry::{GroupVersion, Snapshot};
use crate::resource::{Resource, Source, Style};
use crate::schema::published;

fn path_of(group: &str, version: &str) -> String {
    if group.is_empty() {
        format!("api/{version}")
    } else {
        format!("apis/{group}/{version}")
    }
}

/// Serves `/openapi/v3` and the paths below it.
pub(crate) fn serve(snapshot: &Snapshot, headers: &HeaderMap, rest: &[&str]) -> Response<Body> {
    let resources = match rest {
        [] => return json_value(StatusCode::OK, &index(snapshot)),
        ["api", version] => snapshot.group_version("", version),
        ["apis", group, version] => snapshot.group_version(group, version),
        _ => None,
    };
    let Some(resources) = resources else {
        return respond::empty_not_found();
    };
    let hash = fingerprint(resources);
    if etag::matches(headers, &hash) {
        return etag::not_modified(etag::set(respond::empty_not_found(), &hash));
    }
    etag::set(json_value(StatusCode::OK, &document(resources)), &hash)
}

/// Returns a hash that changes when the content of a document changes.
fn fingerprint(resources: &GroupVersion) -> String {
    let mut hasher = DefaultHasher::new();
    env!("CARGO_PKG_VERSION").hash(&mut hasher);
    for r in resources.values() {
        (&r.kind, &r.plural, r.namespaced()).hash(&mut hasher);
        (r.status, r.scale.is_some()).hash(&mut hasher);
        if let Source::Custom { json, .. } = &r.source {
            json.to_string().hash(&mut hasher);
        }
    }
    format!("{:016X}", hasher.finish())
}

fn index(snapshot: &Snapshot) -> Value {
    let mut paths = Map::new();
    for (group, versions) in &snapshot.groups {
        for (version, resources) in versions {
            let path = path_of(group, version);
            let url = format!("/openapi/v3/{path}?hash={}", fingerprint(resources));
            paths.insert(path, json!({"serverRelativeURL": url}));
        }
    }
    json!({"paths": paths})
}

/// Returns the name of a resource's definition. A built-in kind has the name that Kubernetes uses, and a custom kind a
/// name that starts with its reversed group.
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
            Source::Builtin { definition, .. } => {
                published::definition(definition).unwrap_or_default()
            }
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
        if let Some(mut schema) = published::definition(&name) {
            match name.rsplit('.').next() {
                Some("IntOrString") => {
                    schema["format"] = json!("int-or-string");
                    schema["oneOf"] = json!([{"type": "integer"}, {"type": "string"}]);
                }
                Some("Quantity") => {
                    schema["oneOf"] = json!([{"type": "string"}, {"type": "number"}]);
                }
                _ => {}
            }
            references(&schema, &mut wanted);
            schemas.insert(name, schema);
        }
    }
    json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": super::discovery::version()["gitVersion"]},
        "paths": paths,
        "components": {"schemas": schemas},
    })
}

/// Returns the schema of a custom kind for the document.
fn custom_schema(json: &Value) -> Value {
    let mut schema = json.clone();
    if !schema.is_object() {
        return json!({"type": "object"});
    }
    if !schema["properties"].is_object() {
        schema["properties"] = json!({});
    }
    // These properties are the same for all kinds.
    let known = published::definition("io.k8s.api.core.v1.ConfigMap").unwrap_or_default();
    for name in ["apiVersion", "kind", "metadata"] {
        schema["properties"][name] = known["properties"][name].clone();
    }
    schema
}

/// Collects the names of the definitions that a schema references.
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

/// Adds the operations of a resource. Their parameters show kubectl that the server validates fields.
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
    let item = json!({
        "get": operation("get", false), "put": operation("put", true), "patch": patch,
        "delete": operation("delete", false),
    });
    if resource.namespaced() {
        let list = json!({"get": operation("list", false)});
        paths.insert(format!("{root}/{}", resource.plural), list);
    }
    if resource.status {
        let status = json!({"get": item["get"], "put": item["put"], "patch": item["patch"]});
        paths.insert(format!("{base}/{{name}}/status"), status);
    }
    paths.insert(format!("{base}/{{name}}"), item);
}
