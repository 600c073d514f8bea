//! A response body that counts for its identity until it is sent.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Body;
use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, SizeHint};

use super::RequestPermit;

/// Maximum bytes handed to a connection at once. They no longer count afterwards.
pub(super) const CHUNK: usize = 64 << 10;

/// A response body that holds the permit of its request.
pub(super) struct CountedBody {
    body: Body,
    /// Unsent bytes of the last frame.
    pending: Bytes,
    _permit: RequestPermit,
}

impl CountedBody {
    pub(super) fn wrap(body: Body, permit: RequestPermit) -> Body {
        Body::new(Self {
            body,
            pending: Bytes::new(),
            _permit: permit,
        })
    }
}

impl HttpBody for CountedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.pending.is_empty() {
            match std::task::ready!(Pin::new(&mut self.body).poll_frame(context)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => self.pending = data,
                    Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
                },
                end => return Poll::Ready(end),
            }
        }
        let length = self.pending.len().min(CHUNK);
        Poll::Ready(Some(Ok(Frame::data(self.pending.split_to(length)))))
    }

    fn is_end_stream(&self) -> bool {
        self.pending.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let mut hint = self.body.size_hint();
        let rest = u64::try_from(self.pending.len()).unwrap_or(u64::MAX);
        if let Some(upper) = hint.upper() {
            hint.set_upper(upper.saturating_add(rest));
        }
        hint.set_lower(hint.lower().saturating_add(rest));
        hint
    }
}
