//! [`WebhookClient`]: sends requests to one [`Target`], whose address a [`Resolver`] finds.

use std::net::Ipv6Addr;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures::future::BoxFuture;
use http::header::{ACCEPT, CONTENT_TYPE, USER_AGENT};
use http::{Request, Uri};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tower::{BoxError, service_fn};

use crate::client::{Client, ClientError, Limits, Scheme, TcpConnector};
use crate::tls::{Pem, Tls, Trust};

/// Maximum size of a response, in bytes.
const MAX_RESPONSE: usize = 8 << 20;
/// Timeout of a connection attempt to one address of a host.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum length of the excerpt of a response in an error message, in characters.
const MAX_EXCERPT: usize = 200;

/// The address of a webhook, and the certificate authorities that the client trusts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    url: String,
    host: Host,
    authorities: Option<String>,
}

impl Target {
    /// Returns the webhook at a URL.
    pub fn url(url: &str) -> Self {
        Self {
            url: url.to_owned(),
            host: Host::Any,
            authorities: None,
        }
    }

    /// Returns the webhook behind a port of a Service. The certificate of the webhook must be valid for
    /// `NAME.NAMESPACE.svc`.
    pub fn service(namespace: &str, name: &str, port: u16, path: &str) -> Self {
        let slash = if path.starts_with('/') { "" } else { "/" };
        Self {
            url: format!("https://{name}.{namespace}.svc:{port}{slash}{path}"),
            host: Host::Service,
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

    fn trust(&self) -> Result<Trust, WebhookClientError> {
        let Some(bundle) = &self.authorities else {
            return Ok(Trust::System);
        };
        match STANDARD.decode(bundle) {
            Ok(pem) => Ok(Trust::Authorities(Pem::Data(pem))),
            Err(error) => Err(WebhookClientError::Authorities(error.to_string())),
        }
    }
}

/// The kind of the host in an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Host {
    /// A host of a URL, which may also be the host of a Service.
    Any,
    /// The host `NAME.NAMESPACE.svc` of a Service.
    Service,
}

/// A function that resolves a host and a port to addresses.
pub type Resolver = Arc<
    dyn Fn(String, u16, Host) -> BoxFuture<'static, Result<Vec<(String, u16)>, String>>
        + Send
        + Sync,
>;

/// An error of a client or of a call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WebhookClientError {
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

/// A client of one webhook, with its connections.
#[derive(Debug)]
pub struct WebhookClient {
    http: Client,
    url: String,
    user_agent: String,
}

impl WebhookClient {
    /// Creates a client that resolves hosts with `resolver`.
    ///
    /// # Errors
    /// When the certificate authorities cannot be used, or TLS cannot be configured.
    pub fn new(
        target: &Target,
        user_agent: &str,
        resolver: Resolver,
    ) -> Result<Self, WebhookClientError> {
        let kind = target.host;
        let tcp = service_fn(move |uri: Uri| connect(resolver.clone(), kind, uri));
        let tls = Tls::trusting(target.trust()?);
        let http = Client::new(Scheme::Https(&tls), TcpConnector::new(tcp), usize::MAX);
        Ok(Self {
            http: http.map_err(|error| match tls.trust {
                Trust::Authorities(_) => WebhookClientError::Authorities(error.cause()),
                Trust::System | Trust::Any => WebhookClientError::Tls(error.cause()),
            })?,
            url: target.url.clone(),
            user_agent: user_agent.to_owned(),
        })
    }

    /// Sends a JSON body and returns the body of the response. The query of the URL contains the time limit.
    ///
    /// # Errors
    /// When the call fails, or takes too long.
    pub async fn post(
        &self,
        body: Vec<u8>,
        timeout: Duration,
    ) -> Result<Bytes, WebhookClientError> {
        let seconds = timeout.as_secs() + u64::from(timeout.subsec_nanos() > 0);
        let url = format!("{}?timeout={seconds}s", self.url);
        let failed = |cause: String| WebhookClientError::Call {
            url: url.clone(),
            cause,
        };
        let request = Request::post(&url)
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "application/json, */*")
            .header(USER_AGENT, &self.user_agent)
            .body(Bytes::from(body))
            .map_err(|error| failed(error.to_string()))?;
        let limits = Limits {
            bytes: MAX_RESPONSE,
            time: timeout,
        };
        let (head, body) = match self.http.call(request, limits).await {
            Ok(response) => response.into_parts(),
            Err(ClientError::Timeout { .. }) => return Err(WebhookClientError::Timeout { url }),
            Err(error) => return Err(failed(error.cause())),
        };
        if !head.status.is_success() {
            let text = String::from_utf8_lossy(&body);
            let excerpt: String = text.trim().chars().take(MAX_EXCERPT).collect();
            let status = head.status;
            return Err(failed(format!(
                "the webhook responded with {status}: {excerpt}"
            )));
        }
        Ok(body)
    }
}

async fn connect(resolver: Resolver, kind: Host, uri: Uri) -> Result<TokioIo<TcpStream>, BoxError> {
    let host = uri.host().unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let port = uri.port_u16().unwrap_or(443);
    let addresses = resolver(host.to_owned(), port, kind).await?;
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
