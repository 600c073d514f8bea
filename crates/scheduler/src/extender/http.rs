//! The HTTP client of one extender, with a pool of connections.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use berth_component_base::user_agent::Component;
use http::header::{ACCEPT, CONTENT_TYPE, USER_AGENT};
use http::{Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Bytes;
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tower::util::BoxCloneSyncService;
use tower::{BoxError, ServiceExt as _};

use super::answers::CallError;
use super::config::Verb;
use super::metrics::ExtenderCounters;
use super::tls::{Tls, TlsError};

/// Maximum number of concurrent calls to one extender. Each extender has its own limit, so a slow extender delays only
/// its own calls.
const CALLS_IN_FLIGHT: usize = 64;
/// Time after which an unused connection is closed.
const IDLE_TIMEOUT: Duration = Duration::from_secs(90);
/// Minimum interval between two reads of the certificate files.
const FILE_CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum size of a response, in bytes. The Cluster objects of 5000 clusters take about half of this size.
const MAX_RESPONSE: usize = 128 << 20;

type Connector = HttpsConnector<BoxCloneSyncService<Uri, TokioIo<TcpStream>, BoxError>>;

/// The HTTP client of one extender.
#[derive(Debug)]
pub(super) struct HttpClient {
    current: Mutex<Current>,
    tls: Option<Tls>,
    timeout: Duration,
    in_flight: Semaphore,
    metrics: Arc<ExtenderCounters>,
}

type Pool = Client<Connector, Full<Bytes>>;

/// A connection pool, and the contents of the certificate files that the pool uses.
#[derive(Debug)]
struct Current {
    pool: Pool,
    files: Vec<Option<Vec<u8>>>,
    /// The time of the last read of the certificate files.
    read_at: Instant,
}

impl HttpClient {
    pub(super) fn new(
        tls: Option<Tls>,
        timeout: Duration,
        metrics: Arc<ExtenderCounters>,
    ) -> Result<Self, TlsError> {
        let current = Current {
            files: tls.as_ref().map(Tls::contents).unwrap_or_default(),
            pool: pool(tls.as_ref(), timeout, &metrics)?,
            read_at: Instant::now(),
        };
        Ok(Self {
            current: Mutex::new(current),
            tls,
            timeout,
            in_flight: Semaphore::new(CALLS_IN_FLIGHT),
            metrics,
        })
    }

    /// Returns the connection pool. If a certificate file has changed, first replaces the pool. If the changed files
    /// cannot be used, the previous pool stays in use, for example while the certificate is renewed and the key is not
    /// renewed yet.
    fn pool(&self) -> Pool {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(tls) = &self.tls
            && !current.files.is_empty()
            && current.read_at.elapsed() >= FILE_CHECK_INTERVAL
        {
            current.read_at = Instant::now();
            let files = tls.contents();
            if files != current.files {
                current.files = files;
                match pool(Some(tls), self.timeout, &self.metrics) {
                    Ok(pool) => current.pool = pool,
                    Err(error) => {
                        tracing::warn!(%error, "cannot use the changed certificates of an extender; keeping the previous ones");
                    }
                }
            }
        }
        current.pool.clone()
    }

    /// Makes one call. First waits until fewer than [`CALLS_IN_FLIGHT`] calls are running. Then the time limit starts,
    /// and the body is encoded and sent.
    pub(super) async fn post<T>(
        &self,
        verb: Verb,
        url: &Uri,
        encode: impl FnOnce() -> Result<Vec<u8>, CallError>,
        decode: impl FnOnce(&[u8]) -> Result<T, CallError>,
    ) -> Result<T, CallError> {
        // This never fails, because the semaphore is never closed.
        let _permit = self.in_flight.acquire().await;
        let began = tokio::time::Instant::now();
        let call = async { decode(&self.send(url, encode()?).await?) };
        let result = match tokio::time::timeout(self.timeout, call).await {
            Ok(result) => result,
            Err(_) => Err(CallError::Timeout(self.timeout)),
        };
        self.metrics
            .call(verb, began.elapsed(), result.as_ref().err());
        result
    }

    async fn send(&self, url: &Uri, body: Vec<u8>) -> Result<Bytes, CallError> {
        let request = Request::builder()
            .method(Method::POST)
            .uri(url)
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "application/json")
            .header(USER_AGENT, Component::Scheduler.user_agent())
            .body(Full::new(Bytes::from(body)))
            .map_err(|error| CallError::Unreachable(error.to_string()))?;
        let response = self
            .pool()
            .request(request)
            .await
            .map_err(|error| unreachable(&error))?;
        let status = response.status();
        // The body is always read, so that the connection can be reused.
        let body = Limited::new(response.into_body(), MAX_RESPONSE)
            .collect()
            .await
            .map_err(|error| unreachable(&*error))?;
        if status != StatusCode::OK {
            return Err(CallError::Status(status));
        }
        Ok(body.to_bytes())
    }
}

fn pool(
    tls: Option<&Tls>,
    timeout: Duration,
    metrics: &Arc<ExtenderCounters>,
) -> Result<Pool, TlsError> {
    Ok(Client::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE_TIMEOUT)
        .pool_max_idle_per_host(CALLS_IN_FLIGHT)
        .build(connector(tls, timeout, metrics)?))
}

fn connector(
    tls: Option<&Tls>,
    timeout: Duration,
    metrics: &Arc<ExtenderCounters>,
) -> Result<Connector, TlsError> {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(Some(timeout));
    let metrics = Arc::clone(metrics);
    let tcp = tcp
        .map_response(move |stream| {
            metrics.connection();
            stream
        })
        .map_err(BoxError::from);
    let tcp = BoxCloneSyncService::new(tcp);
    let Some(tls) = tls else {
        // This TLS configuration is never used, because the URLs have the scheme http.
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(rustls::RootCertStore::empty())
            .with_no_client_auth();
        let builder = HttpsConnectorBuilder::new().with_tls_config(config);
        return Ok(builder.https_or_http().enable_http1().wrap_connector(tcp));
    };
    let builder = HttpsConnectorBuilder::new()
        .with_tls_config(tls.client_config()?)
        .https_only();
    Ok(match tls.server_name()? {
        None => builder.enable_http1().wrap_connector(tcp),
        Some(name) => builder
            .with_server_name_resolver(FixedServerNameResolver::new(name))
            .enable_http1()
            .wrap_connector(tcp),
    })
}

/// Renders an error with its causes in one line, because the outermost error alone does not name the cause.
fn unreachable(error: &(dyn std::error::Error + 'static)) -> CallError {
    let mut texts: Vec<String> = Vec::new();
    let mut next = Some(error);
    while let Some(error) = next {
        let text = error.to_string();
        if texts.last() != Some(&text) {
            texts.push(text);
        }
        next = error.source();
    }
    CallError::Unreachable(texts.join(": "))
}
