//! The update (PUT) and patch verbs.

mod apply;

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Value, json};

use super::pipeline::{self, Source, WriteKind, check_version, modify};
use super::{Call, Content, Outcome, scale, text};
use crate::codec;
use crate::error::{ApiError, Cause, Reason};
use crate::go_text::type_name;
use crate::patch::json::Operations;
use crate::patch::{merge, strategic};
use crate::resource::Subresource;
use crate::store::Stored;

/// The effect of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effect {
    Created,
    Updated,
}

/// Returns the outcome of a write.
fn outcome(call: &Call, effect: Effect, written: Arc<Stored>, warnings: Vec<String>) -> Outcome {
    let content = if call.subresource == Some(Subresource::Scale) {
        Content::Scale(scale::of(&written.value(), &call.resource))
    } else {
        Content::Object(written)
    };
    let outcome = match effect {
        Effect::Created => Outcome::created(content),
        Effect::Updated => Outcome::found(content),
    };
    outcome.warn(warnings).warn_deprecated(&call.resource)
}

/// Replaces an object.
pub(crate) async fn replace(
    call: &Call,
    content_type: &str,
    bytes: &Bytes,
) -> Result<Outcome, ApiError> {
    let decoded = codec::typed_object(content_type, bytes, &call.resource.kind)?;
    let mut value = decoded.value;
    let key = call.key();
    if call.subresource == Some(Subresource::Scale) {
        scale::check_kind(&value)?;
        check_name(call, &value)?;
        scale::decode(&mut value).map_err(|problem| {
            ApiError::bad_request(format!(
                "Scale in version \"v1\" cannot be handled as a Scale: {problem}"
            ))
        })?;
        let written = modify(call, &key, WriteKind::Plain, |old| {
            scale::with_scale(old, &value, &call.resource)
        })
        .await?;
        return Ok(outcome(call, Effect::Updated, written, Vec::new()));
    }
    let warnings = pipeline::decode(call, &mut value, Source::Body, &decoded.duplicates)?;
    check_name(call, &value)?;
    let found = call.shared.store.get(&call.resource.table, &key);
    if found.is_none() && call.resource.put.creates && call.subresource.is_none() {
        return put_new(call, value, warnings).await;
    }
    // For a missing object, the response is NotFound even if the received object is invalid.
    found.ok_or_else(|| call.not_found())?;
    let unconditional = matches!(text(&value, &["metadata", "resourceVersion"]), "" | "0");
    if unconditional && call.resource.put.needs_version {
        let cause = Cause::invalid(
            "metadata.resourceVersion",
            &json!(0),
            "must be specified for an update",
        );
        return Err(ApiError::invalid(
            &call.resource.group,
            &call.resource.plural,
            &key.name,
            vec![cause],
        ));
    }
    let written = modify(call, &key, WriteKind::Plain, |_| Ok(value.clone())).await?;
    Ok(outcome(call, Effect::Updated, written, warnings))
}

/// Creates an object for a PUT request.
async fn put_new(call: &Call, value: Value, warnings: Vec<String>) -> Result<Outcome, ApiError> {
    let (resource, key) = (&call.resource, call.key());
    let uid = text(&value, &["metadata", "uid"]);
    if !uid.is_empty() {
        let message =
            format!("Precondition failed: UID in precondition: {uid}, UID in object meta: ");
        let (group, plural) = (&resource.group, &resource.plural);
        return Err(ApiError::conflict(group, plural, &key.name, &message));
    }
    check_version(text(&value, &["metadata", "resourceVersion"]))?;
    let written = pipeline::insert(call, value, WriteKind::Plain).await?;
    Ok(outcome(call, Effect::Created, written, warnings))
}

/// Refuses an object without a name, or with a name that differs from the name in the URL.
fn check_name(call: &Call, value: &Value) -> Result<(), ApiError> {
    let on_url = call.name.as_deref().unwrap_or_default();
    match text(value, &["metadata", "name"]) {
        "" => Err(ApiError::bad_request(format!(
            "the name of the object ({on_url} based on URL) was undeterminable: name must be provided"
        ))),
        name if name != on_url => Err(ApiError::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({on_url})"
        ))),
        _ => Ok(()),
    }
}

