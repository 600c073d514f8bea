//! Normalization of objects by their schema: defaults, pruning, nulls, empty lists, and canonical quantities.

use berth_apimachinery::quantity::Quantity;
use serde_json::{Map, Value};

use super::{Additional, Schema, Type, join, keywords, report_limit};

/// Sets the defaults of absent fields.
pub(crate) fn default(value: &mut Value, schema: &Schema) {
    if !schema.has_defaults {
        return;
    }
    match value {
        Value::Object(object) => {
            for (name, property) in &schema.properties {
                if let Some(default) = &property.default
                    && !object.contains_key(name)
                {
                    object.insert(name.clone(), default.clone());
                }
                if property.has_defaults
                    && let Some(inner) = object.get_mut(name)
                {
                    self::default(inner, property);
                }
            }
            if let Additional::Of(of) = &schema.additional {
                for (_, inner) in object
                    .iter_mut()
                    .filter(|(name, _)| !schema.properties.contains_key(*name))
                {
                    default(inner, of);
                }
            }
        }
        Value::Array(items) => {
            if let Some(of) = &schema.items {
                for item in items {
                    default(item, of);
                }
            }
        }
        _ => {}
    }
}

/// Removes nulls from fields that are not nullable, so that these fields get their defaults.
pub(crate) fn drop_nulls(value: &mut Value, schema: &Schema) {
    match value {
        Value::Object(object) => {
            object.retain(|name, v| !v.is_null() || schema.field(name).is_none_or(|s| s.nullable));
            for (name, inner) in object
                .iter_mut()
                .filter(|(_, v)| v.is_object() || v.is_array())
            {
                if let Some(of) = schema.field(name) {
                    drop_nulls(inner, of);
                }
            }
        }
        Value::Array(items) => {
            if let Some(of) = &schema.items {
                for item in items {
                    drop_nulls(item, of);
                }
            }
        }
        _ => {}
    }
}

/// Removes unknown fields, and adds the paths of the first unknown fields to `unknown`.
pub(crate) fn prune(
    value: &mut Value,
    schema: &Schema,
    path: &mut String,
    unknown: &mut Vec<String>,
) {
    match value {
        Value::Object(object) if schema.of_schemas => keywords::prune(object, path, unknown),
        Value::Object(object) => prune_object(object, schema, path, unknown),
        Value::Array(items) => {
            if let Some(of) = &schema.items {
                for (i, item) in items.iter_mut().enumerate() {
                    within(path, &format!("[{i}]"), |path| {
                        prune(item, of, path, unknown);
                    });
                }
            }
        }
        _ => {}
    }
}

fn prune_object(
    object: &mut Map<String, Value>,
    schema: &Schema,
    path: &mut String,
    unknown: &mut Vec<String>,
) {
    let closed = !schema.preserve_unknown
        && matches!(schema.additional, Additional::None)
        && schema.kind != Type::Any;
    if closed
        && object
            .keys()
            .any(|name| !schema.properties.contains_key(name))
    {
        object.retain(|name, _| {
            let known = schema.properties.contains_key(name);
            if !known && report_limit::has_space(unknown.iter()) {
                unknown.push(join(path, name));
            }
            known
        });
    }
    for (name, inner) in object
        .iter_mut()
        .filter(|(_, v)| v.is_object() || v.is_array())
    {
        if let Some(of) = schema.field(name) {
            let step = if path.is_empty() {
                name.clone()
            } else {
                format!(".{name}")
            };
            within(path, &step, |path| prune(inner, of, path, unknown));
        }
    }
}

/// Calls `visit` with the path extended by a step.
fn within(path: &mut String, step: &str, visit: impl FnOnce(&mut String)) {
    let length = path.len();
    path.push_str(step);
    visit(path);
    path.truncate(length);
}

/// A list of scaling policies in autoscalers. An empty list differs from an absent list, so an empty list is kept.
const POLICIES: &str = "policies";

/// Normalizes an object of a built-in kind as a typed decoder does. Removes optional nulls, empty lists and empty maps,
/// and converts quantities to their canonical form.
pub(crate) fn as_typed(value: &mut Value, schema: &Schema) {
    match value {
        Value::Object(object) => {
            if let Additional::Of(of) = &schema.additional
                && is_map(schema)
            {
                object.values_mut().for_each(|v| not_null(v, of));
            }
            if !schema.preserve_unknown {
                let is_written = |name: &String| {
                    let field = schema.properties.get(name);
                    field.is_some_and(|p| p.always_written)
                };
                object.retain(|name, v| match v {
                    Value::Null => false,
                    Value::Array(items) if items.is_empty() => {
                        schema.required.contains(name) || is_written(name) || name == POLICIES
                    }
                    Value::Object(entries) if entries.is_empty() => {
                        schema.required.contains(name)
                            || !schema.field(name).is_some_and(|f| is_map(f))
                    }
                    _ => true,
                });
            }
            for (name, inner) in object.iter_mut() {
                if let Some(of) = schema.field(name) {
                    as_typed(inner, of);
                }
            }
            if schema.has_always_written {
                for (name, _) in schema.properties.iter().filter(|(_, p)| p.always_written) {
                    object.entry(name.as_str()).or_insert(Value::Null);
                }
            }
        }
        Value::Array(items) => {
            if let Some(of) = &schema.items {
                for item in items {
                    not_null(item, of);
                    as_typed(item, of);
                }
            }
        }
        Value::Number(number) if schema.kind == Type::Quantity => {
            let text = number.to_string();
            let quantity = Quantity::parse(&text);
            *value = Value::String(quantity.map_or(text, |quantity| quantity.to_string()));
        }
        Value::String(text) if schema.kind == Type::Quantity => {
            if let Ok(quantity) = Quantity::parse(text) {
                *text = quantity.to_string();
            }
        }
        _ => {}
    }
}

