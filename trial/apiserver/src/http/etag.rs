//! ETags of documents, and responses to conditional requests.

use axum::body::Body;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};

/// Returns the ETag of a document's contents.
pub(crate) fn of(contents: &[u8]) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, contents);
    let digest = digest.as_ref().iter();
    digest.fold(String::new(), |hex, byte| hex + &format!("{byte:02X}"))
}

/// Reports whether the header `If-None-Match` contains the ETag.
pub(crate) fn matches(headers: &HeaderMap, etag: &str) -> bool {
    let value = headers.get(header::IF_NONE_MATCH);
    let value = value
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    let mut tags = value.split(',').map(str::trim);
    tags.any(|tag| tag == "*" || tag.trim_start_matches("W/").trim_matches('"') == etag)
}

/// Sets the ETag of a response, and the header `Vary`.
pub(crate) fn set(mut response: Response<Body>, etag: &str) -> Response<Body> {
    let headers = response.headers_mut();
    if let Ok(tag) = HeaderValue::from_str(&format!("\"{etag}\"")) {
        headers.insert(header::ETAG, tag);
    }
    // The media type of the response depends on the Accept header.
    headers.insert(header::VARY, HeaderValue::from_static("Accept"));
    response
}

/// Converts a response to `304 Not Modified`.
pub(crate) fn not_modified(response: Response<Body>) -> Response<Body> {
    let (mut parts, _) = response.into_parts();
    parts.status = StatusCode::NOT_MODIFIED;
    parts.headers.remove(header::CONTENT_TYPE);
    Response::from_parts(parts, Body::empty())
}

/// Returns a response with the ETag of its contents, or `304 Not Modified` if the client has these contents.
pub(crate) fn by_contents(
    headers: &HeaderMap,
    contents: Vec<u8>,
    build: impl FnOnce(Bytes) -> Response<Body>,
) -> Response<Body> {
    let etag = of(&contents);
    let response = set(build(Bytes::from(contents)), &etag);
    if matches(headers, &etag) {
        not_modified(response)
    } else {
        response
    }
}
