//! Response bodies of the proxy, and the faults that the proxy injects into a body.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::{Stream, StreamExt as _, stream};
use http_body_util::BodyExt as _;
use hyper::body::{Body, Frame};
use serde_json::Value;
use tokio::sync::watch;

type Chunks = Pin<Box<dyn Stream<Item = io::Result<Bytes>> + Send>>;

/// The body of a response.
pub(super) struct ProxyBody(Chunks);

impl ProxyBody {
    /// Returns a body of one chunk.
    pub(super) fn from_bytes(bytes: Bytes) -> Self {
        Self(stream::iter([Ok(bytes)]).boxed())
    }

    /// Returns a body that streams the server's response.
    pub(super) fn new(body: kube::client::Body) -> Self {
        Self(
            body.into_data_stream()
                .map(|chunk| chunk.map_err(io::Error::other))
                .boxed(),
        )
    }

    /// Ends the body with an error in the middle of this line. The first line is 0.
    pub(super) fn cut_in_line(self, line: usize) -> Self {
        let cut = self.0.scan(Some(line), |left, chunk| {
            let Some(lines) = *left else {
                return std::future::ready(Some(Err(io::ErrorKind::ConnectionReset.into())));
            };
            let Ok(bytes) = chunk else {
                return std::future::ready(Some(chunk));
            };
            let mut ends = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
            let chunk = match (lines.checked_sub(1).map(|nth| ends.nth(nth)), lines) {
                (_, 0) => {
                    *left = None;
                    bytes.slice(..bytes.len() / 2)
                }
                (Some(Some((end, _))), _) => {
                    *left = None;
                    let rest = bytes.len() - end;
                    bytes.slice(..end + rest / 2)
                }
                _ => {
                    *left = Some(lines - lines_of(&bytes));
                    bytes
                }
            };
            std::future::ready(Some(Ok(chunk)))
        });
        Self(cut.boxed())
    }

    /// Calls `forge` with each object in the body: the object of each watch event, each item of a list, or the single
    /// object of another response.
    pub(super) fn forged(self, forge: fn(&mut Value)) -> Self {
        let next = move |(mut chunks, mut text, mut ended): (Chunks, Vec<u8>, bool)| async move {
            while !ended && !text.contains(&b'\n') {
                match chunks.next().await {
                    Some(Ok(chunk)) => text.extend_from_slice(&chunk),
                    Some(Err(error)) => return Some((Err(error), (chunks, Vec::new(), true))),
                    None => ended = true,
                }
            }
            if text.is_empty() {
                return None;
            }
            let end = text.iter().position(|byte| *byte == b'\n');
            let rest = text.split_off(end.map_or(text.len(), |end| end + 1));
            Some((Ok(forged_document(text, forge)), (chunks, rest, ended)))
        };
        Self(stream::unfold((self.0, Vec::new(), false), next).boxed())
    }

    /// Returns a body that sends no more data once the connection is frozen.
    pub(super) fn frozen_when(self, frozen: watch::Receiver<u64>, connection: u64) -> Self {
        let next = move |(mut chunks, mut frozen): (Chunks, watch::Receiver<u64>)| async move {
            let chunk = tokio::select! {
                chunk = chunks.next() => chunk?,
                () = wait_until_frozen(&mut frozen, connection) => std::future::pending().await,
            };
            Some((chunk, (chunks, frozen)))
        };
        Self(stream::unfold((self.0, frozen), next).boxed())
    }
}

/// Waits until the connection is frozen.
pub(super) async fn wait_until_frozen(frozen: &mut watch::Receiver<u64>, connection: u64) {
    if frozen
        .wait_for(|newest| *newest >= connection)
        .await
        .is_err()
    {
        // The proxy was dropped, which also cuts this connection.
        std::future::pending::<()>().await;
    }
}

fn forged_document(text: Vec<u8>, forge: fn(&mut Value)) -> Bytes {
    let Ok(mut document) = serde_json::from_slice::<Value>(&text) else {
        return text.into();
    };
    if let Some(object) = document.get_mut("object") {
        forge(object);
    } else if let Some(items) = document.get_mut("items").and_then(Value::as_array_mut) {
        items.iter_mut().for_each(forge);
    } else {
        forge(&mut document);
    }
    format!("{document}\n").into()
}

fn lines_of(bytes: &[u8]) -> usize {
    bytes.split(|byte| *byte == b'\n').count() - 1
}

impl Body for ProxyBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        self.0
            .as_mut()
            .poll_next(context)
            .map(|chunk| chunk.map(|chunk| chunk.map(Frame::data)))
    }
}
