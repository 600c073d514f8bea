//! Server-side apply, as far as it is about requests: what may be sent, and what a new or an old object makes of it.
//! Who owns what is in [`crate::patch::apply`].

use axum::body::Body;
use bytes::Bytes;
use http::{Response, StatusCode};
use serde_json::{Value, json};

use super::{check_place, done, keeps_uid};
use crate::error::{ApiError, Cause};
use crate::http::body;
use crate::http::query::FieldValidation;
use crate::patch::apply::{self, Claim};
use crate::patch::managed::{self, Mode, writer};
use crate::patch::typed;
use crate::schema::shape;
use crate::verbs::pipeline::{self, Sent, Write, modify};
use crate::verbs::{Call, Subresource, scale, text};

/// What of its metadata says which object is meant. No more of it is written together with the status of a custom
/// resource.
const IDENTITY: [&str; 4] = ["name", "namespace", "uid", "resourceVersion"];

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

/// What the applier wants, as far as it is this door's, or why it cannot be that.
fn sent(call: &Call, bytes: &Bytes, is_new: bool) -> Result<(Value, Vec<String>), ApiError> {
    let (resource, key) = (&call.resource, call.key());
    let decoded = body::yaml(bytes)?;
    let twice = decoded.duplicates;
    let warnings = match call.options.field_validation {
        FieldValidation::Strict if !twice.is_empty() => {
            let why = body::strictly(None, &[], &twice);
            return Err(ApiError::bad_request(format!(
                "error strict decoding YAML: error converting YAML to JSON: {why}"
            )));
        }
        FieldValidation::Warn => body::told(None, &[], &twice),
        _ => Vec::new(),
    };
    let mut config = decoded.value;
    if !config["metadata"]["managedFields"].is_null() {
        return Err(ApiError::bad_request("metadata.managedFields must be nil"));
    }
    let scaled = call.subresource == Some(Subresource::Scale);
    let (version, kind) = if scaled {
        ("autoscaling/v1".to_owned(), "Scale")
    } else {
        (resource.api_version(), resource.kind.as_str())
    };
    let said = (text(&config, &["apiVersion"]), text(&config, &["kind"]));
    if said != (version.as_str(), kind) {
        let (group, version) = said.0.rsplit_once('/').unwrap_or(("", said.0));
        return Err(ApiError::bad_request(format!(
            "invalid object type: {group}/{version}, Kind={}",
            said.1
        )));
    }
    // Of an object that is there the URL says enough.
    if is_new || !text(&config, &["metadata", "name"]).is_empty() {
        check_place(call, &config)?;
    }
    if scaled {
        config = scale::as_object(&config, resource);
    } else if let Some(object) = config.as_object_mut() {
        // Each of the two doors is deaf to what belongs to the other.
        match call.subresource {
            Some(Subresource::Status) => {
                object.remove("spec");
                if resource.is_custom()
                    && let Some(Value::Object(meta)) = object.get_mut("metadata")
                {
                    meta.retain(|field, _| IDENTITY.contains(&field.as_str()));
                }
            }
            _ if resource.status => drop(object.remove("status")),
            _ => {}
        }
    }
    let whose = format!(
        "failed to create typed patch object ({}/{}; {}/{}, Kind={})",
        text(&config, &["metadata", "namespace"]),
        key.name,
        resource.group,
        resource.version,
        resource.kind
    );
    let mut unknown = Vec::new();
    shape::prune(
        &mut config,
        resource.schema(),
        &mut String::new(),
        &mut unknown,
    );
    if let Some(field) = unknown.first() {
        let why = format!("{whose}: .{field}: field not declared in schema");
        return Err(ApiError::unknown(why));
    }
    let mistyped = typed::mistyped(&config, resource.schema(), "");
    if resource.is_custom()
        && let Some(why) = mistyped
    {
        return Err(ApiError::unknown(format!("{whose}: {why}")));
    }
    if let Some(why) = apply::duplicate(&config, resource.schema()) {
        return Err(ApiError::unknown(format!("{whose}: {why}")));
    }
    // What has its type can be merged, and is decoded then, after conflicts.
    if resource.is_custom() || mistyped.is_some() {
        pipeline::decode(call, &mut config.clone(), Sent::Patched, &[])?;
    }
    Ok((config, warnings))
}

/// What becomes of an object of a built-in kind by decoding it: an empty value that was applied has an owner, and is
/// not there.
fn settled(call: &Call, value: &mut Value) -> Result<(), ApiError> {
    let resource = &call.resource;
    if !resource.is_custom() {
        pipeline::decode(call, value, Sent::Patched, &[])?;
        shape::as_typed(value, resource.schema());
    }
    Ok(())
}

/// Applies what is sent.
pub(super) async fn server_side(call: &Call, bytes: &Bytes) -> Result<Response<Body>, ApiError> {
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
    let found = call.shared.store.get(&resource.table, &key);
    if found.is_none() && call.subresource.is_some() {
        return Err(call.not_found());
    }
    let (config, warnings) = sent(call, bytes, found.is_none())?;
    let settle = |value: &mut Value| settled(call, value);
    let mode = || {
        writer(
            resource,
            &call.options.field_manager,
            Mode::Apply,
            call.subresource,
        )
    };
    if found.is_none() {
        let uid = text(&config, &["metadata", "uid"]);
        if !uid.is_empty() {
            let why = format!(
                "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
            );
            let (group, plural) = (&resource.group, &resource.plural);
            return Err(ApiError::conflict(group, plural, &key.name, &why));
        }
        let mut value = apply::apply(
            None,
            &config,
            resource.schema(),
            mode(),
            Claim::Free,
            settle,
        )?;
        value["metadata"]["name"] = json!(&*key.name);
        let written = pipeline::insert(call, value, Write::Apply).await?;
        return Ok(done(call, StatusCode::CREATED, &written, &warnings));
    }
    let written = modify(call, &key, Write::Apply, |old| {
        let old = &managed::adopted(resource, old);
        keeps_uid(call, old, &config)?;
        let applied = last_applied(call, old);
        let claim = match &applied {
            _ if call.options.force => Claim::Force,
            Some(own) => Claim::Own(own),
            None => Claim::Free,
        };
        let mut new = apply::apply(Some(old), &config, resource.schema(), mode(), claim, settle)?;
        // Its metadata may be gone with the last that anybody asked for of it.
        check_place(call, &new)?;
        if applied.is_some() {
            new["metadata"]["annotations"][LAST_APPLIED] = json!(format!("{config}\n"));
        }
        if text(&config, &["metadata", "resourceVersion"]).is_empty() {
            new["metadata"]["resourceVersion"] = Value::Null;
        }
        Ok(new)
    })
    .await?;
    Ok(done(call, StatusCode::OK, &written, &warnings))
}
