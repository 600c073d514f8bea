//! Large answers in gzip, for clients that understand it. Chunk by chunk, so that no answer is there twice as a whole
//! and nobody else waits for long.

use std::io::{self, Write as _};

use axum::body::Body;
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures::stream;
use http::{HeaderMap, HeaderValue, Response, header};
use http_body_util::BodyExt as _;
use hyper::body::Body as _;

/// Smaller answers are not worth the time.
const SMALLEST: u64 = 128 << 10;
/// So much is compressed between two looks at what else there is to do.
const CHUNK: usize = 64 << 10;

/// Whether a client says that it understands gzip.
pub(super) fn is_wanted(headers: &HeaderMap) -> bool {
    let said = headers.get_all(header::ACCEPT_ENCODING).iter();
    said.filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|coding| coding.trim() == "gzip")
}

/// The same answer, compressed if that is worth it. What has no end that is known, such as a watch, stays as it is.
pub(super) async fn compressed(response: Response<Body>) -> Response<Body> {
    let size = response.body().size_hint().exact();
    if size.is_none_or(|size| size < SMALLEST) {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let Ok(whole) = body.collect().await else {
        return Response::from_parts(parts, Body::empty());
    };
    let gzip = HeaderValue::from_static("gzip");
    parts.headers.insert(header::CONTENT_ENCODING, gzip);
    parts.headers.remove(header::CONTENT_LENGTH);
    let vary = HeaderValue::from_static("Accept-Encoding");
    parts.headers.append(header::VARY, vary);
    let encoder = GzEncoder::new(Vec::new(), Compression::fast());
    let start = Some((whole.to_bytes(), encoder));
    let chunks = stream::try_unfold(start, |state| async move {
        tokio::task::yield_now().await;
        state.map_or(Ok(None), |(rest, encoder)| step(rest, encoder).map(Some))
    });
    Response::from_parts(parts, Body::from_stream(chunks))
}

/// What is still to be compressed, and what with; none at the end.
type Rest = Option<(Bytes, GzEncoder<Vec<u8>>)>;

/// The next piece that can be sent.
fn step(mut rest: Bytes, mut encoder: GzEncoder<Vec<u8>>) -> io::Result<(Bytes, Rest)> {
    while !rest.is_empty() {
        let next = rest.split_to(rest.len().min(CHUNK));
        encoder.write_all(&next)?;
        let ready = std::mem::take(encoder.get_mut());
        if !ready.is_empty() {
            return Ok((Bytes::from(ready), Some((rest, encoder))));
        }
    }
    Ok((Bytes::from(encoder.finish()?), None))
}
