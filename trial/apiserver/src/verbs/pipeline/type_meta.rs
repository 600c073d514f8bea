//! The first step of `decoding`: `apiVersion` and `kind` of a received object must match the resource in the URL.

use serde_json::{Value, json};

use crate::codec;
use crate::error::{ApiError, Cause};
use crate::go_text::type_name;
use crate::resource::Resource;
use crate::verbs::{Call, text};

/// The source of a received object. The error messages depend on the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// A request body.
    Body,
    /// A patch that was applied to the stored object.
    Patch,
}

/// Refuses an object if its kind or version differs from the resource. Objects of built-in kinds may omit both fields.
pub(super) fn check(call: &Call, value: &mut Value, source: Source) -> Result<(), ApiError> {
    let resource = &*call.resource;
    if value.is_null() {
        *value = json!({});
    }
    let value = &*value;
    check_type_meta(value).map_err(|message| unrecognized(resource, source, &message))?;
    let (version, kind) = (text(value, &["apiVersion"]), text(value, &["kind"]));
    if version.matches('/').count() > 1 {
        let message = format!("unexpected GroupVersion string: {version}");
        return Err(unrecognized(resource, source, &message));
    }
    if resource.is_custom() {
        return check_custom(resource, value, source);
    }
    let expected = resource.api_version();
    let is_default_or = |found: &str, expected: &str| found.is_empty() || found == expected;
    match (
        is_default_or(version, &expected),
        is_default_or(kind, &resource.kind),
    ) {
        (true, true) => Ok(()),
        (false, true) => Err(other_version(version, &expected)),
        (_, false) => {
            let (_, short) = version.rsplit_once('/').unwrap_or(("", version));
            Err(ApiError::bad_request(format!(
                "{kind} in version \"{short}\" cannot be handled as a {}: the kind does not match",
                resource.kind
            )))
        }
    }
}

/// Checks that the value is a JSON object, and that `apiVersion` and `kind` are strings or are missing.
pub(in crate::verbs) fn check_type_meta(value: &Value) -> Result<(), String> {
    let refuse = |field: &str, found: &Value, expected: &str| {
        let found = type_name(found);
        Err(format!(
            "couldn't get version/kind; json parse error: {field} must be {expected}, not {found}"
        ))
    };
    if !value.is_object() {
        return refuse("the body", value, "an object");
    }
    for field in ["apiVersion", "kind"] {
        let found = &value[field];
        if !found.is_null() && !found.is_string() {
            return refuse(field, found, "a string");
        }
    }
    Ok(())
}

/// Checks the type metadata of a custom object. Custom objects must contain `apiVersion` and `kind`.
fn check_custom(resource: &Resource, value: &Value, source: Source) -> Result<(), ApiError> {
    let (version, kind) = (text(value, &["apiVersion"]), text(value, &["kind"]));
    let expected = resource.api_version();
    if kind.is_empty() {
        return Err(unrecognized(resource, source, "Object 'Kind' is missing"));
    }
    let invalid = |field: &str, found: &str, expected: &str| {
        let cause = Cause::invalid(field, &json!(found), &format!("must be {expected}"));
        let name = text(value, &["metadata", "name"]);
        Err(ApiError::invalid(&resource.group, kind, name, vec![cause]))
    };
    match source {
        _ if version == expected && kind == resource.kind => Ok(()),
        Source::Body if version != expected => Err(other_version(version, &expected)),
        Source::Patch if version != expected => invalid("apiVersion", version, &expected),
        _ => invalid("kind", kind, &resource.kind),
    }
}

fn unrecognized(resource: &Resource, source: Source, message: &str) -> ApiError {
    ApiError::bad_request(match source {
        Source::Body => codec::unrecognized(&resource.kind, message),
        Source::Patch => message.to_owned(),
    })
}

fn other_version(found: &str, expected: &str) -> ApiError {
    ApiError::bad_request(format!(
        "the API version in the data ({found}) does not match the expected API version ({expected})"
    ))
}
