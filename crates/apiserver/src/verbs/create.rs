//! create.

use axum::body::Body;
use bytes::Bytes;
use http::{Response, StatusCode};

use super::pipeline::{self, Sent, Write};
use super::{Call, read};
use crate::error::ApiError;
use crate::http::{body, method_not_allowed, respond};

pub(crate) async fn create(
    call: &Call,
    content_type: &str,
    bytes: &Bytes,
) -> Result<Response<Body>, ApiError> {
    if call.resource.namespaced() && call.namespace.is_none() {
        return Err(method_not_allowed());
    }
    let decoded = body::typed(content_type, bytes, &call.resource.kind)?;
    let mut value = decoded.value;
    let warnings = pipeline::decode(call, &mut value, Sent::Body(bytes), &decoded.duplicates)?;
    if value["metadata"]["resourceVersion"]
        .as_str()
        .and_then(|version| version.parse::<u64>().ok())
        .is_some_and(|version| version != 0)
    {
        let why = "resourceVersion should not be set on objects to be created";
        return Err(ApiError::unknown(why));
    }
    let written = pipeline::insert(call, value, Write::Plain).await?;
    let response = call.answer(StatusCode::CREATED, &written.object);
    let response = respond::warn(respond::warn(response, &warnings), &written.warnings);
    Ok(read::warn_deprecated(call, response))
}
