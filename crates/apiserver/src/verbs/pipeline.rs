//! The way every write takes: decode, fill in what the system owns, default, let hooks and webhooks change the object,
//! default and prune again, validate, let hooks and webhooks refuse it, store. Only calls to webhooks wait, with nothing
//! locked; what others have changed meanwhile is found when the object is stored.

mod admission;
mod decoding;
mod insert;
mod modify;
mod type_meta;
mod unchanged;
mod webhooks;

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::Call;
use crate::error::ApiError;
use crate::http::MAX_BODY;
use crate::patch;
use crate::store::{CommitError, Key, Stored};

pub(crate) use admission::admit_delete;
pub(crate) use decoding::{Sent, decode};
pub(crate) use insert::insert;
pub(crate) use modify::{Attempts, check_version, is_finished, modify};
pub(super) use type_meta::unreadable;
pub(crate) use webhooks::{Part, review_connection, review_part};

/// Which write it is, for what differs between them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Write {
    /// Create, replace and the client-side patches.
    Plain,
    /// Server-side apply, which keeps track of ownership itself.
    Apply,
    /// What the system does on somebody's behalf, and nobody owns.
    Unowned,
}

/// A finished write.
#[derive(Debug)]
pub(crate) struct Written {
    pub(crate) object: Arc<Stored>,
    /// What the client is to be warned of.
    pub(crate) warnings: Vec<String>,
}

fn commit_error(call: &Call, key: &Key, error: CommitError) -> ApiError {
    let (group, plural) = (&call.resource.group, &call.resource.plural);
    match error {
        CommitError::Exists => ApiError::already_exists(group, plural, &key.name),
        CommitError::Gone => ApiError::not_found(group, plural, &key.name),
        CommitError::Stale => ApiError::stale(group, plural, &key.name),
        CommitError::Storage(e) => ApiError::unkept(e),
        CommitError::Encode(e) => ApiError::internal(e.to_string()),
    }
}

/// Refuses an object that has become deeper or larger than what a request can send, managed fields included, unless the
/// one before it was as large.
fn check_size(value: &Value, old: Option<&Stored>) -> Result<(), ApiError> {
    let size = patch::json::size(value);
    if size > MAX_BODY && old.is_none_or(|old| size > old.bytes.len()) {
        let why = format!("the object has {size} bytes, and the limit is {MAX_BODY}");
        return Err(ApiError::too_large(&why));
    }
    if patch::json::depth(value) > patch::json::MAX_DEPTH {
        return Err(ApiError::bad_request("exceeded max depth"));
    }
    Ok(())
}

/// The body says another namespace than the URL.
fn elsewhere() -> ApiError {
    ApiError::bad_request(
        "the namespace of the provided object does not match the namespace sent on the request",
    )
}

/// Changes `metadata`, which is made an object if it is none.
fn edit_meta(value: &mut Value, edit: impl FnOnce(&mut Map<String, Value>)) {
    if !value["metadata"].is_object() {
        value["metadata"] = json!({});
    }
    if let Some(map) = value["metadata"].as_object_mut() {
        edit(map);
    }
}
