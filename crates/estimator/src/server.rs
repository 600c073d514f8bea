//! The gRPC server: listener, TLS, connections and shutdown.

use std::sync::Arc;
use std::time::Duration;

use berth_apimachinery::log_limit::LogLimit;
use berth_estimator_protocol::wire::service::estimator_server::EstimatorServer;
use hyper::server::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::service::EstimatorService;

/// Maximum number of open connections. Each scheduler and descheduler opens one connection.
const MAX_CONNECTIONS: usize = 1000;
/// Maximum number of concurrent requests of a connection.
const MAX_STREAMS: u32 = 1000;
/// Maximum time for a TLS handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Interval of pings to an idle client.
const PING_INTERVAL: Duration = Duration::from_secs(30);
/// Maximum time for the response to a ping.
const PING_TIMEOUT: Duration = Duration::from_secs(20);
/// Maximum time to finish the requests in progress at shutdown.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);
/// Pause after a failed accept. The usual cause is a lack of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// The limit on log lines about failed handshakes, which every client that reaches the port can cause.
static FAILED_HANDSHAKES: LogLimit = LogLimit::new(10, Duration::from_mins(1));

/// Serves until the token is cancelled. Then it closes the listener and finishes the requests in progress.
pub(crate) async fn serve(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    service: EstimatorService,
    cancel: CancellationToken,
) {
    let server = EstimatorServer::from_arc(Arc::new(service));
    let connections = TaskTracker::new();
    let room = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let accepting = async {
        // The semaphore is never closed.
        while let Ok(permit) = Arc::clone(&room).acquire_owned().await {
            match listener.accept().await {
                Ok((stream, _)) => {
                    let connection =
                        connection(stream, tls.clone(), server.clone(), cancel.clone());
                    connections.spawn(async move {
                        let _permit = permit;
                        connection.await;
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "failed to accept a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    };
    tokio::select! {
        () = accepting => {}
        () = cancel.cancelled() => {}
    }
    drop(listener);
    connections.close();
    if tokio::time::timeout(DRAIN_TIMEOUT, connections.wait())
        .await
        .is_err()
    {
        tracing::warn!("some connections were still open at the end of the shutdown timeout");
    }
}

async fn connection(
    stream: TcpStream,
    tls: Option<TlsAcceptor>,
    server: EstimatorServer<EstimatorService>,
    stopping: CancellationToken,
) {
    drop(stream.set_nodelay(true));
    let Some(tls) = tls else {
        return serve_connection(stream, server, stopping).await;
    };
    let handshake = tokio::time::timeout(HANDSHAKE_TIMEOUT, tls.accept(stream));
    let Some(handshake) = stopping.run_until_cancelled(handshake).await else {
        return;
    };
    match handshake {
        Ok(Ok(stream)) => serve_connection(stream, server, stopping).await,
        Ok(Err(error)) => {
            if let Some(suppressed) = FAILED_HANDSHAKES.allow() {
                tracing::info!(%error, suppressed, "a TLS handshake failed");
            }
        }
        Err(_) => tracing::debug!("a TLS handshake timed out"),
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
