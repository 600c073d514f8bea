//! The connections of a server that follows its own protocol: accept loop, TLS handshake and shutdown.

use std::future::Future;
use std::time::Duration;

use berth_apimachinery::log_limit::LogLimit;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Maximum time for a TLS handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Pause after a failed accept. The usual cause is a lack of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// The limit on log lines about failed handshakes, which every client that reaches the port can cause.
static FAILED_HANDSHAKES: LogLimit = LogLimit::new(10, Duration::from_mins(1));

/// Accepts connections until the token is cancelled. Then it closes the listener, and waits for the connections for at
/// most `drain_timeout`.
///
/// `admit` waits until there is room for another connection. Its result is passed to `serve`, which serves the
/// connection in a task of its own.
pub async fn serve<A, C>(
    listener: TcpListener,
    drain_timeout: Duration,
    cancel: CancellationToken,
    mut admit: impl FnMut() -> A,
    mut serve: impl FnMut(TcpStream, A::Output) -> C,
) where
    A: Future,
    C: Future<Output = ()> + Send + 'static,
{
    let connections = TaskTracker::new();
    let accepting = async {
        loop {
            match listener.accept().await {
                Ok((stream, _)) => {
                    drop(stream.set_nodelay(true));
                    let admitted = admit().await;
                    connections.spawn(serve(stream, admitted));
                }
                Err(error) => {
                    tracing::warn!(%error, "failed to accept a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    };
    cancel.run_until_cancelled(accepting).await;
    drop(listener);
    connections.close();
    let drained = tokio::time::timeout(drain_timeout, connections.wait()).await;
    if drained.is_err() {
        tracing::warn!("some connections were still open at the end of the shutdown timeout");
    }
}

/// Performs the TLS handshake of a connection. Returns `None` if the handshake fails or takes too long.
pub async fn handshake(tls: &TlsAcceptor, stream: TcpStream) -> Option<TlsStream<TcpStream>> {
    match tokio::time::timeout(HANDSHAKE_TIMEOUT, tls.accept(stream)).await {
        Ok(Ok(stream)) => Some(stream),
        Ok(Err(error)) => {
            // The client ends the handshake if it trusts another authority. This mistake is common, so the line has the
            // info level.
            if let Some(suppressed) = FAILED_HANDSHAKES.allow() {
                tracing::info!(%error, suppressed, "a TLS handshake failed");
            }
            None
        }
        Err(_) => {
            tracing::debug!("a TLS handshake timed out");
            None
        }
    }
}
