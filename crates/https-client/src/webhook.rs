//! [`Client`]: sends requests to one [`Target`], whose address a [`Resolver`] finds.

use std::net::Ipv6Addr;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures::future::BoxFuture;
use http::header::{ACCEPT, CONTENT_TYPE, USER_AGENT};
use http::{Method, Request, Uri};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::ClientConfig;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls_platform_verifier::BuilderVerifierExt as _;
use tokio::net::TcpStream;
use tower::util::BoxCloneSyncService;
use tower::{BoxError, service_fn};

use crate::server_verifier::ServerVerifier;

/// Maximum size of a response, in bytes.
const MAX_RESPONSE: usize = 8 << 20;
/// Time until an idle connection is closed.
const IDLE: Duration = Duration::from_secs(90);
/// Timeout of a connection attempt to one address of a host.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum length of the excerpt of a response in an error message, in characters.
const MAX_EXCERPT: usize = 200;

/// The address of a webhook, and the certificate authorities that the client trusts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    url: String,
    /// True if the address refers to a Service.
    is_service: bool,
    authorities: Option<String>,
}

impl Target {
    /// Returns the webhook at a URL.
    pub fn url(url: &str) -> Self {
        Self {
            url: url.to_owned(),
            is_service: false,
            authorities: None,
        }
    }

    /// Returns the webhook behind a port of a Service. The certificate of the webhook must be valid for
    /// `NAME.NAMESPACE.svc`.
    pub fn service(namespace: &str, name: &str, port: u16, path: &str) -> Self {
        let slash = if path.starts_with('/') { "" } else { "/" };
        Self {
            url: format!("https://{name}.{namespace}.svc:{port}{slash}{path}"),
            is_service: true,
            authorities: None,
        }
    }

    /// Sets the trusted certificate authorities, as PEM in base64. If the bundle is missing or empty, the client trusts
    /// the authorities of the system.
    #[must_use]
    pub fn with_authorities(self, bundle: Option<&str>) -> Self {
        let bundle = bundle.filter(|bundle| !bundle.is_empty());
        Self {
            authorities: bundle.map(str::to_owned),
            ..self
        }
    }
}

/// A function that resolves a host and a port to addresses. The third argument is true if the host must be a Service.
pub type Resolver = Arc<
    dyn Fn(String, u16, bool) -> BoxFuture<'static, Result<Vec<(String, u16)>, String>>
        + Send
        + Sync,
>;

/// An error of a client or of a call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClientError {
    /// The certificate authorities cannot be read.
    #[error("cannot use the caBundle of the webhook: {0}")]
    Authorities(String),
    /// TLS cannot be configured.
    #[error("cannot configure TLS: {0}")]
    Tls(String),
    /// The call failed.
    #[error("failed to call webhook: Post \"{url}\": {cause}")]
    Call {
        /// The URL, including the time limit.
        url: String,
        /// The cause.
        cause: String,
    },
    /// The webhook did not respond in time.
    #[error("failed to call webhook: Post \"{url}\": context deadline exceeded")]
    Timeout {
        /// The URL, including the time limit.
        url: String,
    },
}

type Connector = HttpsConnector<BoxCloneSyncService<Uri, TokioIo<TcpStream>, BoxError>>;

/// A client of one webhook, with its connections.
#[derive(Debug)]
pub struct Client {
    http: legacy::Client<Connector, Full<Bytes>>,
    url: String,
    user_agent: String,
}

