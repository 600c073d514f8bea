//! The entry points to the admission webhooks that review a write; the submodules do the work.
//! [`crate::webhook_registry`] contains the registered webhooks.
//!
//! [`request`] selects the webhooks for a request and builds the AdmissionRequest. [`calls`] sends the
//! AdmissionRequest, and applies the decisions of the webhooks. A webhook receives the object in the API version that
//! its rule names. The webhook allows or denies the write, and a mutating webhook may also patch the object.
//!
//! This module must not know HTTP and TLS, which belong to `berth_https_client`.

mod calls;
mod request;

use serde_json::Value;

use super::WriteKind;
use crate::error::ApiError;
use crate::store::Key;
use crate::verbs::Call;
use crate::verbs::delete_options::DeleteOptions;
use request::Request;

/// A create or update that passes through admission.
pub(super) struct Subject<'a> {
    pub(super) key: &'a Key,
    /// The name in the request. The name is empty if the server generates the name.
    pub(super) name: &'a str,
    /// The stored object, or `None` for a create.
    pub(super) old: Option<&'a Value>,
    pub(super) write: WriteKind,
}

/// The result of the search for webhooks that match a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Matched {
    Yes,
    No,
}

/// Calls the mutating webhooks for a create or update. `complete` decodes an object that a webhook changed, and sets
/// its defaults.
pub(super) async fn mutate(
    call: &Call,
    subject: &Subject<'_>,
    value: &mut Value,
    complete: &(dyn Fn(&mut Value) -> Result<(), ApiError> + Send + Sync),
) -> Result<Matched, ApiError> {
    let Some(request) = Request::write(call, subject) else {
        return Ok(Matched::No);
    };
    let old = subject.old.unwrap_or(&Value::Null);
    request.mutate(value, old, complete).await
}

/// Calls the validating webhooks for a create or update.
pub(super) async fn validate(
    call: &Call,
    subject: &Subject<'_>,
    value: &Value,
) -> Result<Matched, ApiError> {
    match Request::write(call, subject) {
        Some(request) => {
            request
                .validate(value, subject.old.unwrap_or(&Value::Null))
                .await
        }
        None => Ok(Matched::No),
    }
}

/// Calls the mutating webhooks and then the validating webhooks for a delete.
pub(super) async fn review_delete(
    call: &Call,
    key: &Key,
    object: &Value,
    options: &DeleteOptions,
) -> Result<Matched, ApiError> {
    let Some(request) = Request::delete(call, key, options) else {
        return Ok(Matched::No);
    };
    let mutated = request
        .mutate(&mut Value::Null, object, &|_| Ok(()))
        .await?;
    let validated = request.validate(&Value::Null, object).await?;
    Ok(if mutated == Matched::Yes {
        mutated
    } else {
        validated
    })
}
