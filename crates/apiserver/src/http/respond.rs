//! Building responses.

use std::convert::Infallible;

use axum::body::Body;
use bytes::{BufMut as _, Bytes, BytesMut};
use futures::{Stream, StreamExt as _, stream};
use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::BodyExt as _;
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

/// JSON that is serialised already, as a line.
pub(crate) fn json_bytes(code: StatusCode, bytes: Bytes) -> Response<Body> {
    // What was made for this answer has room; objects belong to the store.
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

/// The same with a line for each value, if it is JSON.
pub(crate) async fn laid_out(response: Response<Body>) -> Response<Body> {
    if response.extensions().get::<Endless>().is_some() {
        return response;
    }
    let (parts, body) = response.into_parts();
    let kind = parts.headers.get(header::CONTENT_TYPE);
    let is_json = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/json"));
    if !is_json {
        return Response::from_parts(parts, body);
    }
    let Ok(collected) = body.collect().await else {
        return error(&ApiError::internal("the answer was cut short"));
    };
    let bytes = collected.to_bytes();
    let value = serde_json::from_slice::<Value>(&bytes);
    let text = value.and_then(|value| serde_json::to_vec_pretty(&value));
    Response::from_parts(parts, Body::from(text.map_or(bytes, Bytes::from)))
}

/// An answer in JSON as YAML.
pub(crate) async fn as_yaml(response: Response<Body>) -> Response<Body> {
    let (mut parts, body) = response.into_parts();
    let Ok(collected) = body.collect().await else {
        return error(&ApiError::internal("the answer was cut short"));
    };
    let value = serde_json::from_slice::<Value>(&collected.to_bytes());
    let text = value
        .ok()
        .and_then(|value| serde_saphyr::to_string(&value).ok());
    let Some(text) = text else {
        return error(&ApiError::internal("the answer cannot be written as YAML"));
    };
    let kind = HeaderValue::from_static("application/yaml");
    parts.headers.insert(header::CONTENT_TYPE, kind);
    Response::from_parts(parts, Body::from(text))
}

/// An answer that is the same for everybody.
pub(crate) fn public(mut answer: Response<Body>) -> Response<Body> {
    let value = HeaderValue::from_static("public");
    answer.headers_mut().insert(header::CACHE_CONTROL, value);
    answer
}

/// JSON that people look at, laid out for them.
pub(crate) fn json_for_people(value: &Value) -> Response<Body> {
    let text = serde_json::to_vec_pretty(value).unwrap_or_default();
    response(StatusCode::OK, "application/json", text)
}

/// An answer that will be the same whenever it is asked for.
pub(crate) fn for_ever(mut answer: Response<Body>) -> Response<Body> {
    let value = HeaderValue::from_static("public, immutable");
    answer.headers_mut().insert(header::CACHE_CONTROL, value);
    answer
}

/// An answer of a type of its own that anybody may keep for an hour.
pub(crate) fn for_an_hour(content_type: &'static str, value: &Value) -> Response<Body> {
    let mut answer = json_as(content_type, value);
    let value = HeaderValue::from_static("public, max-age=3600");
    answer.headers_mut().insert(header::CACHE_CONTROL, value);
    answer
}

/// For paths that are not of the API.
pub(crate) fn no_such_page() -> Response<Body> {
    plain(StatusCode::NOT_FOUND, "404 page not found\n")
}

/// For documents that are not there: an answer without a body.
pub(crate) fn nothing_here() -> Response<Body> {
    response(StatusCode::NOT_FOUND, "text/plain; charset=utf-8", "")
}

/// For requests that are no HTTP.
pub(crate) fn no_request() -> Response<Body> {
    plain(StatusCode::BAD_REQUEST, "400 Bad Request")
}

/// The same place under another name.
pub(crate) fn moved(to: &str) -> Response<Body> {
    let mut answer = response(StatusCode::MOVED_PERMANENTLY, "application/json", "");
    if let Ok(value) = HeaderValue::from_str(to) {
        answer.headers_mut().insert(header::LOCATION, value);
    }
    answer
}

/// A text that no browser may take for anything else.
fn plain(code: StatusCode, text: &'static str) -> Response<Body> {
    let mut answer = response(code, "text/plain; charset=utf-8", text);
    let value = HeaderValue::from_static("nosniff");
    answer
        .headers_mut()
        .insert(header::X_CONTENT_TYPE_OPTIONS, value);
    answer
}

/// JSON with a content type of its own.
pub(crate) fn json_as(content_type: &'static str, value: &Value) -> Response<Body> {
    response(
        StatusCode::OK,
        content_type,
        serde_json::to_vec(value).unwrap_or_default(),
    )
}

/// Bytes of a type of their own.
pub(crate) fn bytes_as(content_type: &'static str, bytes: impl Into<Body>) -> Response<Body> {
    response(StatusCode::OK, content_type, bytes)
}

pub(crate) fn text(body: &str) -> Response<Body> {
    typed_text("text/plain; charset=utf-8", body)
}

pub(crate) fn typed_text(content_type: &'static str, body: &str) -> Response<Body> {
    response(StatusCode::OK, content_type, body.to_owned())
}

/// JSON that is written while it is read, as a line.
pub(crate) fn json_chunks(chunks: impl Stream<Item = Bytes> + Send + 'static) -> Response<Body> {
    let end = stream::iter([Bytes::from_static(b"\n")]);
    let body = Body::from_stream(chunks.chain(end).map(Ok::<_, Infallible>));
    response(StatusCode::OK, "application/json", body)
}

/// Marks an answer whose end is not in sight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Endless;

/// JSON that goes on until somebody ends it.
pub(crate) fn endless(body: Body) -> Response<Body> {
    let mut answer = response(StatusCode::OK, "application/json", body);
    answer.extensions_mut().insert(Endless);
    answer
}

/// A `Status` for an error.
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

/// Adds `Warning: 299` headers.
pub(crate) fn warn(mut response: Response<Body>, warnings: &[String]) -> Response<Body> {
    for warning in warnings {
        let escaped = warning.replace('\\', "\\\\").replace('"', "\\\"");
        if let Ok(value) = HeaderValue::from_str(&format!("299 - \"{escaped}\"")) {
            response.headers_mut().append(header::WARNING, value);
        }
    }
    response
}
