//! Documents that clients keep: they are told what names a document, and say it when they ask again.

use axum::body::Body;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};

/// The name of a document that is known by its contents.
pub(crate) fn name_of(contents: &[u8]) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, contents);
    let digest = digest.as_ref().iter();
    digest.fold(String::new(), |hex, byte| hex + &format!("{byte:02X}"))
}

/// Whether a client has the document of this name.
pub(crate) fn is_known(asked: &HeaderMap, name: &str) -> bool {
    let known = asked.get(header::IF_NONE_MATCH);
    let known = known
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    let mut tags = known.split(',').map(str::trim);
    tags.any(|tag| tag == "*" || tag.trim_start_matches("W/").trim_matches('"') == name)
}

/// The answer under its name.
pub(crate) fn named(mut answer: Response<Body>, name: &str) -> Response<Body> {
    let headers = answer.headers_mut();
    if let Ok(tag) = HeaderValue::from_str(&format!("\"{name}\"")) {
        headers.insert(header::ETAG, tag);
    }
    // JSON or something else, as the client accepts it.
    headers.insert(header::VARY, HeaderValue::from_static("Accept"));
    answer
}

/// The answer to who has it: the same without what they have.
pub(crate) fn unchanged(answer: Response<Body>) -> Response<Body> {
    let (mut parts, _) = answer.into_parts();
    parts.status = StatusCode::NOT_MODIFIED;
    parts.headers.remove(header::CONTENT_TYPE);
    Response::from_parts(parts, Body::empty())
}

/// An answer with these contents, under their name; without them for who has them.
pub(crate) fn by_contents(
    asked: &HeaderMap,
    contents: Vec<u8>,
    answer: impl FnOnce(Bytes) -> Response<Body>,
) -> Response<Body> {
    let name = name_of(&contents);
    let answer = named(answer(Bytes::from(contents)), &name);
    if is_known(asked, &name) {
        unchanged(answer)
    } else {
        answer
    }
}
