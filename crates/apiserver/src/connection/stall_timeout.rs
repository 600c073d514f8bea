//! A stream that fails when its peer stops reading.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// Fails writes without progress. It can also pause reads during a blocked write, so that a pipelining client has to read
/// its responses first.
#[derive(Debug)]
pub(super) struct StallTimeout<S> {
    io: S,
    limit: Duration,
    /// Runs while a write is blocked.
    blocked: Option<Pin<Box<Sleep>>>,
    /// True if reads wait for blocked writes.
    pause_reads: bool,
    reader: Option<Waker>,
}

impl<S> StallTimeout<S> {
    pub(super) fn new(io: S, limit: Duration) -> Self {
        Self {
            io,
            limit,
            blocked: None,
            pause_reads: false,
            reader: None,
        }
    }

    /// Pauses reads while a write is blocked.
    pub(super) fn pause_reads_on_stall(&mut self) {
        self.pause_reads = true;
    }

    fn progress<T>(
        &mut self,
        context: &mut Context<'_>,
        polled: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            self.blocked = None;
            if let Some(reader) = self.reader.take() {
                reader.wake();
            }
            return polled;
        }
        let limit = self.limit;
        let blocked = self.blocked.get_or_insert_with(|| Box::pin(sleep(limit)));
        blocked
            .as_mut()
            .poll(context)
            .map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for StallTimeout<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.pause_reads && self.blocked.is_some() {
            self.reader = Some(context.waker().clone());
            return Poll::Pending;
        }
        Pin::new(&mut self.io).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for StallTimeout<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.io).poll_write(context, bytes);
        self.progress(context, polled)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.io).poll_write_vectored(context, slices);
        self.progress(context, polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[tokio::test]
    async fn writes_to_a_peer_that_does_not_read_time_out() {
        let (near, far) = tokio::io::duplex(16);
        let mut near = StallTimeout::new(near, Duration::from_millis(50));
        let error = near.write_all(&[0; 64]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        drop(far);
    }

    #[tokio::test]
    async fn reads_pause_until_the_peer_reads() {
        let (near, mut far) = tokio::io::duplex(16);
        let mut near = StallTimeout::new(near, Duration::from_mins(1));
        near.pause_reads_on_stall();
        far.write_all(b"more").await.unwrap();
        let (mut taken, mut asked) = ([0; 16], [0; 4]);
        assert_eq!(near.write(&[0; 16]).await.unwrap(), 16);
        assert!(futures::poll!(Box::pin(near.write(&[0; 1]))).is_pending());
        assert!(futures::poll!(Box::pin(near.read(&mut asked))).is_pending());
        far.read_exact(&mut taken).await.unwrap();
        near.write_all(&[0; 1]).await.unwrap();
        near.read_exact(&mut asked).await.unwrap();
        assert_eq!(&asked, b"more");
    }
}
