//! What happens to the rest of a body that nobody wants to read.
//!
//! A client that is refused while it still sends would be cut off, and might never see the answer. So the rest is
//! read and dropped, within bounds.

use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body as HttpBody, Frame, SizeHint};

/// The most that is read for nothing.
const MOST: usize = 64 << 20;
/// The longest that is read for nothing.
const LONGEST: Duration = Duration::from_secs(5);

/// A request's body that is taken off the wire even if it is dropped early.
pub(crate) struct TakenOff {
    body: Body,
    ended: bool,
}

impl TakenOff {
    pub(crate) fn body<B>(body: B) -> Body
    where
        B: HttpBody<Data = Bytes> + Send + 'static,
        B::Error: Into<axum::BoxError>,
    {
        if body.is_end_stream() {
            return Body::empty();
        }
        Body::new(Self {
            body: Body::new(body),
            ended: false,
        })
    }
}

impl HttpBody for TakenOff {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        self.ended = matches!(polled, Poll::Ready(None | Some(Err(_))));
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for TakenOff {
    fn drop(&mut self) {
        if self.ended || self.body.is_end_stream() {
            return;
        }
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let rest = mem::take(&mut self.body);
            runtime.spawn(tokio::time::timeout(LONGEST, take_off(rest)));
        }
    }
}

async fn take_off(mut rest: Body) {
    let mut dropped = 0;
    while let Some(Ok(frame)) = rest.frame().await {
        dropped += frame.data_ref().map_or(0, Bytes::len);
        if dropped > MOST {
            return;
        }
    }
}
