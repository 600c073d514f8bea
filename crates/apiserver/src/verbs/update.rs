//! update (PUT) and patch.

mod apply;

use axum::body::Body;
use bytes::Bytes;
use http::{Response, StatusCode};
use serde_json::{Value, json};

use super::pipeline::{self, Sent, Write, Written, check_version, modify};
use super::{Call, Subresource, read, scale, text};
use crate::error::{ApiError, Cause, Reason};
use crate::go_text::{printed, type_name};
use crate::http::{body, respond};
use crate::patch::json::Operations;
use crate::patch::{merge, strategic};

fn done(call: &Call, code: StatusCode, written: &Written, warnings: &[String]) -> Response<Body> {
    let response = if call.subresource == Some(Subresource::Scale) {
        respond::json_value(code, &scale::of(&written.object.value(), &call.resource))
    } else {
        call.answer(code, &written.object)
    };
    let response = respond::warn(respond::warn(response, warnings), &written.warnings);
    read::warn_deprecated(call, response)
}

pub(crate) async fn replace(
    call: &Call,
    content_type: &str,
    bytes: &Bytes,
) -> Result<Response<Body>, ApiError> {
    let decoded = body::typed(content_type, bytes, &call.resource.kind)?;
    let mut value = decoded.value;
    let key = call.key();
    if call.subresource == Some(Subresource::Scale) {
        scale::check_sent(&value)?;
        check_place(call, &value)?;
        if let Some(problem) = scale::problem(&mut value) {
            return Err(ApiError::bad_request(format!(
                "Scale in version \"v1\" cannot be handled as a Scale: {problem}"
            )));
        }
        let written = modify(call, &key, Write::Plain, |old| {
            scale::put(old, &value, &call.resource)
        })
        .await?;
        return Ok(done(call, StatusCode::OK, &written, &[]));
    }
    let warnings = pipeline::decode(call, &mut value, Sent::Body(bytes), &decoded.duplicates)?;
    check_place(call, &value)?;
    let found = call.shared.store.get(&call.resource.table, &key);
    if found.is_none() && call.resource.put.creates && call.subresource.is_none() {
        return put_new(call, value, &warnings).await;
    }
    // The object must be found before it is judged.
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
    let written = modify(call, &key, Write::Plain, |_| Ok(value.clone())).await?;
    Ok(done(call, StatusCode::OK, &written, &warnings))
}

/// Creates what was to be replaced, and is not there.
async fn put_new(
    call: &Call,
    value: Value,
    warnings: &[String],
) -> Result<Response<Body>, ApiError> {
    let (resource, key) = (&call.resource, call.key());
    let uid = text(&value, &["metadata", "uid"]);
    if !uid.is_empty() {
        let why = format!("Precondition failed: UID in precondition: {uid}, UID in object meta: ");
        let (group, plural) = (&resource.group, &resource.plural);
        return Err(ApiError::conflict(group, plural, &key.name, &why));
    }
    check_version(text(&value, &["metadata", "resourceVersion"]))?;
    let written = pipeline::insert(call, value, Write::Plain).await?;
    Ok(done(call, StatusCode::CREATED, &written, warnings))
}

