//! Server-side apply requests. This module validates the applied configuration and stores the result.
//! [`crate::patch::apply`] merges the configuration into the stored object and tracks the owners of fields.

use bytes::Bytes;
use serde_json::{Value, json};

use super::{Effect, check_name, check_uid, outcome};
use crate::codec;
use crate::error::{ApiError, Cause};
use crate::patch::apply::{self, Claim};
use crate::patch::managed::{self, Mode, writer};
use crate::patch::type_check;
use crate::query::FieldValidation;
use crate::resource::Subresource;
use crate::schema::normalize;
use crate::verbs::pipeline::{self, Source, WriteKind, modify};
use crate::verbs::{Call, Outcome, scale, text};

/// The metadata fields that identify an object. An apply to the status of a custom object ignores all other metadata.
const IDENTITY_FIELDS: [&str; 4] = ["name", "namespace", "uid", "resourceVersion"];

/// Annotation in which kubectl stores the configuration of the last client-side apply.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Returns the last configuration that kubectl applied client-side, if the field manager of the request is `kubectl`.
/// The apply may take the fields of this configuration from their owners, and updates the annotation.
fn last_applied(call: &Call, live: &Value) -> Option<Value> {
    if call.options.field_manager != "kubectl" {
        return None;
    }
    let annotation = live["metadata"]["annotations"]
        .get(LAST_APPLIED)?
        .as_str()?;
    serde_json::from_str(annotation).ok()
}

/// Decodes and validates the applied configuration. Returns the configuration and warnings.
fn configuration(
    call: &Call,
    bytes: &Bytes,
    is_new: bool,
) -> Result<(Value, Vec<String>), ApiError> {
    let (resource, key) = (&call.resource, call.key());
    let decoded = codec::yaml(bytes)?;
    let duplicates = decoded.duplicates;
    let warnings = match call.options.field_validation {
        FieldValidation::Strict if !duplicates.is_empty() => {
            let message = codec::strict_error(&[], &duplicates);
            return Err(ApiError::bad_request(format!(
                "error strict decoding YAML: error converting YAML to JSON: {message}"
            )));
        }
        FieldValidation::Warn => codec::warnings(&[], &duplicates),
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
    let found = (text(&config, &["apiVersion"]), text(&config, &["kind"]));
    if found != (version.as_str(), kind) {
        let (group, version) = found.0.rsplit_once('/').unwrap_or(("", found.0));
        return Err(ApiError::bad_request(format!(
            "invalid object type: {group}/{version}, Kind={}",
            found.1
        )));
    }
    // The configuration of an existing object may omit the name.
    if is_new || !text(&config, &["metadata", "name"]).is_empty() {
        check_name(call, &config)?;
    }
    if scaled {
        config = scale::as_object(&config, resource);
    } else if let Some(object) = config.as_object_mut() {
        // An apply to the status subresource ignores the spec. An apply to the main resource ignores the status.
        match call.subresource {
            Some(Subresource::Status) => {
                object.remove("spec");
                if resource.is_custom()
                    && let Some(Value::Object(meta)) = object.get_mut("metadata")
                {
                    meta.retain(|field, _| IDENTITY_FIELDS.contains(&field.as_str()));
                }
            }
            _ if resource.status => drop(object.remove("status")),
            _ => {}
        }
    }
    let context = format!(
        "failed to create typed patch object ({}/{}; {}/{}, Kind={})",
        text(&config, &["metadata", "namespace"]),
        key.name,
        resource.group,
        resource.version,
        resource.kind
    );
    let mut unknown = Vec::new();
    normalize::prune(
        &mut config,
        resource.schema(),
        &mut String::new(),
        &mut unknown,
    );
    if let Some(field) = unknown.first() {
        let message = format!("{context}: .{field}: field not declared in schema");
        return Err(ApiError::unknown(message));
    }
    let mistyped = type_check::mistyped(&config, resource.schema(), "");
    if resource.is_custom()
        && let Some(message) = mistyped
    {
        return Err(ApiError::unknown(format!("{context}: {message}")));
    }
    if let Some(message) = apply::duplicate(&config, resource.schema()) {
        return Err(ApiError::unknown(format!("{context}: {message}")));
    }
    // The function `decode_merged` decodes a correctly typed object of a built-in kind after the merge.
    if resource.is_custom() || mistyped.is_some() {
        pipeline::decode(call, &mut config.clone(), Source::Patch, &[])?;
    }
    Ok((config, warnings))
}

/// Decodes a merged object of a built-in kind. Decoding removes empty values from the object. The managed fields still
/// contain the owners of these values.
fn decode_merged(call: &Call, value: &mut Value) -> Result<(), ApiError> {
    let resource = &call.resource;
    if !resource.is_custom() {
        pipeline::decode(call, value, Source::Patch, &[])?;
        normalize::as_typed(value, resource.schema());
    }
    Ok(())
}

/// Applies a configuration to the stored object, or creates the object.
pub(super) async fn server_side(call: &Call, bytes: &Bytes) -> Result<Outcome, ApiError> {
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
    let (config, warnings) = configuration(call, bytes, found.is_none())?;
    let decode = |value: &mut Value| decode_merged(call, value);
    let entry = || {
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
            let detail = format!(
                "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
            );
            let (group, plural) = (&resource.group, &resource.plural);
            return Err(ApiError::conflict(group, plural, &key.name, &detail));
        }
        let mut value = apply::apply(
            None,
            &config,
            resource.schema(),
            entry(),
            Claim::Free,
            decode,
        )?;
        value["metadata"]["name"] = json!(&*key.name);
        let written = pipeline::insert(call, value, WriteKind::Apply).await?;
        return Ok(outcome(call, Effect::Created, written, warnings));
    }
    let written = modify(call, &key, WriteKind::Apply, |old| {
        let old = &managed::adopted(resource, old);
        check_uid(call, old, &config)?;
        let applied = last_applied(call, old);
        let claim = match &applied {
            _ if call.options.force => Claim::Force,
            Some(own) => Claim::Own(own),
            None => Claim::Free,
        };
        let mut new = apply::apply(
            Some(old),
            &config,
            resource.schema(),
            entry(),
            claim,
            decode,
        )?;
        // The merge may have removed the metadata and thus the name.
        check_name(call, &new)?;
        if applied.is_some() {
            new["metadata"]["annotations"][LAST_APPLIED] = json!(format!("{config}\n"));
        }
        if text(&config, &["metadata", "resourceVersion"]).is_empty() {
            new["metadata"]["resourceVersion"] = Value::Null;
        }
        Ok(new)
    })
    .await?;
    Ok(outcome(call, Effect::Updated, written, warnings))
}
