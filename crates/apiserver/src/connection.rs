//! Accepting connections: TLS, then HTTP/1.1 with keep-alive. Knows nothing of what is served.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::http::handle;
use crate::shared::Shared;

/// A client that takes longer to shake hands or to send its headers is cut off.
const SLOW_CLIENT: Duration = Duration::from_secs(10);
/// Pause after a failed accept, typically for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Accepts until told to stop; each connection is a task of `connections`.
pub(crate) async fn serve(
    listener: TcpListener,
    acceptor: TlsAcceptor,
    shared: Arc<Shared>,
    connections: TaskTracker,
    stopping: CancellationToken,
) {
    loop {
        let accepted = tokio::select! {
            () = stopping.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, _)) => {
                connections.spawn(connection(
                    stream,
                    acceptor.clone(),
                    shared.clone(),
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

async fn connection(
    stream: TcpStream,
    acceptor: TlsAcceptor,
    shared: Arc<Shared>,
    stopping: CancellationToken,
) {
    drop(stream.set_nodelay(true));
    let tls = match tokio::time::timeout(SLOW_CLIENT, acceptor.accept(stream)).await {
        Ok(Ok(tls)) => tls,
        Ok(Err(error)) => {
            tracing::debug!(%error, "TLS handshake failed");
            return;
        }
        Err(_) => {
            tracing::debug!("TLS handshake took too long");
            return;
        }
    };
    let service = service_fn(move |request: Request<Incoming>| {
        let shared = shared.clone();
        async move { Ok::<Response<Body>, Infallible>(handle(shared, request.map(Body::new)).await) }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(SLOW_CLIENT)
        .serve_connection(TokioIo::new(tls), service);
    tokio::pin!(served);
    tokio::select! {
        result = served.as_mut() => {
            if let Err(error) = result {
                tracing::debug!(%error, "connection ended");
            }
        }
        () = stopping.cancelled() => {
            served.as_mut().graceful_shutdown();
            drop(served.await);
        }
    }
}
