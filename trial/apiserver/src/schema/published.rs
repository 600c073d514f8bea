//! The definitions of built-in kinds for OpenAPI documents: the definitions of k8s-openapi, with enumerations and merge
//! rules. k8s-openapi requires `metadata`, and in some definitions `name`, because the Rust field is no `Option`. Here
//! these fields are optional. Validation does not use these definitions.

use serde_json::{Value, json};

use super::{builtin, merge_keys};

/// Returns the enumerations, each with definition, field and values. The field `FIELD/*` names the items or map values
/// of `FIELD`.
fn enums() -> impl Iterator<Item = (&'static str, &'static str, Vec<&'static str>)> {
    include_str!("enums.txt")
        .lines()
        .filter_map(|line| line.split_once(": "))
        .flat_map(|(fields, values)| {
            let values = values
                .split(' ')
                .map(|value| if value == "\"\"" { "" } else { value });
            let values: Vec<&str> = values.collect();
            fields.split(' ').filter_map(move |field| {
                let (owner, path) = field.split_once('.')?;
                Some((owner, path, values.clone()))
            })
        })
}

/// Definitions in which `name` is optional, because old clients omit it.
const OPTIONAL_NAME: &[&str] = &[
    "ConfigMapEnvSource",
    "ConfigMapKeySelector",
    "ConfigMapProjection",
    "ConfigMapVolumeSource",
    "LocalObjectReference",
    "SecretEnvSource",
    "SecretKeySelector",
    "SecretProjection",
];

/// Returns a definition by name, such as `io.k8s.api.apps.v1.Deployment`.
pub(crate) fn definition(name: &str) -> Option<Value> {
    let mut schema = builtin::definitions().get(name)?.clone();
    let short = name.rsplit('.').next().unwrap_or(name);
    match name {
        "io.k8s.api.core.v1.Event" => {}
        "io.k8s.api.events.v1.Event" => schema["required"] = json!(["eventTime"]),
        _ => make_optional(&mut schema, "metadata"),
    }
    if short == "JSON"
        && let Some(schema) = schema.as_object_mut()
    {
        schema.remove("type");
    }
    if OPTIONAL_NAME.contains(&short) {
        make_optional(&mut schema, "name");
    }
    extend(&mut schema, merge_keys::extensions(name, ""));
    let properties = schema.get_mut("properties").and_then(Value::as_object_mut);
    for (field, property) in properties.into_iter().flatten() {
        extend(property, merge_keys::extensions(name, field));
    }
    for (_, path, values) in enums().filter(|(owner, ..)| *owner == short) {
        if let Some(field) = below(&mut schema, path) {
            field["enum"] = json!(values);
        }
    }
    Some(schema)
}

/// Removes a field from the required fields.
fn make_optional(schema: &mut Value, field: &str) {
    let Some(required) = schema["required"].as_array_mut() else {
        return;
    };
    required.retain(|name| name != field);
    if required.is_empty()
        && let Some(schema) = schema.as_object_mut()
    {
        schema.remove("required");
    }
}

fn extend(schema: &mut Value, extensions: Vec<(&'static str, Value)>) {
    if let Some(schema) = schema.as_object_mut() {
        for (name, value) in extensions {
            schema.insert(name.to_owned(), value);
        }
    }
}

/// Returns the schema of a field. For `FIELD/*`, returns the schema of the items or map values of `FIELD`.
fn below<'a>(schema: &'a mut Value, path: &str) -> Option<&'a mut Value> {
    let (field, inner) = match path.strip_suffix("/*") {
        Some(field) => (field, true),
        None => (path, false),
    };
    let field = schema.get_mut("properties")?.get_mut(field)?;
    if !inner {
        return Some(field);
    }
    let key = if field.get("items").is_some() {
        "items"
    } else {
        "additionalProperties"
    };
    field.get_mut(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_enumeration_names_an_existing_field() {
        for (owner, path, _) in enums() {
            let suffix = format!(".{owner}");
            let mut names = builtin::definitions().keys();
            let found = names.any(|name| {
                name.ends_with(&suffix)
                    && below(&mut builtin::definitions()[name].clone(), path).is_some()
            });
            assert!(found, "{owner} {path}");
        }
    }

    #[test]
    fn published_definitions_have_merge_rules_and_enumerations() {
        let spec = definition("io.k8s.api.core.v1.PodSpec").unwrap();
        let containers = &spec["properties"]["containers"];
        assert_eq!(containers["x-kubernetes-patch-strategy"], "merge");
        assert_eq!(containers["x-kubernetes-patch-merge-key"], "name");
        assert_eq!(containers["x-kubernetes-list-map-keys"], json!(["name"]));
        assert_eq!(spec["properties"]["restartPolicy"]["enum"][0], "Always");
        let map = definition("io.k8s.api.core.v1.ConfigMap").unwrap();
        assert_eq!(map["required"], Value::Null);
    }
}
