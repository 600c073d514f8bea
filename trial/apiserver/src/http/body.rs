//! The receiving of request bodies, within limits on size and time.

use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};

use crate::codec::MAX_BODY;
use crate::error::{ApiError, Reason};

/// Receives the whole body within the limits on size and time.
pub(super) async fn receive(body: Body, timeout: Duration) -> Result<Bytes, ApiError> {
    let received = tokio::time::timeout(timeout, receive_all(body)).await;
    received.unwrap_or_else(|_| {
        let mut error = ApiError::new(
            Reason::Timeout,
            "Timeout: request did not complete within requested timeout - context deadline exceeded",
        );
        error.subject = Some(Box::default());
        Err(error)
    })
}

async fn receive_all(body: Body) -> Result<Bytes, ApiError> {
    match Limited::new(body, MAX_BODY).collect().await {
        Ok(received) => Ok(received.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => {
            Err(ApiError::too_large(&format!("limit is {MAX_BODY}")))
        }
        Err(error) => Err(ApiError::bad_request(format!(
            "failed to read the request body: {error}"
        ))),
    }
}
