//! Gzip compression of large responses, chunk by chunk, so that other requests are not delayed.

use std::io::Write as _;

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use flate2::Compression;
use flate2::write::GzEncoder;
use futures::stream;
use http::{HeaderMap, HeaderValue, Response, header};
use http_body_util::BodyExt as _;
use hyper::body::Body as _;

use crate::flow_control::LongRunning;

/// Minimum size of a compressed response.
const MIN_SIZE: usize = 128 << 10;
/// Bytes compressed between two yields.
const CHUNK: usize = 64 << 10;

/// Reports whether a client accepts gzip.
pub(super) fn is_accepted(headers: &HeaderMap) -> bool {
    let values = headers.get_all(header::ACCEPT_ENCODING).iter();
    values
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|coding| coding.trim() == "gzip")
}

/// Compresses a large response. Long-running responses stay uncompressed.
pub(super) async fn compressed(response: Response<Body>) -> Response<Body> {
    let is_small = |size| usize::try_from(size).is_ok_and(|size| size < MIN_SIZE);
    if response.extensions().get::<LongRunning>().is_some()
        || response.body().size_hint().exact().is_some_and(is_small)
    {
        return response;
    }
    let (mut parts, mut body) = response.into_parts();
    let mut begin = BytesMut::new();
    while begin.len() < MIN_SIZE {
        match body.frame().await {
            Some(Ok(frame)) => begin.extend(frame.into_data()),
            Some(Err(_)) | None => return Response::from_parts(parts, Body::from(begin.freeze())),
        }
    }
    let gzip = HeaderValue::from_static("gzip");
    parts.headers.insert(header::CONTENT_ENCODING, gzip);
    parts.headers.remove(header::CONTENT_LENGTH);
    let vary = HeaderValue::from_static("Accept-Encoding");
    parts.headers.append(header::VARY, vary);
    let chunks = stream::try_unfold(Some(Rest::new(begin.freeze(), body)), |rest| async move {
        tokio::task::yield_now().await;
        match rest {
            Some(rest) => rest.step().await.map(Some),
            None => Ok(None),
        }
    });
    Response::from_parts(parts, Body::from_stream(chunks))
}

/// The rest of a response, and its encoder.
struct Rest {
    pending: Bytes,
    body: Body,
    encoder: GzEncoder<Vec<u8>>,
}

impl Rest {
    fn new(pending: Bytes, body: Body) -> Self {
        let encoder = GzEncoder::new(Vec::new(), Compression::fast());
        Self {
            pending,
            body,
            encoder,
        }
    }

    /// Returns the next compressed chunk and the rest.
    async fn step(mut self) -> Result<(Bytes, Option<Self>), axum::Error> {
        loop {
            while !self.pending.is_empty() {
                let next = self.pending.split_to(self.pending.len().min(CHUNK));
                self.encoder.write_all(&next).map_err(axum::Error::new)?;
                let ready = std::mem::take(self.encoder.get_mut());
                if !ready.is_empty() {
                    return Ok((Bytes::from(ready), Some(self)));
                }
            }
            let Some(frame) = self.body.frame().await.transpose()? else {
                let end = self.encoder.finish().map_err(axum::Error::new)?;
                return Ok((Bytes::from(end), None));
            };
            self.pending = frame.into_data().unwrap_or_default();
        }
    }
}