/// Normalizes an object as the storage of Kubernetes does. An empty list without `omitempty` becomes null.
pub(crate) fn as_stored(value: &mut Value, schema: &Schema) {
    if !schema.has_always_written {
        return;
    }
    match value {
        Value::Object(object) => {
            for (name, inner) in object {
                let Some(of) = schema.field(name) else {
                    continue;
                };
                if of.always_written && inner.as_array().is_some_and(Vec::is_empty) {
                    *inner = Value::Null;
                }
                as_stored(inner, of);
            }
        }
        Value::Array(items) => {
            if let Some(of) = &schema.items {
                for item in items {
                    as_stored(item, of);
                }
            }
        }
        _ => {}
    }
}

/// Replaces a null map entry or list item by the zero value of its type.
fn not_null(value: &mut Value, of: &Schema) {
    if value.is_null() {
        *value = match of.kind {
            Type::String => "".into(),
            Type::Quantity => "0".into(),
            Type::Integer => 0.into(),
            Type::Boolean => false.into(),
            Type::Object => Value::Object(Map::new()),
            _ => return,
        };
    }
}

/// Reports whether a schema describes a map, which is an object with arbitrary keys.
fn is_map(schema: &Schema) -> bool {
    matches!(schema.additional, Additional::Of(_)) && schema.properties.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::{builtin, custom};
    use serde_json::json;

    #[test]
    fn defaults_reach_into_objects_and_lists() {
        let schema = custom::resource(&json!({"type": "object", "properties": {"spec": {"type": "object", "default": {},
            "properties": {"mode": {"type": "string", "default": "Fast"},
                "list": {"type": "array", "items": {"type": "object", "properties": {"n": {"type": "integer", "default": 3}}}}}}}}))
        .unwrap();
        let mut object = json!({});
        default(&mut object, &schema);
        assert_eq!(object["spec"], json!({"mode": "Fast"}));
        let mut object = json!({"spec": {"mode": null, "list": [{}, {"n": 1}]}});
        drop_nulls(&mut object, &schema);
        default(&mut object, &schema);
        assert_eq!(
            object["spec"],
            json!({"mode": "Fast", "list": [{"n": 3}, {"n": 1}]})
        );
    }

    #[test]
    fn unknown_fields_are_dropped_and_reported() {
        let schema = builtin::compiled("io.k8s.api.apps.v1.Deployment");
        let mut object = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"labels": {"any": "x"}},
            "spec": {"replicass": 1, "template": {"spec": {"containers": [{"name": "a", "imag": "b"}]}}}});
        let mut unknown = Vec::new();
        prune(&mut object, &schema, &mut String::new(), &mut unknown);
        assert_eq!(
            unknown,
            ["spec.replicass", "spec.template.spec.containers[0].imag"]
        );
        assert_eq!(object["metadata"]["labels"]["any"], "x");
    }

    #[test]
    fn null_entries_and_items_become_zero_values() {
        let schema = builtin::compiled("io.k8s.api.core.v1.Pod");
        let mut object = json!({"metadata": {"labels": {"a": null}}, "spec": {"containers": [{"name": "a",
            "args": [null], "resources": {"limits": {"cpu": null}}}]}});
        as_typed(&mut object, &schema);
        assert_eq!(object["metadata"]["labels"], json!({"a": ""}));
        let container = &object["spec"]["containers"][0];
        assert_eq!(container["args"], json!([""]));
        assert_eq!(container["resources"]["limits"], json!({"cpu": "0"}));
    }

    #[test]
    fn empty_lists_without_omitempty_are_stored_as_null() {
        let schema = builtin::compiled("io.k8s.api.core.v1.Pod");
        let volumes =
            json!([{"name": "a", "projected": {}}, {"name": "b", "projected": {"sources": []}}]);
        let mut object =
            json!({"spec": {"containers": [], "volumes": volumes, "imagePullSecrets": []}});
        as_typed(&mut object, &schema);
        let sources =
            |object: &Value, at: usize| object["spec"]["volumes"][at]["projected"].clone();
        assert_eq!(sources(&object, 0), json!({"sources": null}));
        assert_eq!(sources(&object, 1), json!({"sources": []}));
        assert_eq!(object["spec"].get("imagePullSecrets"), None);
        as_stored(&mut object, &schema);
        assert_eq!(sources(&object, 1), json!({"sources": null}));
        assert_eq!(object["spec"]["containers"], json!([]));
    }

    #[test]
    fn typed_decoding_drops_nulls_and_converts_quantities() {
        let schema = builtin::compiled("io.k8s.api.core.v1.Pod");
        let mut object = json!({"metadata": {"creationTimestamp": null, "annotations": {}},
            "spec": {"containers": [{"name": "a", "resources": {"limits": {"cpu": 1}}}]}});
        as_typed(&mut object, &schema);
        assert_eq!(object["metadata"], json!({}));
        assert_eq!(
            object["spec"]["containers"][0]["resources"]["limits"]["cpu"],
            "1"
        );
    }
}
