//! Receiving request bodies.

use std::time::Duration;

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt, LengthLimitError, Limited};

use crate::codec::MAX_BODY;
use crate::error::{ApiError, Reason};
use crate::flow_control::RequestPermit;

/// Receives the whole body within the limits on size, time and memory.
pub(super) async fn receive(
    body: Body,
    timeout: Duration,
    permit: &RequestPermit,
) -> Result<Bytes, ApiError> {
    let received = tokio::time::timeout(timeout, receive_all(body, permit)).await;
    received.unwrap_or_else(|_| {
        let mut error = ApiError::new(
            Reason::Timeout,
            "Timeout: request did not complete within requested timeout - context deadline exceeded",
        );
        error.subject = Some(Box::default());
        Err(error)
    })
}

async fn receive_all(body: Body, permit: &RequestPermit) -> Result<Bytes, ApiError> {
    let mut body = Limited::new(body, MAX_BODY);
    let mut received = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| {
            if error.is::<LengthLimitError>() {
                ApiError::too_large(&format!("limit is {MAX_BODY}"))
            } else {
                ApiError::bad_request(format!("failed to read the request body: {error}"))
            }
        })?;
        if let Ok(data) = frame.into_data() {
            permit.buffer(data.len())?;
            received.extend_from_slice(&data);
        }
    }
    Ok(received.freeze())
}
