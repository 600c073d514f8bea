//! From what a client sent to an object of its kind: apiVersion and kind, the types of Go, and the fields that the
//! schema does not know. It must not know what is stored.

use serde_json::{Value, json};

use crate::error::ApiError;
use crate::http::query::FieldValidation;
use crate::registry::{Resource, Source};
use crate::schema::{decode, shape};
use crate::verbs::{Call, text};

/// Checks type, kind and unknown fields of an object a client sent. Returns warnings.
pub(crate) fn decode(
    call: &Call,
    value: &mut Value,
    mut strange: Vec<String>,
) -> Result<Vec<String>, ApiError> {
    let resource = &call.resource;
    if !value.is_object() {
        return Err(ApiError::bad_request(
            "couldn't get version/kind; json parse error: expected an object",
        ));
    }
    let (api_version, kind) = (
        text(value, &["apiVersion"]).to_owned(),
        text(value, &["kind"]).to_owned(),
    );
    let expected = resource.api_version();
    if (kind.is_empty() || api_version.is_empty()) && resource.is_custom() {
        return Err(ApiError::bad_request(
            "Object 'Kind' or 'apiVersion' is missing",
        ));
    }
    if !api_version.is_empty() && api_version != expected {
        return Err(ApiError::bad_request(format!(
            "the API version in the data ({api_version}) does not match the expected API version ({expected})"
        )));
    }
    if !kind.is_empty() && kind != resource.kind {
        return Err(ApiError::bad_request(format!(
            "{kind} in version \"{}\" cannot be handled as a {}: the kind does not match",
            resource.version, resource.kind
        )));
    }
    value["apiVersion"] = json!(expected);
    value["kind"] = json!(resource.kind);
    for duplicate in &mut strange {
        *duplicate = format!("duplicate field \"{duplicate}\"");
    }
    decodes(resource, value)?;
    let mut unknown = Vec::new();
    shape::prune(value, resource.schema(), &mut String::new(), &mut unknown);
    strange.splice(
        0..0,
        unknown
            .into_iter()
            .map(|u| format!("unknown field \"{u}\"")),
    );
    match call.options.field_validation {
        FieldValidation::Strict if !strange.is_empty() => Err(ApiError::bad_request(format!(
            "{} in version \"{}\" cannot be handled as a {}: strict decoding error: {}",
            resource.kind,
            resource.version,
            resource.kind,
            strange.join(", ")
        ))),
        FieldValidation::Warn => Ok(strange),
        _ => Ok(Vec::new()),
    }
}

/// Refuses what Go could not decode into the type of a built-in kind: a bad request, not an invalid object.
fn decodes(resource: &Resource, value: &mut Value) -> Result<(), ApiError> {
    if let Source::Builtin { definition, .. } = &resource.source
        && let Some(problem) = decode::problem(definition, value)
    {
        return Err(ApiError::bad_request(format!(
            "{} in version \"{}\" cannot be handled as a {}: {problem}",
            resource.kind, resource.version, resource.kind
        )));
    }
    Ok(())
}
