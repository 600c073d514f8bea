//! HTTP towards one extender: JSON in, JSON out, on connections that are kept.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use berth_api::component::Component;
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
use super::metrics::OfExtender;
use super::tls::{Tls, TlsError};

/// Calls under way at the same time to one extender. A slow one holds up its own calls only.
const CALLS_IN_FLIGHT: usize = 64;
/// How long a connection is kept that nobody uses.
const IDLE: Duration = Duration::from_secs(90);
/// How often files of certificates are read, at most.
const FILES_READ_EVERY: Duration = Duration::from_secs(1);
/// An answer that is longer is none: a whole fleet of 5000 clusters takes about half of it.
const LONGEST_ANSWER: usize = 128 << 20;

type Connector = HttpsConnector<BoxCloneSyncService<Uri, TokioIo<TcpStream>, BoxError>>;

/// The connections to one extender.
#[derive(Debug)]
pub(super) struct Connections {
    current: Mutex<Current>,
    tls: Option<Tls>,
    timeout: Duration,
    turns: Semaphore,
    metrics: Arc<OfExtender>,
}

type HttpClient = Client<Connector, Full<Bytes>>;

/// A client, and the files of certificates that it was made of.
#[derive(Debug)]
struct Current {
    client: HttpClient,
    files: Vec<Option<Vec<u8>>>,
    /// When the files were read last.
    read: Instant,
}

impl Connections {
    pub(super) fn new(
        tls: Option<Tls>,
        timeout: Duration,
        metrics: Arc<OfExtender>,
    ) -> Result<Self, TlsError> {
        let current = Current {
            files: tls.as_ref().map(Tls::contents).unwrap_or_default(),
            client: client(tls.as_ref(), timeout, &metrics)?,
            read: Instant::now(),
        };
        Ok(Self {
            current: Mutex::new(current),
            tls,
            timeout,
            turns: Semaphore::new(CALLS_IN_FLIGHT),
            metrics,
        })
    }

    /// Returns the client; a new one where a file of its certificates has changed. While files do not fit together, as
    /// when only one of two is renewed yet, the former client stays.
    fn client(&self) -> HttpClient {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(tls) = &self.tls
            && !current.files.is_empty()
            && current.read.elapsed() >= FILES_READ_EVERY
        {
            current.read = Instant::now();
            let files = tls.contents();
            if files != current.files {
                current.files = files;
                match client(Some(tls), self.timeout, &self.metrics) {
                    Ok(client) => current.client = client,
                    Err(error) => {
                        tracing::warn!(%error, "cannot use the changed certificates of an extender; the former ones stay in use");
                    }
                }
            }
        }
        current.client.clone()
    }

    /// Makes one call. The time limit begins when it is its turn. The body is made then, too.
    pub(super) async fn post<T>(
        &self,
        verb: Verb,
        url: &Uri,
        body: impl FnOnce() -> Result<Vec<u8>, CallError>,
        read: impl FnOnce(&[u8]) -> Result<T, CallError>,
    ) -> Result<T, CallError> {
        // The semaphore is never closed.
        let _turn = self.turns.acquire().await;
        let began = tokio::time::Instant::now();
        let answer = async { read(&self.send(url, body()?).await?) };
        let answer = match tokio::time::timeout(self.timeout, answer).await {
            Ok(answer) => answer,
            Err(_) => Err(CallError::Timeout(self.timeout)),
        };
        self.metrics
            .called(verb, began.elapsed(), answer.as_ref().err());
        answer
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
        let answer = self
            .client()
            .request(request)
            .await
            .map_err(|error| unreachable(&error))?;
        let status = answer.status();
        // It is read in any case, so that the connection can be used again.
        let body = Limited::new(answer.into_body(), LONGEST_ANSWER)
            .collect()
            .await
            .map_err(|error| unreachable(&*error))?;
        if status != StatusCode::OK {
            return Err(CallError::Status(status));
        }
        Ok(body.to_bytes())
    }
}

fn client(
    tls: Option<&Tls>,
    timeout: Duration,
    metrics: &Arc<OfExtender>,
) -> Result<HttpClient, TlsError> {
    Ok(Client::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE)
        .pool_max_idle_per_host(CALLS_IN_FLIGHT)
        .build(connector(tls, timeout, metrics)?))
}

fn connector(
    tls: Option<&Tls>,
    timeout: Duration,
    metrics: &Arc<OfExtender>,
) -> Result<Connector, TlsError> {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(Some(timeout));
    let metrics = Arc::clone(metrics);
    let tcp = tcp
        .map_response(move |stream| {
            metrics.connected();
            stream
        })
        .map_err(BoxError::from);
    let tcp = BoxCloneSyncService::new(tcp);
    let Some(tls) = tls else {
        // Never used: the URLs say http.
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

/// An error with its causes, in one line. The outer layers only say that something failed.
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
