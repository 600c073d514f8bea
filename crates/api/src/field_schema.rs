//! Schemas of single fields, for `schema_with`, where the schema of the Rust type differs from Karmada's schema.

use schemars::{Schema, SchemaGenerator, json_schema};

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
