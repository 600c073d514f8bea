//! The review of requests by admission webhooks.
//!
//! A webhook receives the object in the version that its rule names, and responds with a denial or a patch. This module
//! must not know how webhooks are reached.

mod calls;
mod request;

use serde_json::Value;

use super::WriteKind;
use crate::error::ApiError;
use crate::store::Key;
use crate::verbs::Call;
use crate::verbs::delete_options::DeleteOptions;
use request::Request;

/// A write under admission.
pub(super) struct Subject<'a> {
    pub(super) key: &'a Key,
    /// The name in the request, empty for a generated name.
    pub(super) name: &'a str,
    pub(super) old: Option<&'a Value>,
    pub(super) write: WriteKind,
}

/// The use of webhooks during a review.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reviewed {
    Yes,
    No,
}

/// Runs the mutating webhooks for a create or update.
pub(super) async fn mutate(
    call: &Call,
    subject: &Subject<'_>,
    value: &mut Value,
    complete: &(dyn Fn(&mut Value) -> Result<(), ApiError> + Send + Sync),
) -> Result<Reviewed, ApiError> {
    let Some(request) = Request::write(call, subject) else {
        return Ok(Reviewed::No);
    };
    let old = subject.old.unwrap_or(&Value::Null);
    request.mutate(value, old, complete).await
}

/// Runs the validating webhooks for a create or update.
pub(super) async fn validate(
    call: &Call,
    subject: &Subject<'_>,
    value: &Value,
) -> Result<Reviewed, ApiError> {
    match Request::write(call, subject) {
        Some(request) => {
            request
                .validate(value, subject.old.unwrap_or(&Value::Null))
                .await
        }
        None => Ok(Reviewed::No),
    }
}

/// Runs all webhooks for a delete.
pub(super) async fn review_delete(
    call: &Call,
    key: &Key,
    object: &Value,
    options: &DeleteOptions,
) -> Result<Reviewed, ApiError> {
    let Some(request) = Request::delete(call, key, options) else {
        return Ok(Reviewed::No);
    };
    let mutated = request
        .mutate(&mut Value::Null, object, &|_| Ok(()))
        .await?;
    let validated = request.validate(&Value::Null, object).await?;
    Ok(if mutated == Reviewed::Yes {
        mutated
    } else {
        validated
    })
}
