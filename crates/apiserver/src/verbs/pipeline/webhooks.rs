//! The review of requests by admission webhooks.
//!
//! A webhook receives the object in the version that its rule names, and responds with a denial or a patch. This module
//! must not know how webhooks are reached.

mod calls;
mod request;

use serde_json::Value;

use super::admission::{Reviewed, Subject};
use crate::error::ApiError;
use crate::store::Key;
use crate::verbs::Call;
use crate::verbs::delete::DeleteOptions;
use crate::webhooks::matching::Operation;
use request::Request;

/// A subresource that is not stored, as webhooks receive it.
pub(crate) struct VirtualSubresource<'a> {
    /// The table of its resource.
    table: &'a str,
    subresource: &'a str,
    /// Group, version and kind of the body.
    kind: (&'a str, &'a str, &'a str),
}

impl<'a> VirtualSubresource<'a> {
    pub(crate) fn new(
        table: &'a str,
        subresource: &'a str,
        kind: (&'a str, &'a str, &'a str),
    ) -> Self {
        Self {
            table,
            subresource,
            kind,
        }
    }
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
    if let Some(old) = subject.old {
        return request.mutate(value, old, complete).await;
    }
    let system_fields = SystemFields::of(value, subject);
    system_fields.hide(value);
    let complete_hidden = |value: &mut Value| {
        system_fields.restore(value);
        complete(value)?;
        system_fields.hide(value);
        Ok(())
    };
    let reviewed = request.mutate(value, &Value::Null, &complete_hidden).await;
    system_fields.restore(value);
    reviewed
}

/// The metadata that the server adds to a new object. Mutating webhooks do not receive it.
struct SystemFields(Vec<(&'static str, Value)>);

impl SystemFields {
    fn of(value: &Value, subject: &Subject<'_>) -> Self {
        let fields = ["uid", "creationTimestamp"].into_iter();
        let name = subject.name.is_empty().then_some("name");
        let present = |field| Some((field, value["metadata"].get(field)?.clone()));
        Self(fields.chain(name).filter_map(present).collect())
    }

    fn hide(&self, value: &mut Value) {
        if let Some(metadata) = value["metadata"].as_object_mut() {
            for (field, given) in &self.0 {
                // A name set by a webhook stays.
                if metadata.get(*field) == Some(given) {
                    metadata.remove(*field);
                }
            }
        }
    }

    fn restore(&self, value: &mut Value) {
        for (field, given) in &self.0 {
            let chosen = *field == "name" && value["metadata"]["name"].is_string();
            if !chosen {
                value["metadata"][*field] = given.clone();
            }
        }
    }
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

/// Runs all webhooks for the body of a virtual subresource. Reports whether a mutating webhook was called.
pub(crate) async fn review_virtual(
    call: &Call,
    subresource: &VirtualSubresource<'_>,
    object: &mut Value,
) -> Result<bool, ApiError> {
    let Some(request) = Request::virtual_subresource(call, subresource, Operation::Create) else {
        return Ok(false);
    };
    let mutated = request.mutate(object, &Value::Null, &|_| Ok(())).await?;
    request.validate(object, &Value::Null).await?;
    Ok(mutated == Reviewed::Yes)
}

/// Runs all webhooks for a connection.
pub(crate) async fn review_connection(
    call: &Call,
    subresource: &VirtualSubresource<'_>,
    mut options: Value,
) -> Result<(), ApiError> {
    let Some(request) = Request::virtual_subresource(call, subresource, Operation::Connect) else {
        return Ok(());
    };
    request
        .mutate(&mut options, &Value::Null, &|_| Ok(()))
        .await?;
    request.validate(&options, &Value::Null).await?;
    Ok(())
}
