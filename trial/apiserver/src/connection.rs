//! TCP connections of clients: the server accepts a connection, performs the TLS handshake, and serves HTTP/2 or
//! HTTP/1.1 as ALPN selects.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use berth_apimachinery::log_limit::LogLimit;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::authentication::certificate::ClientCertificates;
use crate::http::drain_body::DrainedBody;
use crate::http::handle;
use crate::http::stalled_body::{StalledResponses, WatchResponse};
use crate::shared::Shared;

/// Maximum number of concurrent streams of an HTTP/2 connection, including watches. Go's server has the same default.
const MAX_STREAMS: u32 = 250;
/// Maximum size of the buffer of an HTTP/1.1 connection in bytes. The buffer contains request heads and unread
/// responses.
const HTTP1_BUFFER: usize = 64 << 10;
/// Maximum size of the buffer of an HTTP/2 stream in bytes. The buffer contains an unread response.
const HTTP2_BUFFER: usize = 64 << 10;
/// Maximum time to finish the running requests of a connection when the server stops.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);
/// Interval of pings to an idle HTTP/2 client. [`PING_TIMEOUT`] is the maximum time until the client replies.
const PING_INTERVAL: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(20);
/// Pause after a failed `accept`. The usual reason for the failure is a lack of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// The limit on log lines about failed handshakes, which any client can cause.
static FAILED_HANDSHAKES: LogLimit = LogLimit::new(10, Duration::from_mins(1));

/// Response to an HTTP request without TLS.
const PLAINTEXT_RESPONSE: &[u8] =
    b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n";

/// The TLS configuration of new connections.
#[derive(Clone)]
pub(crate) struct Tls {
    pub(crate) acceptor: TlsAcceptor,
    pub(crate) clients: ClientCertificates,
}

impl Tls {
    /// Performs the TLS handshake. Returns `None` if the handshake fails.
    async fn handshake(&self, mut stream: TcpStream) -> Option<TlsStream<TcpStream>> {
        if is_plaintext_http(&stream).await {
            // Closing a connection with unread data could reset the connection before the client reads the response.
            let mut request = [0; 4096];
            drop(stream.read(&mut request).await);
            drop(stream.write_all(PLAINTEXT_RESPONSE).await);
            return None;
        }
        match self.acceptor.accept(stream).await {
            Ok(tls) => Some(tls),
            Err(error) => {
                if let Some(suppressed) = FAILED_HANDSHAKES.allow() {
                    tracing::debug!(%error, suppressed, "TLS handshake failed");
                }
                None
            }
        }
    }
}

/// Reports whether the first byte is an upper-case letter, as in an HTTP method. A TLS handshake never starts with a
/// letter.
async fn is_plaintext_http(stream: &TcpStream) -> bool {
    let mut first = [0];
    let seen = stream.peek(&mut first).await;
    seen.is_ok_and(|count| count == 1) && first[0].is_ascii_uppercase()
}

/// Accepts connections until the server stops. Each connection is a task of `connections`.
pub(crate) async fn serve(
    listener: TcpListener,
    tls: Tls,
    shared: Arc<Shared>,
    connections: TaskTracker,
    reachable: watch::Receiver<bool>,
    stopping: CancellationToken,
) {
    loop {
        let accepted = tokio::select! {
            () = stopping.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, _)) if !*reachable.borrow() => drop(stream),
            Ok((stream, _)) => {
                connections.spawn(connection(
                    stream,
                    tls.clone(),
                    shared.clone(),
                    reachable.clone(),
                    stopping.clone(),
                ));
            }
            Err(error) => {
                tracing::warn!(%error, "failed to accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Waits until the server becomes unreachable.
async fn wait_unreachable(reachable: &mut watch::Receiver<bool>) {
    let cut = reachable.wait_for(|reachable| !reachable).await.is_ok();
    if !cut {
        // The server has dropped the sender at its shutdown. The token `stopping` ends the connection instead.
        std::future::pending::<()>().await;
    }
}

async fn connection(
    stream: TcpStream,
    tls: Tls,
    shared: Arc<Shared>,
    mut reachable: watch::Receiver<bool>,
    stopping: CancellationToken,
) {
    drop(stream.set_nodelay(true));
    let timeout = shared.in_flight.limits.slow_client;
    let Ok(Some(stream)) = tokio::time::timeout(timeout, tls.handshake(stream)).await else {
        return;
    };
    let session = stream.get_ref().1;
    let http2 = session.alpn_protocol() == Some(b"h2");
    let client = session
        .peer_certificates()
        .and_then(|chain| tls.clients.check(chain));
    let stall_limit = shared.in_flight.limits.request_timeout;
    let responses = Arc::new(StalledResponses::default());
    let observed = responses.clone();
    let service = service_fn(move |request: Request<Incoming>| {
        let (shared, observed) = (shared.clone(), observed.clone());
        let mut request = request.map(DrainedBody::wrap);
        if let Some(client) = &client {
            request.extensions_mut().insert(client.clone());
        }
        async move {
            let response = handle(shared, request).await;
            let is_watch = response.extensions().get::<WatchResponse>().is_some();
            Ok::<Response<Body>, Infallible>(if is_watch {
                response
            } else {
                response.map(|body| observed.observe(body))
            })
        }
    });
    let io = TokioIo::new(stream);
    // Serves an HTTP/1.1 or HTTP/2 connection until the connection ends, or the server becomes unreachable or stops.
    macro_rules! run {
        ($served:expr) => {{
            let served = $served;
            tokio::pin!(served);
            tokio::select! {
                result = served.as_mut() => {
                    if let Err(error) = result {
                        tracing::debug!(%error, "connection ended");
                    }
                }
                () = wait_unreachable(&mut reachable) => {}
                () = responses.wait(stall_limit) => {
                    tracing::debug!("closing a connection whose client stopped reading a response");
                    served.as_mut().graceful_shutdown();
                    drop(tokio::time::timeout(SHUTDOWN_TIMEOUT, served).await);
                }
                () = stopping.cancelled() => {
                    served.as_mut().graceful_shutdown();
                    drop(tokio::time::timeout(SHUTDOWN_TIMEOUT, served).await);
                }
            }
        }};
    }
    if http2 {
        run!(
            http2::Builder::new(TokioExecutor::new())
                .timer(TokioTimer::new())
                .max_concurrent_streams(MAX_STREAMS)
                .max_send_buf_size(HTTP2_BUFFER)
                .keep_alive_interval(PING_INTERVAL)
                .keep_alive_timeout(PING_TIMEOUT)
                .serve_connection(io, service)
        );
    } else {
        run!(
            http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(timeout)
                .max_buf_size(HTTP1_BUFFER)
                .serve_connection(io, service)
                .with_upgrades()
        );
    }
}
