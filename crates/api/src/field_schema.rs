//! Schemas of single fields, for `schema_with` and `transform`, where the schema of the Rust type differs from Karmada's
//! schema.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use schemars::transform::transform_subschemas;
use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

use crate::condition_message;

/// Returns the schema of a Go `int` or `uint`, which has no format and no bounds. The admission rules reject negative
/// numbers in the fields of a spec.
pub(crate) fn integer(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "integer" })
}

/// Returns the schema of a string. The operators of field selectors have this schema, because Karmada's schema allows
/// every string. The admission rules are stricter.
pub(crate) fn any_string(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string" })
}

/// Returns the schema of an object with any fields.
pub(crate) fn any_object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true })
}

/// Returns the schema of a list of objects with any fields.
pub(crate) fn any_objects(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "array", "items": {
        "type": "object", "x-kubernetes-preserve-unknown-fields": true } })
}

/// Returns the schema of any JSON value.
pub(crate) fn any_value(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "x-kubernetes-preserve-unknown-fields": true })
}

/// Returns the schema of the conditions of a status, with the bounds that Kubernetes prescribes.
pub(crate) fn conditions(generator: &mut SchemaGenerator) -> Schema {
    let mut schema = generator.subschema_for::<Vec<Condition>>();
    for (field, keyword, bound) in condition_bounds() {
        let path = format!("/items/properties/{field}");
        if let Some(Value::Object(field)) = schema.pointer_mut(&path) {
            field.insert(keyword.to_owned(), bound);
        }
    }
    schema
}

/// Returns the bounds of `metav1.Condition`. Each row has a field, a keyword and a value.
pub(crate) fn condition_bounds() -> [(&'static str, &'static str, Value); 8] {
    let kind = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$";
    [
        ("message", "maxLength", json!(condition_message::MAX_LENGTH)),
        ("observedGeneration", "minimum", json!(0.0)),
        ("reason", "maxLength", json!(1024)),
        ("reason", "minLength", json!(1)),
        (
            "reason",
            "pattern",
            json!("^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"),
        ),
        ("status", "enum", json!(["True", "False", "Unknown"])),
        ("type", "maxLength", json!(316)),
        ("type", "pattern", json!(kind)),
    ]
}

/// The parts of a node selector that server-side apply replaces as a whole. Each row has a path and the keyword that is
/// set to `atomic`.
pub(crate) const NODE_SELECTOR: [(&str, &str); 7] = [
    ("", "x-kubernetes-map-type"),
    ("/properties/nodeSelectorTerms", "x-kubernetes-list-type"),
    (
        "/properties/nodeSelectorTerms/items",
        "x-kubernetes-map-type",
    ),
    (
        "/properties/nodeSelectorTerms/items/properties/matchExpressions",
        "x-kubernetes-list-type",
    ),
    (
        "/properties/nodeSelectorTerms/items/properties/matchExpressions/items/properties/values",
        "x-kubernetes-list-type",
    ),
    (
        "/properties/nodeSelectorTerms/items/properties/matchFields",
        "x-kubernetes-list-type",
    ),
    (
        "/properties/nodeSelectorTerms/items/properties/matchFields/items/properties/values",
        "x-kubernetes-list-type",
    ),
];

/// Adds the keywords of [`NODE_SELECTOR`], which the Kubernetes types lack.
pub(crate) fn atomic_node_selector(schema: &mut Schema) {
    for (path, keyword) in NODE_SELECTOR {
        if let Some(Value::Object(part)) = schema.pointer_mut(path) {
            part.insert(keyword.to_owned(), json!("atomic"));
        }
    }
}

/// Removes the default. This default exists for serde only: the API server would store a default of the schema.
pub(crate) fn without_default(schema: &mut Schema) {
    schema.remove("default");
}

/// Removes the constraints that apply to policies only: the CEL rules, and the keywords that `x-policy-only` lists.
///
/// The constraints protect API servers that have no admission webhook for policies. A rule must not depend on a field
/// that the webhook would default, because such a rule would reject valid policies. The API server estimates the cost of
/// a rule: the cost must be bounded although Karmada's schema has no limits on the length of lists.
pub(crate) fn without_policy_constraints(schema: &mut Schema) {
    schema.remove("x-kubernetes-validations");
    if let Some(Value::Array(keywords)) = schema.remove("x-policy-only") {
        for keyword in keywords.iter().filter_map(Value::as_str) {
            schema.remove(keyword);
        }
    }
    transform_subschemas(&mut without_policy_constraints, schema);
}