impl Client {
    /// Creates a client that resolves hosts with `resolver`.
    ///
    /// # Errors
    /// When the certificate authorities cannot be used, or TLS cannot be configured.
    pub fn new(target: &Target, user_agent: &str, resolver: Resolver) -> Result<Self, ClientError> {
        let tls = tls_config(target.authorities.as_deref())?;
        let is_service = target.is_service;
        let tcp = service_fn(move |uri: Uri| connect(resolver.clone(), is_service, uri));
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls)
            .https_only()
            .enable_http1()
            .wrap_connector(BoxCloneSyncService::new(tcp));
        Ok(Self {
            http: legacy::Client::builder(TokioExecutor::new())
                .pool_timer(TokioTimer::new())
                .pool_idle_timeout(IDLE)
                .build(connector),
            url: target.url.clone(),
            user_agent: user_agent.to_owned(),
        })
    }

    /// Sends a JSON body and returns the body of the response. The query of the URL contains the time limit.
    ///
    /// # Errors
    /// When the call fails, or takes too long.
    pub async fn post(&self, body: Vec<u8>, timeout: Duration) -> Result<Bytes, ClientError> {
        let seconds = timeout.as_secs() + u64::from(timeout.subsec_nanos() > 0);
        let url = format!("{}?timeout={seconds}s", self.url);
        let failed = |cause: String| ClientError::Call {
            url: url.clone(),
            cause,
        };
        let request = Request::builder()
            .method(Method::POST)
            .uri(&url)
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "application/json, */*")
            .header(USER_AGENT, &self.user_agent)
            .body(Full::new(Bytes::from(body)))
            .map_err(|error| failed(error.to_string()))?;
        match tokio::time::timeout(timeout, self.send(request)).await {
            Ok(response) => response.map_err(failed),
            Err(_) => Err(ClientError::Timeout { url }),
        }
    }

    async fn send(&self, request: Request<Full<Bytes>>) -> Result<Bytes, String> {
        let answer = self.http.request(request).await.map_err(|e| causes(&e))?;
        let status = answer.status();
        let body = Limited::new(answer.into_body(), MAX_RESPONSE)
            .collect()
            .await;
        let body = body.map_err(|error| causes(&*error))?.to_bytes();
        if !status.is_success() {
            let text = String::from_utf8_lossy(&body);
            let text: String = text.trim().chars().take(MAX_EXCERPT).collect();
            return Err(format!("the webhook responded with {status}: {text}"));
        }
        Ok(body)
    }
}

/// Returns an error and its sources in one line.
fn causes(error: &dyn std::error::Error) -> String {
    let mut line = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        line = format!("{line}: {cause}");
        next = cause.source();
    }
    line
}

/// Returns a TLS configuration that trusts a `caBundle`, or the authorities of the system.
fn tls_config(bundle: Option<&str>) -> Result<ClientConfig, ClientError> {
    let unusable = ClientError::Authorities;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| ClientError::Tls(error.to_string()))?;
    let Some(bundle) = bundle else {
        let builder = builder.with_platform_verifier();
        let builder = builder.map_err(|error| ClientError::Tls(error.to_string()))?;
        return Ok(builder.with_no_client_auth());
    };
    let pem = STANDARD.decode(bundle);
    let pem = pem.map_err(|error| unusable(error.to_string()))?;
    let trusted: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    let trusted = trusted.map_err(|error| unusable(error.to_string()))?;
    if trusted.is_empty() {
        return Err(unusable("it contains no certificate".to_owned()));
    }
    let verifier = ServerVerifier::new(provider, trusted);
    let verifier = verifier.map_err(|error| unusable(error.to_string()))?;
    let builder = builder.dangerous();
    Ok(builder
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth())
}

async fn connect(
    resolver: Resolver,
    is_service: bool,
    uri: Uri,
) -> Result<TokioIo<TcpStream>, BoxError> {
    let host = uri.host().unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let port = uri.port_u16().unwrap_or(443);
    let addresses = resolver(host.to_owned(), port, is_service).await?;
    let mut last = None;
    for (host, port) in &addresses {
        match tokio::time::timeout(CONNECT_TIMEOUT, open_stream(host, *port)).await {
            Ok(Ok(stream)) => return Ok(TokioIo::new(stream)),
            Ok(Err(error)) => last = Some(format!("dial {host}:{port}: {error}")),
            Err(_) => last = Some(format!("dial {host}:{port}: i/o timeout")),
        }
    }
    Err(last.unwrap_or_default().into())
}

async fn open_stream(host: &str, port: u16) -> std::io::Result<TcpStream> {
    let stream = match host.parse::<Ipv6Addr>() {
        Ok(address) => TcpStream::connect((address, port)).await?,
        Err(_) => TcpStream::connect((host, port)).await?,
    };
    stream.set_nodelay(true)?;
    Ok(stream)
}
