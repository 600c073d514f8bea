//! Accepting connections: TLS, then HTTP/2 or HTTP/1.1 as the client prefers. Knows nothing of what is served.

mod slots;
mod stall;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
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

use crate::authentication::certificate::Clients;
use crate::http::handle;
use crate::http::unread::TakenOff;
use crate::shared::Shared;
pub(crate) use slots::{Connection, Slots};
use stall::Stall;

/// Requests at once on one HTTP/2 connection, watches included; Go's default.
const STREAMS: u32 = 250;
/// Requests of an HTTP/2 client that it takes back before the server has looked at them, and errors of its own making;
/// beyond, the connection ends.
const RESETS: usize = 20;
const STREAM_ERRORS: usize = 100;
/// The largest head of an HTTP/2 request, in bytes.
const HTTP2_HEAD: u32 = 16 << 10;
/// Most bytes of request heads, and of unread responses, that an HTTP/1.1 connection buffers.
const HTTP1_BUFFER: usize = 64 << 10;
/// Most bytes of an unread response that an HTTP/2 stream buffers.
const HTTP2_BUFFER: usize = 64 << 10;
/// How long the answers under way may take at the end of a connection.
const LINGER: Duration = Duration::from_secs(5);
/// A silent HTTP/2 client is asked whether it is there, and cut off if it is not.
const PING_EVERY: Duration = Duration::from_secs(30);
const PING_ANSWER: Duration = Duration::from_secs(20);
/// Pause after a failed accept, typically for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// What somebody hears who speaks HTTP without TLS.
const NOT_PLAIN: &[u8] =
    b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n";

/// What clients have to get past before they can ask for anything.
#[derive(Clone)]
pub(crate) struct Entrance {
    pub(crate) acceptor: TlsAcceptor,
    pub(crate) clients: Clients,
}

impl Entrance {
    /// Shakes hands; none if that comes to nothing.
    async fn enter(
        &self,
        mut stream: TcpStream,
        patience: Duration,
    ) -> Option<TlsStream<Stall<TcpStream>>> {
        if speaks_plainly(&stream).await {
            // What is left unread when a connection is closed may cost the client the answer.
            let mut request = [0; 4096];
            drop(stream.read(&mut request).await);
            drop(stream.write_all(NOT_PLAIN).await);
            return None;
        }
        match self.acceptor.accept(Stall::new(stream, patience)).await {
            Ok(tls) => Some(tls),
            Err(error) => {
                tracing::debug!(%error, "TLS handshake failed");
                None
            }
        }
    }
}

/// Whether the first letter is one of a method, which no TLS begins with.
async fn speaks_plainly(stream: &TcpStream) -> bool {
    let mut first = [0];
    let seen = stream.peek(&mut first).await;
    seen.is_ok_and(|count| count == 1) && first[0].is_ascii_uppercase()
}

/// Accepts until told to stop; each connection is a task of `connections`.
pub(crate) async fn serve(
    listener: TcpListener,
    entrance: Entrance,
    shared: Arc<Shared>,
    slots: Arc<Slots>,
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
                let Some(slot) = slots.open() else {
                    tracing::debug!("too many connections: one more was refused");
                    continue;
                };
                connections.spawn(connection(
                    stream,
                    Arc::new(slot),
                    entrance.clone(),
                    shared.clone(),
                    reachable.clone(),
                    stopping.clone(),
                ));
            }
            Err(error) => {
                tracing::warn!(%error, "failed to accept a connection");
                slots.evict();
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Waits until the server is not to be reached any more.
async fn cut_off(reachable: &mut watch::Receiver<bool>) {
    let cut = reachable.wait_for(|reachable| !reachable).await.is_ok();
    if !cut {
        // The server is gone, and ends its connections in its own way.
        std::future::pending::<()>().await;
    }
}

async fn connection(
    stream: TcpStream,
    slot: Arc<Connection>,
    entrance: Entrance,
    shared: Arc<Shared>,
    mut reachable: watch::Receiver<bool>,
    stopping: CancellationToken,
) {
    drop(stream.set_nodelay(true));
    let patience = shared.load.limits.slow_client;
    let entering = tokio::time::timeout(patience, entrance.enter(stream, patience));
    let entered = tokio::select! {
        entered = entering => entered,
        () = slot.evicted.cancelled() => return,
    };
    let Ok(Some(mut tls)) = entered else {
        tracing::debug!("no handshake, or one that took too long");
        return;
    };
    let session = tls.get_ref().1;
    let http2 = session.alpn_protocol() == Some(b"h2");
    let client = session
        .peer_certificates()
        .and_then(|chain| entrance.clients.judge(chain));
    if !http2 {
        tls.get_mut().0.read_in_turn();
    }
    let owned = slot.clone();
    let service = service_fn(move |request: Request<Incoming>| {
        let shared = shared.clone();
        let mut request = request.map(TakenOff::body);
        request.extensions_mut().insert(owned.clone());
        if let Some(client) = &client {
            request.extensions_mut().insert(client.clone());
        }
        async move { Ok::<Response<Body>, Infallible>(handle(shared, request).await) }
    });
    let io = TokioIo::new(tls);
    // Two protocols, one way to end.
    macro_rules! run {
        ($served:expr) => {{
            let served = $served;
            tokio::pin!(served);
            let finishing = async {
                tokio::select! {
                    () = stopping.cancelled() => {}
                    () = slot.finishing.cancelled() => {}
                }
            };
            tokio::select! {
                result = served.as_mut() => {
                    if let Err(error) = result {
                        tracing::debug!(%error, "connection ended");
                    }
                }
                () = cut_off(&mut reachable) => {}
                () = slot.evicted.cancelled() => {}
                () = finishing => {
                    served.as_mut().graceful_shutdown();
                    drop(tokio::time::timeout(LINGER, served).await);
                }
            }
        }};
    }
    if http2 {
        run!(
            http2::Builder::new(TokioExecutor::new())
                .timer(TokioTimer::new())
                .max_concurrent_streams(STREAMS)
                .max_pending_accept_reset_streams(RESETS)
                .max_local_error_reset_streams(STREAM_ERRORS)
                .max_header_list_size(HTTP2_HEAD)
                .max_send_buf_size(HTTP2_BUFFER)
                .keep_alive_interval(PING_EVERY)
                .keep_alive_timeout(PING_ANSWER)
                .serve_connection(io, service)
        );
    } else {
        run!(
            http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(patience)
                .max_buf_size(HTTP1_BUFFER)
                .serve_connection(io, service)
                .with_upgrades()
        );
    }
}
