//! A request in front of its admission webhooks.
//!
//! A webhook receives the object in the version that its rule names, and responds with a refusal or a patch. This module
//! must not know how webhooks are reached.

mod calls;
mod request;

use serde_json::Value;

use super::admission::{Reviewed, Subject};
use crate::error::ApiError;
use crate::store::Key;
use crate::verbs::{Call, delete};
use crate::webhooks::matching::Operation;
use request::Request;

/// The form in which webhooks receive a subresource that is not stored.
pub(crate) struct Part<'a> {
    /// The table of the resource that it belongs to.
    table: &'a str,
    subresource: &'a str,
    /// Group, version and kind of what is sent.
    kind: (&'a str, &'a str, &'a str),
}

impl<'a> Part<'a> {
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

/// Lets the mutating webhooks change an object that is created or updated.
pub(super) async fn mutate(
    call: &Call,
    subject: &Subject<'_>,
    value: &mut Value,
    settle: &(dyn Fn(&mut Value) -> Result<(), ApiError> + Send + Sync),
) -> Result<Reviewed, ApiError> {
    let Some(request) = Request::write(call, subject) else {
        return Ok(Reviewed::No);
    };
    if let Some(old) = subject.old {
        return request.mutate(value, old, settle).await;
    }
    let given = Given::of(value, subject);
    given.hide(value);
    let settle = |value: &mut Value| {
        given.restore(value);
        settle(value)?;
        given.hide(value);
        Ok(())
    };
    let reviewed = request.mutate(value, &Value::Null, &settle).await;
    given.restore(value);
    reviewed
}

/// Metadata that the server adds to a new object. Mutating webhooks do not see it.
struct Given(Vec<(&'static str, Value)>);

impl Given {
    fn of(value: &Value, subject: &Subject<'_>) -> Self {
        let fields = ["uid", "creationTimestamp"].into_iter();
        let name = subject.name.is_empty().then_some("name");
        let given = |field| Some((field, value["metadata"].get(field)?.clone()));
        Self(fields.chain(name).filter_map(given).collect())
    }

    fn hide(&self, value: &mut Value) {
        if let Some(metadata) = value["metadata"].as_object_mut() {
            for (field, given) in &self.0 {
                // A name that a webhook has chosen stays.
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

/// Lets the validating webhooks refuse an object that is created or updated.
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

/// Lets all webhooks refuse a delete.
pub(super) async fn review_delete(
    call: &Call,
    key: &Key,
    object: &Value,
    options: &delete::Options,
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

/// Lets webhooks change or refuse what is sent to a subresource that is not stored. Reports whether any was called.
pub(crate) async fn review_part(
    call: &Call,
    part: &Part<'_>,
    object: &mut Value,
) -> Result<bool, ApiError> {
    let Some(request) = Request::part(call, part, Operation::Create) else {
        return Ok(false);
    };
    let mutated = request.mutate(object, &Value::Null, &|_| Ok(())).await?;
    request.validate(object, &Value::Null).await?;
    Ok(mutated == Reviewed::Yes)
}

/// Lets webhooks refuse a connection with these options.
pub(crate) async fn review_connection(
    call: &Call,
    part: &Part<'_>,
    mut options: Value,
) -> Result<(), ApiError> {
    let Some(request) = Request::part(call, part, Operation::Connect) else {
        return Ok(());
    };
    request
        .mutate(&mut options, &Value::Null, &|_| Ok(()))
        .await?;
    request.validate(&options, &Value::Null).await?;
    Ok(())
}
