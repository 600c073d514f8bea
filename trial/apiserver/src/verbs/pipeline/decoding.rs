//! Decoding of a received object: calls [`type_meta`], checks field types, and prunes unknown fields. The option
//! `fieldValidation` determines whether unknown and duplicate fields cause an error, cause warnings or are ignored.
//!
//! This module must not know the stored objects.

use serde_json::{Value, json};

use super::type_meta::{self, Source};
use crate::codec::{self, DuplicateField};
use crate::error::ApiError;
use crate::go_text::type_name;
use crate::query::FieldValidation;
use crate::resource::{self, Resource};
use crate::schema::{decode, normalize};
use crate::verbs::Call;

/// Decodes an object that a client has sent. Returns warnings.
pub(crate) fn decode(
    call: &Call,
    value: &mut Value,
    source: Source,
    duplicates: &[DuplicateField],
) -> Result<Vec<String>, ApiError> {
    let resource = &call.resource;
    type_meta::check(call, value, source)?;
    value["apiVersion"] = json!(resource.api_version());
    value["kind"] = json!(resource.kind);
    check_types(resource, value)?;
    let mut unknown = Vec::new();
    normalize::prune(value, resource.schema(), &mut String::new(), &mut unknown);
    if unknown.is_empty() && duplicates.is_empty() {
        return Ok(Vec::new());
    }
    match call.options.field_validation {
        FieldValidation::Strict => Err(ApiError::bad_request(format!(
            "{} in version \"{}\" cannot be handled as a {}: strict decoding error: {}",
            resource.kind,
            resource.version,
            resource.kind,
            codec::strict_error(&unknown, duplicates)
        ))),
        FieldValidation::Warn => Ok(codec::warnings(&unknown, duplicates)),
        FieldValidation::Ignore => Ok(Vec::new()),
    }
}

/// Decodes an object that a webhook has changed. Unknown fields are removed.
pub(super) fn decode_mutated(resource: &Resource, value: &mut Value) -> Result<(), ApiError> {
    value["apiVersion"] = json!(resource.api_version());
    value["kind"] = json!(resource.kind);
    check_types(resource, value).map_err(|error| ApiError::internal(error.message))?;
    let schema = resource.schema();
    normalize::prune(value, schema, &mut String::new(), &mut Vec::new());
    Ok(())
}

/// The OpenAPI definition of object metadata.
const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

/// Returns an error with status 400 if a field has a wrong type. Checks all fields of built-in kinds, and the metadata
/// of custom kinds.
fn check_types(resource: &Resource, value: &mut Value) -> Result<(), ApiError> {
    let problem = match (&resource.source, value.get_mut("metadata")) {
        (resource::Source::Builtin { definition, .. }, _) => decode::decode(definition, value),
        (resource::Source::Custom { .. }, None | Some(Value::Null)) => None,
        (resource::Source::Custom { .. }, Some(meta)) if !meta.is_object() => Some(format!(
            "json: cannot unmarshal {} into Go value of type v1.ObjectMeta",
            type_name(meta)
        )),
        (resource::Source::Custom { .. }, Some(meta)) => decode::decode(OBJECT_META, meta),
    };
    if let Some(problem) = problem {
        return Err(ApiError::bad_request(format!(
            "{} in version \"{}\" cannot be handled as a {}: {problem}",
            resource.kind, resource.version, resource.kind
        )));
    }
    Ok(())
}
