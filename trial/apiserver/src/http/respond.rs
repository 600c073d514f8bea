//! HTTP responses with a body: JSON, text, streams and errors.

use std::convert::Infallible;

use axum::body::Body;
use bytes::{BufMut as _, Bytes, BytesMut};
use futures::{Stream, StreamExt as _, stream};
use http::{HeaderValue, Response, StatusCode, header};
use serde_json::Value;

use crate::error::{ApiError, Reason};

fn response(code: StatusCode, content_type: &'static str, body: impl Into<Body>) -> Response<Body> {
    let mut response = Response::new(body.into());
    *response.status_mut() = code;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(
        header::CACHE_CONTROL,
        HeaderValue::from_static("no-cache, private"),
    );
    response
}

/// Returns a response with JSON bytes and a line break.
pub(crate) fn json_bytes(code: StatusCode, bytes: Bytes) -> Response<Body> {
    // The store shares the bytes of its objects, so these bytes are copied here.
    let mut line = bytes.try_into_mut().unwrap_or_else(|shared| {
        let mut line = BytesMut::with_capacity(shared.len() + 1);
        line.put_slice(&shared);
        line
    });
    line.put_u8(b'\n');
    response(code, "application/json", line.freeze())
}

pub(crate) fn json_value(code: StatusCode, value: &Value) -> Response<Body> {
    json_bytes(
        code,
        Bytes::from(serde_json::to_vec(value).unwrap_or_default()),
    )
}

/// Sets a header that allows shared caches to store a response.
pub(crate) fn public(mut response: Response<Body>) -> Response<Body> {
    let value = HeaderValue::from_static("public");
    response.headers_mut().insert(header::CACHE_CONTROL, value);
    response
}

/// Returns a JSON response with this content type that clients may cache for an hour.
pub(crate) fn cached_for_an_hour(content_type: &'static str, value: &Value) -> Response<Body> {
    let mut response = json_as(content_type, value);
    let value = HeaderValue::from_static("public, max-age=3600");
    response.headers_mut().insert(header::CACHE_CONTROL, value);
    response
}

/// Returns the response for a path outside the API.
pub(crate) fn page_not_found() -> Response<Body> {
    plain(StatusCode::NOT_FOUND, "404 page not found\n")
}

/// Returns a response with status 404 and without a body.
pub(crate) fn empty_not_found() -> Response<Body> {
    response(StatusCode::NOT_FOUND, "text/plain; charset=utf-8", "")
}

/// Returns the response for a malformed request.
pub(crate) fn malformed_request() -> Response<Body> {
    plain(StatusCode::BAD_REQUEST, "400 Bad Request")
}

/// Returns a plain text response, and forbids browsers to guess another content type.
fn plain(code: StatusCode, text: &'static str) -> Response<Body> {
    let mut response = self::response(code, "text/plain; charset=utf-8", text);
    let value = HeaderValue::from_static("nosniff");
    response
        .headers_mut()
        .insert(header::X_CONTENT_TYPE_OPTIONS, value);
    response
}

/// Returns a JSON response with this content type.
pub(crate) fn json_as(content_type: &'static str, value: &Value) -> Response<Body> {
    response(
        StatusCode::OK,
        content_type,
        serde_json::to_vec(value).unwrap_or_default(),
    )
}

/// Returns a response with these bytes and this content type.
pub(crate) fn bytes_as(content_type: &'static str, bytes: impl Into<Body>) -> Response<Body> {
    response(StatusCode::OK, content_type, bytes)
}

pub(crate) fn text(body: &str) -> Response<Body> {
    typed_text("text/plain; charset=utf-8", body)
}

pub(crate) fn typed_text(content_type: &'static str, body: &str) -> Response<Body> {
    response(StatusCode::OK, content_type, body.to_owned())
}

/// Returns a response with streamed JSON and a line break.
pub(crate) fn json_chunks(chunks: impl Stream<Item = Bytes> + Send + 'static) -> Response<Body> {
    let end = stream::iter([Bytes::from_static(b"\n")]);
    let body = Body::from_stream(chunks.chain(end).map(Ok::<_, Infallible>));
    response(StatusCode::OK, "application/json", body)
}

/// Returns the response with the `Status` of an error.
pub(crate) fn error(error: &ApiError) -> Response<Body> {
    let code = StatusCode::from_u16(error.code()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = json_value(code, &error.status());
    let headers = response.headers_mut();
    if error.reason == Reason::Unauthorized {
        headers.insert(
            header::WWW_AUTHENTICATE,
            HeaderValue::from_static("Bearer realm=\"berth\""),
        );
    }
    if let Some(seconds) = error.retry_after {
        headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// Adds a `Warning: 299` header for each warning.
pub(crate) fn warn(mut response: Response<Body>, warnings: &[String]) -> Response<Body> {
    for warning in warnings {
        let escaped = warning.replace('\\', "\\\\").replace('"', "\\\"");
        if let Ok(value) = HeaderValue::from_str(&format!("299 - \"{escaped}\"")) {
            response.headers_mut().append(header::WARNING, value);
        }
    }
    response
}
