//! The gRPC server: connections and shutdown.

use std::sync::Arc;
use std::time::Duration;

use berth_component_base::connections;
use berth_estimator_protocol::wire::service::estimator_server::EstimatorServer;
use hyper::server::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use crate::service::EstimatorService;

/// Maximum number of open connections. Each scheduler and descheduler opens one connection.
const MAX_CONNECTIONS: usize = 1000;
/// Maximum number of concurrent requests of a connection.
const MAX_STREAMS: u32 = 1000;
/// Interval of pings to an idle client.
const PING_INTERVAL: Duration = Duration::from_secs(30);
/// Maximum time for the response to a ping.
const PING_TIMEOUT: Duration = Duration::from_secs(20);
/// Maximum time to finish the requests in progress at shutdown.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

/// Serves until the token is cancelled. Then it closes the listener and finishes the requests in progress.
pub(crate) async fn serve(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    service: EstimatorService,
    cancel: CancellationToken,
) {
    let server = EstimatorServer::from_arc(Arc::new(service));
    let room = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let stopping = cancel.clone();
    let serve = |stream, permit| {
        let connection = connection(stream, tls.clone(), server.clone(), stopping.clone());
        async move {
            let _permit = permit;
            connection.await;
        }
    };
    let admit = || Arc::clone(&room).acquire_owned();
    connections::serve(listener, DRAIN_TIMEOUT, cancel, admit, serve).await;
}

async fn connection(
    stream: TcpStream,
    tls: Option<TlsAcceptor>,
    server: EstimatorServer<EstimatorService>,
    stopping: CancellationToken,
) {
    let Some(tls) = tls else {
        return serve_connection(stream, server, stopping).await;
    };
    let handshake = connections::handshake(&tls, stream);
    if let Some(Some(stream)) = stopping.run_until_cancelled(handshake).await {
        serve_connection(stream, server, stopping).await;
    }
}

async fn serve_connection(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    server: EstimatorServer<EstimatorService>,
    stopping: CancellationToken,
) {
    let connection = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS)
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIMEOUT)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(server));
    tokio::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = stopping.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended");
    }
}
