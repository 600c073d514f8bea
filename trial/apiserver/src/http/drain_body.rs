//! Draining of request bodies that a handler drops before their end.
//!
//! Without draining, the server would disconnect a refused client that still sends its body, and the client might never
//! see the response. Therefore the server reads the rest of the body, within limits on size and time.

use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body as HttpBody, Frame, SizeHint};

/// Maximum size of the drained rest of a body, in bytes.
const MAX_BYTES: usize = 64 << 20;
/// Maximum time to drain the rest of a body.
const MAX_TIME: Duration = Duration::from_secs(5);

/// A request body that is drained when it is dropped.
pub(crate) struct DrainedBody {
    body: Body,
    ended: bool,
}

impl DrainedBody {
    pub(crate) fn wrap<B>(body: B) -> Body
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

impl HttpBody for DrainedBody {
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

impl Drop for DrainedBody {
    fn drop(&mut self) {
        if self.ended || self.body.is_end_stream() {
            return;
        }
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let rest = mem::take(&mut self.body);
            runtime.spawn(tokio::time::timeout(MAX_TIME, drain(rest)));
        }
    }
}

async fn drain(mut rest: Body) {
    let mut drained = 0;
    while let Some(Ok(frame)) = rest.frame().await {
        drained += frame.data_ref().map_or(0, Bytes::len);
        if drained > MAX_BYTES {
            return;
        }
    }
}