/// Patches an object.
pub(crate) async fn patch(
    call: &Call,
    content_type: &str,
    bytes: &Bytes,
) -> Result<Outcome, ApiError> {
    let kind = codec::media_type(content_type);
    if call.options.force && kind != "application/apply-patch+yaml" {
        let cause = Cause::forbidden("force", "may not be specified for non-apply patch");
        return Err(ApiError::invalid(
            "meta.k8s.io",
            "PatchOptions",
            "",
            vec![cause],
        ));
    }
    // For a missing object, the response is NotFound even if the patch is malformed.
    if kind != "application/apply-patch+yaml" {
        call.find()?;
    }
    match kind {
        "application/json-patch+json" => {
            let operations = Operations::parse(bytes)?;
            change(call, &Excerpt::Result, &[], |object| {
                operations.apply(object)
            })
            .await
        }
        "application/merge-patch+json" => {
            let decoded = codec::parse_json(bytes)
                .and_then(require_object)
                .map_err(|detail| {
                    ApiError::bad_request(format!("error decoding patch: {detail}"))
                })?;
            change(call, &Excerpt::Result, &decoded.duplicates, |object| {
                merge(object, decoded.value.clone());
                Ok(())
            })
            .await
        }
        "application/strategic-merge-patch+json" if !call.resource.is_custom() => {
            let decoded = codec::parse_json(bytes)
                .and_then(require_object)
                .map_err(ApiError::bad_request)?;
            let schema = call.resource.schema();
            let excerpt = Excerpt::Patch(&decoded.value);
            change(call, &excerpt, &decoded.duplicates, |object| {
                // A strategic merge patch cannot change `apiVersion` and `kind`.
                let own = ["apiVersion", "kind"].map(|field| (field, object[field].clone()));
                strategic::patch(object, &decoded.value, schema)?;
                for (field, own) in own {
                    if object[field].is_string() || object[field].is_null() {
                        object[field] = own;
                    }
                }
                Ok(())
            })
            .await
        }
        "application/apply-patch+yaml" => apply::server_side(call, bytes).await,
        _ => Err(unsupported_patch()),
    }
}

/// Refuses a patch that is not a JSON object.
fn require_object(patch: codec::Decoded) -> Result<codec::Decoded, String> {
    if patch.value.is_object() {
        return Ok(patch);
    }
    Err(format!(
        "json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
        type_name(&patch.value)
    ))
}

/// Refuses a patch type that the resource does not support. The server calls this function before it reads the request
/// body.
pub(crate) fn check_patch_type(call: &Call, content_type: &str) -> Result<(), ApiError> {
    match codec::media_type(content_type) {
        "application/json-patch+json"
        | "application/merge-patch+json"
        | "application/apply-patch+yaml" => Ok(()),
        "application/strategic-merge-patch+json" if !call.resource.is_custom() => Ok(()),
        _ => Err(unsupported_patch()),
    }
}

fn unsupported_patch() -> ApiError {
    let text = "415: Unsupported Media Type";
    let mut error = ApiError::new(Reason::UnsupportedMediaType, text);
    error.subject = Some(Box::default());
    error
}

/// Applies a JSON patch, a merge patch or a strategic merge patch to the stored object.
async fn change(
    call: &Call,
    excerpt: &Excerpt<'_>,
    duplicates: &[codec::DuplicateField],
    patch: impl Fn(&mut Value) -> Result<(), ApiError>,
) -> Result<Outcome, ApiError> {
    let mut warnings = Vec::new();
    let is_scale = call.subresource == Some(Subresource::Scale);
    let written = modify(call, &call.key(), WriteKind::Plain, |old| {
        if is_scale {
            let mut scaled = scale::of(old, &call.resource);
            patch(&mut scaled)?;
            let patched = scaled.clone();
            if let Err(problem) = scale::decode(&mut scaled) {
                return Err(rejected(excerpt, patched, &ApiError::bad_request(problem)));
            }
            return scale::with_scale(old, &scaled, &call.resource);
        }
        let mut new = old.clone();
        patch(&mut new)?;
        if !new.is_object() {
            return Err(ApiError::bad_request("the patched value is not an object"));
        }
        let patched = new.clone();
        warnings = pipeline::decode(call, &mut new, Source::Patch, duplicates)
            .map_err(|e| rejected(excerpt, patched, &e))?;
        check_uid(call, old, &new)?;
        check_name(call, &new)?;
        Ok(new)
    })
    .await?;
    Ok(outcome(call, Effect::Updated, written, warnings))
}

/// The JSON value that an error message contains if the patched object cannot be decoded.
enum Excerpt<'a> {
    /// The patched object.
    Result,
    /// The patch of the request.
    Patch(&'a Value),
}

/// Converts the decoding error of a patched object to an `Invalid` error. Returns any other error unchanged.
fn rejected(excerpt: &Excerpt<'_>, mut patched: Value, error: &ApiError) -> ApiError {
    let found = [
        "couldn't get version/kind",
        "strict decoding error",
        "json: ",
    ]
    .into_iter()
    .find_map(|start| error.message.find(start));
    if found.is_none() && error.reason != Reason::BadRequest {
        return error.clone();
    }
    let text = match excerpt {
        Excerpt::Result => {
            if let Some(meta) = patched["metadata"].as_object_mut() {
                meta.remove("managedFields");
            }
            patched.to_string()
        }
        Excerpt::Patch(patch) => patch.to_string(),
    };
    let detail = &error.message[found.unwrap_or_default()..];
    let cause = Cause::invalid("patch", &json!(text), detail);
    ApiError::invalid("", "", "", vec![cause])
}

/// Refuses a patch that changes the uid.
fn check_uid(call: &Call, old: &Value, new: &Value) -> Result<(), ApiError> {
    let (current, patched) = (&old["metadata"]["uid"], &new["metadata"]["uid"]);
    if patched.is_null() || current == patched {
        return Ok(());
    }
    let cause = Cause::invalid("metadata.uid", patched, "field is immutable");
    let (resource, name) = (&call.resource, call.key().name);
    Err(ApiError::invalid(
        &resource.group,
        &resource.kind,
        &name,
        vec![cause],
    ))
}
