//! From what a client sent to an object of its kind: apiVersion and kind, the types of Go, and the fields that the
//! schema does not know. It must not know what is stored.

use serde_json::{Value, json};

use super::type_meta;
use crate::error::ApiError;
use crate::go_text::type_name;
use crate::http::body::{Twice, strictly, told};
use crate::http::query::FieldValidation;
use crate::registry::{Resource, Source};
use crate::schema::{decode, shape};
use crate::verbs::Call;

/// What an object was read from, as far as it is told of when it cannot be used.
pub(crate) enum Sent<'a> {
    Body(&'a [u8]),
    /// It is what has become of another one.
    Patched,
}

/// Checks type, kind and unknown fields of an object a client sent. Returns warnings.
pub(crate) fn decode(
    call: &Call,
    value: &mut Value,
    sent: Sent<'_>,
    twice: &[Twice],
) -> Result<Vec<String>, ApiError> {
    let resource = &call.resource;
    type_meta::check(call, value, &sent)?;
    value["apiVersion"] = json!(resource.api_version());
    value["kind"] = json!(resource.kind);
    decodes(resource, value)?;
    let mut unknown = Vec::new();
    shape::prune(value, resource.schema(), &mut String::new(), &mut unknown);
    if unknown.is_empty() && twice.is_empty() {
        return Ok(Vec::new());
    }
    let body = match sent {
        Sent::Body(bytes) => Some(bytes),
        Sent::Patched => None,
    };
    match call.options.field_validation {
        FieldValidation::Strict => Err(ApiError::bad_request(format!(
            "{} in version \"{}\" cannot be handled as a {}: strict decoding error: {}",
            resource.kind,
            resource.version,
            resource.kind,
            strictly(body, &unknown, twice)
        ))),
        FieldValidation::Warn => Ok(told(body, &unknown, twice)),
        FieldValidation::Ignore => Ok(Vec::new()),
    }
}

/// Decodes an object that a webhook has changed. Fields that the schema does not know are dropped.
pub(super) fn decode_again(resource: &Resource, value: &mut Value) -> Result<(), ApiError> {
    value["apiVersion"] = json!(resource.api_version());
    value["kind"] = json!(resource.kind);
    decodes(resource, value).map_err(|error| ApiError::internal(error.message))?;
    let schema = resource.schema();
    shape::prune(value, schema, &mut String::new(), &mut Vec::new());
    Ok(())
}

/// The type of the metadata of every object.
const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

/// Refuses what Go could not decode into the type of a built-in kind, or of the metadata of any: a bad request, not an
/// invalid object.
fn decodes(resource: &Resource, value: &mut Value) -> Result<(), ApiError> {
    let problem = match (&resource.source, value.get_mut("metadata")) {
        (Source::Builtin { definition, .. }, _) => decode::problem(definition, value),
        (Source::Custom { .. }, None | Some(Value::Null)) => None,
        (Source::Custom { .. }, Some(meta)) if !meta.is_object() => Some(format!(
            "json: cannot unmarshal {} into Go value of type v1.ObjectMeta",
            type_name(meta)
        )),
        (Source::Custom { .. }, Some(meta)) => decode::problem(OBJECT_META, meta),
    };
    if let Some(problem) = problem {
        return Err(ApiError::bad_request(format!(
            "{} in version \"{}\" cannot be handled as a {}: {problem}",
            resource.kind, resource.version, resource.kind
        )));
    }
    Ok(())
}
