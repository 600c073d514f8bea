//! The HTTPS server: TLS, connections and shutdown.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use berth_component_base::connections;
use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::{ServerConfig, SupportedProtocolVersion};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use crate::decide::NoExecuteTaints;
use crate::open_connections::{OpenConnection, OpenConnections};
use crate::quota_charges::QuotaCharges;
use crate::request_handler::Service;
use crate::request_metrics::RequestMetrics;
use crate::serving_certificate::{ServingCertificate, provider};

/// Maximum number of open connections. Each API server usually opens one connection. Beyond the limit, a new connection
/// replaces the connection that has been idle for the longest time.
const MAX_CONNECTIONS: usize = 1000;
/// Maximum number of concurrent streams of an HTTP/2 connection. Go's servers have the same default.
const MAX_STREAMS: u32 = 250;
/// Maximum time from the handshake to the first request.
const FIRST_REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum time to finish the requests of a connection that makes room for a new one.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// Maximum time until the head of an HTTP/1.1 request is complete, including the idle time before the request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(90);
/// Interval of pings to an idle HTTP/2 client.
const PING_INTERVAL: Duration = Duration::from_secs(30);
/// Maximum time for the response to a ping.
const PING_TIMEOUT: Duration = Duration::from_secs(20);
/// Maximum time to finish the requests in progress at shutdown. It is longer than the default timeout of a webhook
/// (10 s), and shorter than the default termination grace period of a Pod (30 s).
const DRAIN_TIMEOUT: Duration = Duration::from_secs(20);

/// The lowest TLS version that the server accepts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MinimumTls {
    /// TLS 1.2. Lower versions are not supported.
    V1_2,
    /// TLS 1.3.
    #[default]
    V1_3,
}

static ONLY_1_3: &[&SupportedProtocolVersion] = &[&rustls::version::TLS13];

impl MinimumTls {
    fn versions(self) -> &'static [&'static SupportedProtocolVersion] {
        match self {
            Self::V1_2 => rustls::ALL_VERSIONS,
            Self::V1_3 => ONLY_1_3,
        }
    }
}

/// The configuration of a server.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// The address to listen on. Port 0 selects a free port.
    pub listen: SocketAddr,
    /// The lowest TLS version.
    pub minimum_tls: MinimumTls,
    /// The rule for ClusterTaintPolicies with the effect `NoExecute`.
    pub no_execute: NoExecuteTaints,
    /// The enforcement of FederatedResourceQuotas, if it is on.
    pub quotas: Option<QuotaCharges>,
    /// The certificate of new connections.
    pub certificate: ServingCertificate,
    /// The metrics of requests.
    pub metrics: Arc<RequestMetrics>,
}

/// An error that prevents the start of the server.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The server cannot listen on the address, usually because it is in use.
    #[error("cannot listen on {address}: {source}")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// The I/O error.
        source: std::io::Error,
    },
    /// TLS cannot be set up.
    #[error("cannot set up TLS: {0}")]
    Tls(#[from] rustls::Error),
}

/// A server that listens on an address. [`Self::run`] accepts the connections.
#[derive(Debug)]
pub struct WebhookServer {
    address: SocketAddr,
    listener: TcpListener,
    tls: Arc<ServerConfig>,
    no_execute: NoExecuteTaints,
    quotas: Option<QuotaCharges>,
    metrics: Arc<RequestMetrics>,
}

impl WebhookServer {
    /// Listens on the configured address.
    ///
    /// # Errors
    /// When the address or TLS cannot be used.
    pub async fn bind(options: ServerOptions) -> Result<Self, StartError> {
        let mut tls = ServerConfig::builder_with_provider(Arc::new(provider()))
            .with_protocol_versions(options.minimum_tls.versions())?
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(options.certificate));
        tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let failure = |source| StartError::Bind {
            address: options.listen,
            source,
        };
        let listener = TcpListener::bind(options.listen).await.map_err(failure)?;
        Ok(Self {
            address: listener.local_addr().map_err(failure)?,
            listener,
            tls: Arc::new(tls),
            no_execute: options.no_execute,
            quotas: options.quotas,
            metrics: options.metrics,
        })
    }

    /// Returns the address of the listener.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until the token is cancelled. Then it closes the listener and finishes the requests in progress.
    pub async fn run(self, cancel: CancellationToken) {
        let service = Service::new(self.no_execute, self.quotas, self.metrics, cancel.clone());
        let service = Arc::new(service);
        let acceptor = TlsAcceptor::from(self.tls);
        let open = Arc::new(OpenConnections::new(MAX_CONNECTIONS));
        let stopping = cancel.clone();
        let mut ids = 0..;
        let serve = |stream, ()| {
            let open = open.add(ids.next().unwrap_or_default());
            let (acceptor, service) = (acceptor.clone(), Arc::clone(&service));
            connection(stream, open, acceptor, service, stopping.clone())
        };
        let admit = || open.make_room();
        connections::serve(self.listener, DRAIN_TIMEOUT, cancel, admit, serve).await;
    }
}

async fn connection(
    stream: TcpStream,
    open: Arc<OpenConnection>,
    acceptor: TlsAcceptor,
    service: Arc<Service>,
    stopping: CancellationToken,
) {
    let handshake = tokio::select! {
        handshake = connections::handshake(&acceptor, stream) => handshake,
        () = open.close().cancelled() => return,
    };
    let Some(stream) = handshake else { return };
    let http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    let connection = Arc::clone(&open);
    let respond = service_fn(move |mut request: Request<Incoming>| {
        let (service, connection) = (service.clone(), Arc::clone(&connection));
        request.extensions_mut().insert(Arc::clone(&connection));
        async move {
            connection.start_request();
            let response = service.respond(request).await;
            connection.end_request();
            Ok::<_, Infallible>(response)
        }
    });
    let without_request = async {
        tokio::time::sleep(FIRST_REQUEST_TIMEOUT).await;
        if open.has_request() {
            std::future::pending::<()>().await;
        }
    };
    let io = TokioIo::new(stream);
    // Serves one of the two protocols until the connection ends. After the cancellation, `WebhookServer::run` limits
    // the remaining time.
    macro_rules! run {
        ($served:expr) => {{
            let served = $served;
            tokio::pin!(served);
            let served = tokio::select! {
                result = served.as_mut() => result,
                () = without_request => {
                    tracing::debug!("a connection had no request in time");
                    return;
                }
                () = open.close().cancelled() => {
                    served.as_mut().graceful_shutdown();
                    drop(tokio::time::timeout(CLOSE_TIMEOUT, served).await);
                    return;
                }
                () = stopping.cancelled() => {
                    served.as_mut().graceful_shutdown();
                    served.await
                }
            };
            if let Err(error) = served {
                tracing::debug!(%error, "a connection ended");
            }
        }};
    }
    if http2 {
        run!(
            http2::Builder::new(TokioExecutor::new())
                .timer(TokioTimer::new())
                .max_concurrent_streams(MAX_STREAMS)
                .keep_alive_interval(PING_INTERVAL)
                .keep_alive_timeout(PING_TIMEOUT)
                .serve_connection(io, respond)
        );
    } else {
        run!(
            http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEAD_TIMEOUT)
                .serve_connection(io, respond)
        );
    }
}
