//! The HTTPS client of one webhook, with pooled connections and bounded responses.

use std::net::Ipv6Addr;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, USER_AGENT};
use http::{Method, Request, Uri};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::BuilderVerifierExt as _;
use serde_json::Value;
use tokio::net::TcpStream;
use tower::util::BoxCloneSyncService;
use tower::{BoxError, service_fn};

/// Maximum size of a response.
const MAX_RESPONSE: usize = 8 << 20;
/// Time until an idle connection is closed.
const IDLE: Duration = Duration::from_secs(90);
/// Timeout for one of several addresses.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum characters of an error response in messages.
const MAX_EXCERPT: usize = 200;

/// The address and the trusted authorities of a webhook, from its `clientConfig`.
#[derive(Debug)]
pub(crate) struct Target {
    url: String,
    /// True if the address refers to a Service, which must exist.
    is_service: bool,
    authorities: Option<String>,
}

impl Target {
    pub(super) fn of(config: &Value) -> Self {
        let service = &config["service"];
        let url = if service.is_object() {
            let text = |field: &str| service[field].as_str().unwrap_or_default();
            let (name, namespace, path) = (text("name"), text("namespace"), text("path"));
            let port = service["port"].as_u64().unwrap_or(443);
            let slash = if path.starts_with('/') { "" } else { "/" };
            format!("https://{name}.{namespace}.svc:{port}{slash}{path}")
        } else {
            config["url"].as_str().unwrap_or_default().to_owned()
        };
        Self {
            url,
            is_service: service.is_object(),
            authorities: config["caBundle"]
                .as_str()
                .filter(|bundle| !bundle.is_empty())
                .map(str::to_owned),
        }
    }
}

/// Resolves a host, a port, and whether the host must be a Service, to addresses.
pub(crate) type Resolver =
    Arc<dyn Fn(&str, u16, bool) -> Result<Vec<(String, u16)>, String> + Send + Sync>;

type Connector = HttpsConnector<BoxCloneSyncService<Uri, TokioIo<TcpStream>, BoxError>>;

/// The connections to one webhook.
#[derive(Debug)]
pub(crate) struct Client {
    http: legacy::Client<Connector, Full<Bytes>>,
    url: String,
}

impl Client {
    /// Creates a client that resolves hosts with `resolver`.
    pub(crate) fn new(target: &Target, resolver: Resolver) -> Result<Self, String> {
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
        })
    }

    /// Sends a review and returns the response body.
    pub(crate) async fn post(&self, review: Vec<u8>, timeout: Duration) -> Result<Bytes, String> {
        let seconds = timeout.as_secs() + u64::from(timeout.subsec_nanos() > 0);
        let url = format!("{}?timeout={seconds}s", self.url);
        let of_url = |problem: String| format!("failed to call webhook: Post \"{url}\": {problem}");
        let request = Request::builder()
            .method(Method::POST)
            .uri(&url)
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "application/json, */*")
            .header(
                USER_AGENT,
                concat!("berth-apiserver/", env!("CARGO_PKG_VERSION")),
            )
            .body(Full::new(Bytes::from(review)))
            .map_err(|error| of_url(error.to_string()))?;
        match tokio::time::timeout(timeout, self.send(request)).await {
            Ok(answer) => answer.map_err(of_url),
            Err(_) => Err(of_url("context deadline exceeded".to_owned())),
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
fn tls_config(bundle: Option<&str>) -> Result<ClientConfig, String> {
    let unusable = |problem: String| format!("cannot use the caBundle of the webhook: {problem}");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let Some(bundle) = bundle else {
        let builder = builder.with_platform_verifier();
        let builder = builder.map_err(|error| error.to_string())?;
        return Ok(builder.with_no_client_auth());
    };
    let pem = STANDARD.decode(bundle);
    let pem = pem.map_err(|error| unusable(error.to_string()))?;
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        let added = certificate
            .map_err(|error| error.to_string())
            .and_then(|der| roots.add(der).map_err(|error| error.to_string()));
        added.map_err(unusable)?;
    }
    if roots.is_empty() {
        return Err(unusable("it contains no certificate".to_owned()));
    }
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

async fn connect(
    resolver: Resolver,
    is_service: bool,
    uri: Uri,
) -> Result<TokioIo<TcpStream>, BoxError> {
    let host = uri.host().unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let port = uri.port_u16().unwrap_or(443);
    let addresses = resolver(host, port, is_service)?;
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
