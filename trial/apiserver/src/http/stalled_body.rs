//! Detection of clients that stop reading a response. Such a response would stay in memory as long as the connection.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use parking_lot::Mutex;
use tokio::time::Instant;

/// Maximum size of a frame in bytes. The connection asks for the next frame when the client has read most of the
/// previous one, so small frames show the progress of the client.
const FRAME: usize = 16 << 10;

/// The mark of the response to a watch, among its extensions. The store limits the events that a watch may leave unread.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WatchResponse;

/// The responses of one connection that wait for the client.
#[derive(Debug, Default)]
pub(crate) struct StalledResponses(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    last_id: u64,
    /// The times since which the responses wait.
    since: BTreeMap<u64, Instant>,
}

impl StalledResponses {
    /// Returns a body with the same content that records when it waits for the client.
    pub(crate) fn observe(self: &Arc<Self>, body: Body) -> Body {
        if body.is_end_stream() {
            return body;
        }
        let id = {
            let mut waiting = self.0.lock();
            waiting.last_id += 1;
            waiting.last_id
        };
        Body::new(ObservedBody {
            id,
            responses: Arc::clone(self),
            body,
            rest: Bytes::new(),
        })
    }

    /// Waits until a response has made no progress for this time.
    pub(crate) async fn wait(&self, limit: Duration) {
        loop {
            let oldest = self.0.lock().since.values().min().copied();
            let now = Instant::now();
            let stalled_at = oldest.unwrap_or(now) + limit;
            if oldest.is_some() && stalled_at <= now {
                return;
            }
            tokio::time::sleep_until(stalled_at).await;
        }
    }
}

struct ObservedBody {
    id: u64,
    responses: Arc<StalledResponses>,
    body: Body,
    /// The part of the last frame that the connection has not asked for.
    rest: Bytes,
}

impl ObservedBody {
    fn next_piece(&mut self) -> Bytes {
        if self.rest.len() > FRAME {
            return self.rest.split_to(FRAME);
        }
        // A copy, so that an unread last piece does not keep the memory of the whole frame.
        let piece = Bytes::copy_from_slice(&self.rest);
        self.rest = Bytes::new();
        piece
    }
}

impl HttpBody for ObservedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        self.responses.0.lock().since.remove(&self.id);
        if self.rest.is_empty() {
            match ready!(Pin::new(&mut self.body).poll_frame(context)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => self.rest = data,
                    Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
                },
                end => return Poll::Ready(end),
            }
        }
        let piece = self.next_piece();
        self.responses
            .0
            .lock()
            .since
            .insert(self.id, Instant::now());
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (rest, body) = (self.rest.len() as u64, self.body.size_hint());
        let mut hint = SizeHint::new();
        hint.set_lower(body.lower() + rest);
        if let Some(upper) = body.upper() {
            hint.set_upper(upper + rest);
        }
        hint
    }
}

impl Drop for ObservedBody {
    fn drop(&mut self) {
        self.responses.0.lock().since.remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use http_body_util::BodyExt as _;

    use super::*;

    const LIMIT: Duration = Duration::from_mins(1);

    #[tokio::test(start_paused = true)]
    async fn a_response_without_progress_is_stalled() {
        let responses = Arc::new(StalledResponses::default());
        let content = Bytes::from(vec![b'x'; 3 * FRAME + 1]);
        let mut body = responses.observe(Body::from(content.clone()));
        assert_eq!(body.size_hint().exact(), Some(content.len() as u64));
        let mut read = Vec::new();
        for _ in 0..2 {
            read.extend(body.frame().await.unwrap().unwrap().into_data().unwrap());
            tokio::time::advance(LIMIT / 2).await;
        }
        assert!(responses.wait(LIMIT).now_or_never().is_none());
        responses.wait(LIMIT).await;
        read.extend(body.collect().await.unwrap().to_bytes());
        assert_eq!(read, content);
        let waited = tokio::time::timeout(LIMIT * 3, responses.wait(LIMIT)).await;
        assert!(waited.is_err(), "no response waits");
    }

    #[tokio::test(start_paused = true)]
    async fn a_response_that_waits_for_the_server_is_not_stalled() {
        let responses = Arc::new(StalledResponses::default());
        let never = futures::stream::pending::<Result<Bytes, std::convert::Infallible>>();
        let mut body = responses.observe(Body::from_stream(never));
        assert!(body.frame().now_or_never().is_none());
        let waited = tokio::time::timeout(LIMIT * 3, responses.wait(LIMIT)).await;
        assert!(waited.is_err());
    }
}
