//! Compilation of OpenAPI v3 JSON to [`Schema`].

use std::sync::Arc;

use regex::Regex;
use serde_json::Value;

use super::{Additional, Limits, ListType, Schema, Type, rules};

/// Maximum nesting of schemas. Deeper schemas could overflow the stack.
const MAX_DEPTH: usize = 64;

/// A resolver of references to other schemas.
pub(crate) trait Resolve {
    fn resolve(&mut self, _name: &str, _depth: usize) -> Option<Arc<Schema>> {
        Some(Schema::open())
    }
    /// Returns the schema of `metadata` in embedded resources.
    fn object_meta(&self) -> Arc<Schema>;
    /// Adds rules that OpenAPI does not contain, such as merge rules, to the schema of a property. `definition` is the
    /// definition that is being compiled.
    fn annotate(&self, _definition: &str, _property: &str, _schema: &mut Schema) {}
}

/// Adds the properties that every resource has: `apiVersion`, `kind` and `metadata`.
pub(super) fn add_embedded(schema: &mut Schema, object_meta: &Schema) {
    let string = || {
        Arc::new(Schema {
            kind: Type::String,
            ..Schema::default()
        })
    };
    schema.kind = Type::Object;
    schema.embedded = true;
    schema.properties.insert("apiVersion".into(), string());
    schema.properties.insert("kind".into(), string());
    let mut meta = object_meta.clone();
    meta.object_meta = true;
    schema.properties.insert("metadata".into(), Arc::new(meta));
}

fn flag(schema: &Value, name: &str) -> bool {
    schema[name].as_bool().unwrap_or(false)
}

/// Compiles a schema and its nested schemas. Returns `None` if a pattern is invalid, or the nesting is too deep.
pub(crate) fn compile(
    json: &Value,
    resolve: &mut dyn Resolve,
    definition: &str,
    depth: usize,
) -> Option<Schema> {
    if depth > MAX_DEPTH {
        return None;
    }
    if let Some(name) = reference(json) {
        return Some((*resolve.resolve(name, depth + 1)?).clone());
    }
    let mut schema = Schema {
        kind: node_type(json),
        nullable: flag(json, "nullable"),
        preserve_unknown: flag(json, "x-kubernetes-preserve-unknown-fields"),
        embedded: flag(json, "x-kubernetes-embedded-resource"),
        map_atomic: json["x-kubernetes-map-type"] == "atomic",
        default: json.get("default").cloned(),
        list_type: ListType::of(json),
        ..Schema::default()
    };
    if let Some(properties) = json["properties"].as_object() {
        for (name, property) in properties {
            let mut compiled = compile(property, resolve, "", depth + 1)?;
            resolve.annotate(definition, name, &mut compiled);
            schema.properties.insert(name.clone(), Arc::new(compiled));
        }
    }
    schema.additional = match json.get("additionalProperties") {
        None | Some(Value::Bool(false)) => Additional::None,
        Some(Value::Bool(true)) => Additional::Any,
        Some(of) => Additional::Of(Arc::new(compile(of, resolve, "", depth + 1)?)),
    };
    if let Some(items) = json.get("items") {
        schema.items = Some(Arc::new(compile(items, resolve, "", depth + 1)?));
    }
    if let Some(required) = json["required"].as_array() {
        schema.required = required
            .iter()
            .filter_map(|r| r.as_str().map(str::to_owned))
            .collect();
    }
    schema.rules = rules::compile(json);
    if schema.embedded {
        add_embedded(&mut schema, &resolve.object_meta());
        for name in ["apiVersion", "kind"] {
            if !schema.required.iter().any(|known| known == name) {
                schema.required.push(name.to_owned());
            }
        }
    }
    if LIMITS.iter().any(|keyword| json.get(keyword).is_some()) {
        schema.limits = Some(Box::new(limits(json, resolve, depth)?));
    }
    schema.has_defaults = schema.default.is_some()
        || schema.properties.values().any(|p| p.has_defaults)
        || schema.items.as_ref().is_some_and(|i| i.has_defaults)
        || matches!(&schema.additional, Additional::Of(s) if s.has_defaults);
    let writes = |s: &Schema| s.always_written || s.has_always_written;
    schema.has_always_written = schema.properties.values().any(|p| writes(p))
        || schema.items.as_ref().is_some_and(|i| writes(i))
        || matches!(&schema.additional, Additional::Of(s) if writes(s));
    schema.has_rules = !schema.rules.is_empty()
        || schema.properties.values().any(|p| p.has_rules)
        || schema.items.as_ref().is_some_and(|i| i.has_rules)
        || matches!(&schema.additional, Additional::Of(s) if s.has_rules);
    Some(schema)
}

/// Returns the name of the definition in `$ref`, which is in the schema itself or in the only schema of `allOf`.
pub(super) fn reference(json: &Value) -> Option<&str> {
    let direct = json
        .get("$ref")
        .or_else(|| match json.get("allOf")?.as_array()?.as_slice() {
            [only] => only.get("$ref"),
            _ => None,
        })?;
    direct.as_str()?.rsplit('/').next()
}

fn node_type(json: &Value) -> Type {
    if flag(json, "x-kubernetes-int-or-string") {
        return Type::IntOrString;
    }
    match json["type"].as_str() {
        Some("object") => Type::Object,
        Some("array") => Type::Array,
        Some("string") => Type::String,
        Some("integer") => Type::Integer,
        Some("number") => Type::Number,
        Some("boolean") => Type::Boolean,
        _ => Type::Any,
    }
}

/// The keywords that restrict values.
const LIMITS: [&str; 17] = [
    "minimum",
    "maximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "uniqueItems",
    "minProperties",
    "maxProperties",
    "format",
    "enum",
    "pattern",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
];

fn limits(json: &Value, resolve: &mut dyn Resolve, depth: usize) -> Option<Limits> {
    let mut compile_all = |name: &str| -> Option<Vec<Arc<Schema>>> {
        let list = json[name].as_array().into_iter().flatten();
        list.map(|s| compile(s, resolve, "", depth + 1).map(Arc::new))
            .collect()
    };
    let (all_of, any_of, one_of) = (
        compile_all("allOf")?,
        compile_all("anyOf")?,
        compile_all("oneOf")?,
    );
    let not = match json.get("not") {
        Some(not) => Some(Arc::new(compile(not, resolve, "", depth + 1)?)),
        None => None,
    };
    let pattern = match json["pattern"].as_str() {
        Some(text) => Some(Regex::new(text).ok()?),
        None => None,
    };
    Some(Limits {
        minimum: json["minimum"].as_f64(),
        maximum: json["maximum"].as_f64(),
        exclusive_minimum: flag(json, "exclusiveMinimum"),
        exclusive_maximum: flag(json, "exclusiveMaximum"),
        multiple_of: json["multipleOf"].as_f64(),
        min_length: json["minLength"].as_u64(),
        max_length: json["maxLength"].as_u64(),
        min_items: json["minItems"].as_u64(),
        max_items: json["maxItems"].as_u64(),
        unique_items: flag(json, "uniqueItems"),
        min_properties: json["minProperties"].as_u64(),
        max_properties: json["maxProperties"].as_u64(),
        pattern,
        format: json["format"].as_str().map(str::to_owned),
        allowed: json["enum"].as_array().cloned(),
        all_of,
        any_of,
        one_of,
        not,
    })
}
