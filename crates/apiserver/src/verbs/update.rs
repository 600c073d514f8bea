//! update (PUT) and patch.

use axum::body::Body;
use bytes::Bytes;
use http::{Response, StatusCode};
use serde_json::{Value, json};

use super::pipeline::{self, Write, Written, modify};
use super::{Call, Subresource, read, scale, text};
use crate::error::{ApiError, Cause};
use crate::http::{body, respond};
use crate::patch::apply::{self, Claim};
use crate::patch::managed::{Mode, writer};
use crate::patch::{merge, strategic};
use crate::schema::shape;

fn done(call: &Call, code: StatusCode, written: &Written, warnings: &[String]) -> Response<Body> {
    let response = if call.subresource == Some(Subresource::Scale) {
        respond::json_value(code, &scale::of(&written.object.value(), &call.resource))
    } else {
        call.answer(code, &written.object)
    };
    read::warn_deprecated(call, respond::warn(response, warnings))
}

pub(crate) fn replace(
    call: &Call,
    content_type: &str,
    bytes: &Bytes,
) -> Result<Response<Body>, ApiError> {
    let decoded = body::typed(content_type, bytes, &call.resource.kind)?;
    let mut value = decoded.value;
    let key = call.key();
    if call.subresource == Some(Subresource::Scale) {
        let written = modify(call, &key, Write::Plain, |old| {
            scale::put(old, &value, &call.resource)
        })?;
        return Ok(done(call, StatusCode::OK, &written, &[]));
    }
    let warnings = pipeline::decode(call, &mut value, decoded.duplicates)?;
    let unconditional = text(&value, &["metadata", "resourceVersion"]).is_empty();
    // The object must be found before it is judged.
    call.find()?;
    if unconditional && call.resource.is_custom() {
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
    let written = modify(call, &key, Write::Plain, |_| Ok(value.clone()))?;
    Ok(done(call, StatusCode::OK, &written, &warnings))
}

pub(crate) fn patch(
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
    match kind {
        "application/json-patch+json" => {
            let operations: json_patch::Patch = serde_json::from_slice(bytes)
                .map_err(|e| ApiError::bad_request(format!("error decoding patch: {e}")))?;
            change(call, &Shown::Result, |object| {
                json_patch::patch(object, &operations).map_err(|error| {
                    tracing::debug!(%error, "a JSON patch does not fit");
                    let mut error = ApiError::new(
                        crate::error::Reason::Invalid,
                        "the server rejected our request due to an error in our request",
                    );
                    error.subject = Some(Box::default());
                    error
                })
            })
        }
        "application/merge-patch+json" => {
            let decoded = body::json(bytes)?;
            change(call, &Shown::Result, |object| {
                merge(object, decoded.value.clone());
                Ok(())
            })
        }
        "application/strategic-merge-patch+json" if !call.resource.is_custom() => {
            let decoded = body::json(bytes)?;
            let schema = call.resource.schema();
            change(call, &Shown::Patch(&decoded.value), |object| {
                strategic::patch(object, &decoded.value, schema)
            })
        }
        "application/apply-patch+yaml" => server_side(call, bytes),
        _ => Err(unknown_patch()),
    }
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
    let mut error = ApiError::new(crate::error::Reason::UnsupportedMediaType, text);
    error.subject = Some(Box::default());
    error
}

/// Runs one of the client-side patches through the pipeline.
fn change(
    call: &Call,
    shown: &Shown<'_>,
    patch: impl Fn(&mut Value) -> Result<(), ApiError>,
) -> Result<Response<Body>, ApiError> {
    let mut warnings = Vec::new();
    let is_scale = call.subresource == Some(Subresource::Scale);
    let written = modify(call, &call.key(), Write::Plain, |old| {
        if is_scale {
            let mut scaled = scale::of(old, &call.resource);
            patch(&mut scaled)?;
            return scale::put(old, &scaled, &call.resource);
        }
        let mut new = old.clone();
        patch(&mut new)?;
        if !new.is_object() {
            return Err(ApiError::bad_request("the patched object is not an object"));
        }
        let patched = new.clone();
        warnings = pipeline::decode(call, &mut new, Vec::new())
            .map_err(|e| rejected(shown, &patched, &e))?;
        Ok(new)
    })?;
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
fn rejected(shown: &Shown<'_>, patched: &Value, error: &ApiError) -> ApiError {
    let found = ["strict decoding error", "json: "]
        .into_iter()
        .find_map(|start| error.message.find(start));
    let Some(at) = found else {
        return error.clone();
    };
    let text = match shown {
        Shown::Result => patched.to_string(),
        Shown::Patch(patch) => in_go(patch),
    };
    let cause = Cause::invalid("patch", &json!(text), &error.message[at..]);
    ApiError::invalid("", "", "", vec![cause])
}

/// A value as Go prints maps, lists and what is in them.
fn in_go(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(in_go).collect();
            format!("[{}]", items.join(" "))
        }
        Value::Object(map) => {
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_by_key(|(name, _)| *name);
            let entries: Vec<String> = entries
                .into_iter()
                .map(|(name, value)| format!("{name}:{}", in_go(value)))
                .collect();
            format!("map[{}]", entries.join(" "))
        }
        other => other.to_string(),
    }
}

