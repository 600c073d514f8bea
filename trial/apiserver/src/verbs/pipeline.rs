//! The path of every create and update: decode, set system fields, set defaults, mutate with hooks and webhooks, set
//! defaults and prune again, validate, validate with hooks and webhooks, store. A hook is an in-process admission hook.
//!
//! A write waits only for webhook calls, and holds no lock during these calls. A conflict with another write is
//! detected when the object is stored.

mod accounts;
mod admission_steps;
mod decoding;
mod insert;
mod limit_range;
mod modify;
mod pod_resize;
mod prepare_update;
mod priority;
pub(crate) mod quota;
mod storage_class;
mod type_meta;
mod webhook_dispatch;

use serde_json::{Map, Value, json};

use super::Call;
use crate::codec::MAX_BODY;
use crate::error::ApiError;
use crate::patch;
use crate::store::{CommitError, Key, Stored};

pub(crate) use admission_steps::admit_delete;
pub(crate) use decoding::decode;
pub(crate) use insert::insert;
pub(crate) use modify::{Attempts, check_version, is_finished, modify};
pub(crate) use type_meta::Source;
pub(super) use type_meta::check_type_meta;

/// The kind of a write, on which field ownership depends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WriteKind {
    /// A create, a replacement or a client-side patch.
    Plain,
    /// A server-side apply. It records the field ownership itself.
    Apply,
    /// A write by the server on behalf of a client. The changed fields get no owner.
    Unowned,
}

fn commit_error(call: &Call, key: &Key, error: CommitError) -> ApiError {
    let (group, plural) = (&call.resource.group, &call.resource.plural);
    match error {
        CommitError::Exists => ApiError::already_exists(group, plural, &key.name),
        CommitError::Gone => ApiError::not_found(group, plural, &key.name),
        CommitError::Stale => ApiError::stale(group, plural, &key.name),
        CommitError::Storage(e) => ApiError::not_durable(e),
        CommitError::Encode(e) => ApiError::internal(e.to_string()),
    }
}

/// Refuses an object that is nested too deeply, or that is larger than a request body may be. An update of an object
/// that is already larger is accepted if it does not enlarge the object further.
fn check_size(value: &Value, old: Option<&Stored>) -> Result<(), ApiError> {
    let size = patch::json::size(value);
    if size > MAX_BODY && old.is_none_or(|old| size > old.bytes.len()) {
        let message = format!("the object has {size} bytes, and the limit is {MAX_BODY}");
        return Err(ApiError::too_large(&message));
    }
    if patch::json::depth(value) > patch::json::MAX_DEPTH {
        return Err(ApiError::bad_request("exceeded max depth"));
    }
    Ok(())
}

/// Returns the error for a body whose namespace differs from the namespace in the URL.
fn namespace_mismatch() -> ApiError {
    ApiError::bad_request(
        "the namespace of the provided object does not match the namespace sent on the request",
    )
}

/// Edits the field `metadata`. Replaces the field by an empty object first if it is not an object.
fn edit_meta(value: &mut Value, edit: impl FnOnce(&mut Map<String, Value>)) {
    if !value["metadata"].is_object() {
        value["metadata"] = json!({});
    }
    if let Some(map) = value["metadata"].as_object_mut() {
        edit(map);
    }
}