/// Refuses an object that does not say which one it is, or says that it is another.
fn check_place(call: &Call, value: &Value) -> Result<(), ApiError> {
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

pub(crate) async fn patch(
    call: &Call,
    content_type: &str,
    bytes: &Bytes,
) -> Result<Response<Body>, ApiError> {
    let kind = body::media(content_type);
    if call.options.force && kind != "application/apply-patch+yaml" {
        let cause = Cause::forbidden("force", "may not be specified for non-apply patch");
        return Err(ApiError::invalid(
            "meta.k8s.io",
            "PatchOptions",
            "",
            vec![cause],
        ));
    }
    // The object must be found before what is to become of it is read.
    if kind != "application/apply-patch+yaml" {
        call.find()?;
    }
    match kind {
        "application/json-patch+json" => {
            let operations = Operations::parse(bytes)?;
            change(call, &Shown::Result, &[], |object| operations.apply(object)).await
        }
        "application/merge-patch+json" => {
            let decoded = body::parsed(bytes)
                .and_then(is_map)
                .map_err(|why| ApiError::bad_request(format!("error decoding patch: {why}")))?;
            change(call, &Shown::Result, &decoded.duplicates, |object| {
                merge(object, decoded.value.clone());
                Ok(())
            })
            .await
        }
        "application/strategic-merge-patch+json" if !call.resource.is_custom() => {
            let decoded = body::parsed(bytes)
                .and_then(is_map)
                .map_err(ApiError::bad_request)?;
            let schema = call.resource.schema();
            let shown = Shown::Patch(&decoded.value);
            change(call, &shown, &decoded.duplicates, |object| {
                // What it says of its own kind is not looked at.
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
        _ => Err(unknown_patch()),
    }
}

/// Refuses patches that could only replace a whole object.
fn is_map(patch: body::Decoded) -> Result<body::Decoded, String> {
    if patch.value.is_object() {
        return Ok(patch);
    }
    Err(format!(
        "json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
        type_name(&patch.value)
    ))
}

/// Refuses a kind of patch that is not known, before anything of it is read.
pub(crate) fn check_patch_type(call: &Call, content_type: &str) -> Result<(), ApiError> {
    match body::media(content_type) {
        "application/json-patch+json"
        | "application/merge-patch+json"
        | "application/apply-patch+yaml" => Ok(()),
        "application/strategic-merge-patch+json" if !call.resource.is_custom() => Ok(()),
        _ => Err(unknown_patch()),
    }
}

fn unknown_patch() -> ApiError {
    let text = "415: Unsupported Media Type";
    let mut error = ApiError::new(Reason::UnsupportedMediaType, text);
    error.subject = Some(Box::default());
    error
}

/// Runs one of the client-side patches through the pipeline.
async fn change(
    call: &Call,
    shown: &Shown<'_>,
    duplicates: &[body::Twice],
    patch: impl Fn(&mut Value) -> Result<(), ApiError>,
) -> Result<Response<Body>, ApiError> {
    let mut warnings = Vec::new();
    let is_scale = call.subresource == Some(Subresource::Scale);
    let written = modify(call, &call.key(), Write::Plain, |old| {
        if is_scale {
            let mut scaled = scale::of(old, &call.resource);
            patch(&mut scaled)?;
            let patched = scaled.clone();
            if let Some(problem) = scale::problem(&mut scaled) {
                return Err(rejected(shown, patched, &ApiError::bad_request(problem)));
            }
            return scale::put(old, &scaled, &call.resource);
        }
        let mut new = old.clone();
        patch(&mut new)?;
        if !new.is_object() {
            return Err(ApiError::bad_request("the patched object is not an object"));
        }
        let patched = new.clone();
        warnings = pipeline::decode(call, &mut new, Sent::Patched, duplicates)
            .map_err(|e| rejected(shown, patched, &e))?;
        keeps_uid(call, old, &new)?;
        check_place(call, &new)?;
        Ok(new)
    })
    .await?;
    Ok(done(call, StatusCode::OK, &written, &warnings))
}

/// What an error shows of a patch that leads to something that cannot be decoded.
enum Shown<'a> {
    /// What would have become of the object.
    Result,
    /// The patch, as Go prints it.
    Patch(&'a Value),
}

/// What cannot be decoded after a patch is invalid, not a bad request.
fn rejected(shown: &Shown<'_>, mut patched: Value, error: &ApiError) -> ApiError {
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
    let text = match shown {
        Shown::Result => {
            if let Some(meta) = patched["metadata"].as_object_mut() {
                meta.remove("managedFields");
            }
            patched.to_string()
        }
        Shown::Patch(patch) => printed(patch),
    };
    let why = &error.message[found.unwrap_or_default()..];
    let cause = Cause::invalid("patch", &json!(text), why);
    ApiError::invalid("", "", "", vec![cause])
}

/// Refuses a patch that would make it another object.
fn keeps_uid(call: &Call, old: &Value, new: &Value) -> Result<(), ApiError> {
    let (is, wanted) = (&old["metadata"]["uid"], &new["metadata"]["uid"]);
    if wanted.is_null() || is == wanted {
        return Ok(());
    }
    let cause = Cause::invalid("metadata.uid", wanted, "field is immutable");
    let (resource, name) = (&call.resource, call.key().name);
    Err(ApiError::invalid(
        &resource.group,
        &resource.kind,
        &name,
        vec![cause],
    ))
}