/// Where client-side apply keeps what it has applied.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// What kubectl has applied before it went over to server-side apply. Fields of that are its own, and it goes on
/// keeping the note.
fn last_applied(call: &Call, live: &Value) -> Option<Value> {
    if call.options.field_manager != "kubectl" {
        return None;
    }
    let note = live["metadata"]["annotations"]
        .get(LAST_APPLIED)?
        .as_str()?;
    serde_json::from_str(note).ok()
}

fn server_side(call: &Call, bytes: &Bytes) -> Result<Response<Body>, ApiError> {
    let (resource, key) = (&call.resource, call.key());
    if !call.options.manager_named {
        let cause = Cause::required("fieldManager", "is required for apply patch");
        return Err(ApiError::invalid(
            "meta.k8s.io",
            "PatchOptions",
            "",
            vec![cause],
        ));
    }
    let mut config = body::yaml(bytes)?.value;
    if config["metadata"]["managedFields"]
        .as_array()
        .is_some_and(|l| !l.is_empty())
    {
        return Err(ApiError::bad_request("metadata.managedFields must be nil"));
    }
    if text(&config, &["kind"]).is_empty() || text(&config, &["apiVersion"]).is_empty() {
        return Err(ApiError::bad_request(
            "Object 'Kind' or 'apiVersion' is missing",
        ));
    }
    if call.subresource == Some(Subresource::Scale) {
        return change(call, &Shown::Result, |object| {
            merge(object, config.clone());
            Ok(())
        });
    }
    let mut unknown = Vec::new();
    shape::prune(
        &mut config,
        resource.schema(),
        &mut String::new(),
        &mut unknown,
    );
    if let Some(field) = unknown.first() {
        return Err(ApiError::new(
            crate::error::Reason::InternalError,
            format!(
                "failed to create typed patch object ({}/{}; {}/{}, Kind={}): .{field}: field not declared in schema",
                text(&config, &["metadata", "namespace"]),
                key.name,
                resource.group,
                resource.version,
                resource.kind
            ),
        ));
    }
    pipeline::decode(call, &mut config, Vec::new())?;
    if !resource.is_custom() {
        shape::as_typed(&mut config, resource.schema());
    }
    let mode = || {
        writer(
            resource,
            &call.options.field_manager,
            Mode::Apply,
            call.subresource,
        )
    };
    let exists = call.shared.store.get(&resource.table, &key).is_some();
    if !exists {
        if call.subresource.is_some() {
            return Err(call.not_found());
        }
        if !text(&config, &["metadata", "resourceVersion"]).is_empty()
            || !text(&config, &["metadata", "uid"]).is_empty()
        {
            return Err(ApiError::conflict(
                &resource.group,
                &resource.plural,
                &key.name,
                "uid mismatch: the provided object specified a uid or resourceVersion, and no existing object was found",
            ));
        }
        let mut value = apply::apply(None, &config, resource.schema(), mode(), Claim::Free)?;
        value["metadata"]["name"] = json!(&*key.name);
        let written = pipeline::insert(call, value, Write::Apply)?;
        return Ok(done(call, StatusCode::CREATED, &written, &[]));
    }
    let written = modify(call, &key, Write::Apply, |old| {
        let applied = last_applied(call, old);
        let claim = match &applied {
            _ if call.options.force => Claim::Force,
            Some(own) => Claim::Own(own),
            None => Claim::Free,
        };
        let mut new = apply::apply(Some(old), &config, resource.schema(), mode(), claim)?;
        if applied.is_some() {
            new["metadata"]["annotations"][LAST_APPLIED] = json!(format!("{config}\n"));
        }
        if text(&config, &["metadata", "resourceVersion"]).is_empty() {
            new["metadata"]["resourceVersion"] = Value::Null;
        }
        Ok(new)
    })?;
    Ok(done(call, StatusCode::OK, &written, &[]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patch_is_shown_as_go_prints_it() {
        let patch = json!({"spec": {"b": null, "a": [1, "x", true]}, "kind": "A"});
        assert_eq!(in_go(&patch), "map[kind:A spec:map[a:[1 x true] b:<nil>]]");
    }
}
