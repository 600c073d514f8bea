//! [`Client`]: sends requests over pooled HTTP/1 connections, and receives bounded responses.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, Uri};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tower::util::BoxCloneSyncService;
use tower::{BoxError, ServiceExt as _};

use crate::tls::{Tls, TlsError};

/// Time after which an unused connection is closed.
const IDLE_TIMEOUT: Duration = Duration::from_secs(90);

/// A service that opens TCP connections.
pub type TcpConnector = BoxCloneSyncService<Uri, TokioIo<TcpStream>, BoxError>;

/// The URL schemes of the requests of a client.
#[derive(Clone, Copy, Debug)]
pub enum Scheme<'a> {
    /// Only `http`.
    Http,
    /// Only `https`.
    Https(&'a Tls),
    /// `http` or `https`.
    Either(&'a Tls),
}

/// The limits of a call.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The maximum size of the response, in bytes.
    pub bytes: usize,
    /// The maximum time until the end of the response.
    pub time: Duration,
}

/// An error of a call.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The request failed before the head of the response arrived.
    #[error("cannot send a request to {url}: {}", causes(source.as_ref()))]
    Send {
        /// The URL of the request.
        url: Uri,
        /// The cause.
        source: BoxError,
    },
    /// The connection failed before the end of the response.
    #[error("cannot read the response of {url}: {}", causes(source.as_ref()))]
    Read {
        /// The URL of the request.
        url: Uri,
        /// The cause.
        source: BoxError,
    },
    /// The response is too large.
    #[error("the response of {url} is larger than {limit} bytes")]
    TooLarge {
        /// The URL of the request.
        url: Uri,
        /// The maximum size, in bytes.
        limit: usize,
    },
    /// The call took too long.
    #[error("no response of {url} within {limit:?}")]
    Timeout {
        /// The URL of the request.
        url: Uri,
        /// The maximum time.
        limit: Duration,
    },
}

impl ClientError {
    /// Returns the cause in one line, for messages that name the server themselves.
    pub fn cause(&self) -> String {
        match self {
            Self::Send { source, .. } | Self::Read { source, .. } => causes(source.as_ref()),
            Self::TooLarge { .. } => "length limit exceeded".to_owned(),
            Self::Timeout { limit, .. } => format!("no response within {limit:?}"),
        }
    }
}

/// Renders an error with its causes in one line, because the outermost error alone does not name the cause.
fn causes(error: &(dyn Error + 'static)) -> String {
    let mut texts: Vec<String> = Vec::new();
    let mut next = Some(error);
    while let Some(error) = next {
        let text = error.to_string();
        if texts.last() != Some(&text) {
            texts.push(text);
        }
        next = error.source();
    }
    texts.join(": ")
}

/// An HTTP client with a pool of connections. Clones share the pool.
#[derive(Clone, Debug)]
pub struct Client(legacy::Client<HttpsConnector<TcpConnector>, Full<Bytes>>);

impl Client {
    /// Creates a client that opens TCP connections with `tcp`, and keeps at most `max_idle` unused connections to each
    /// host.
    ///
    /// # Errors
    /// When the TLS settings cannot be used.
    pub fn new(scheme: Scheme<'_>, tcp: TcpConnector, max_idle: usize) -> Result<Self, TlsError> {
        let connector = connector(scheme, tcp)?;
        let mut pool = legacy::Client::builder(TokioExecutor::new());
        pool.pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_TIMEOUT)
            .pool_max_idle_per_host(max_idle);
        Ok(Self(pool.build(connector)))
    }

    /// Sends a request. The body of the response has at most `limit` bytes; a longer one ends with an error.
    ///
    /// # Errors
    /// When the head of the response does not arrive.
    pub async fn send(
        &self,
        request: Request<Bytes>,
        limit: usize,
    ) -> Result<Response<ResponseBody>, ClientError> {
        let url = request.uri().clone();
        match self.0.request(request.map(Full::new)).await {
            Ok(response) => Ok(response.map(|body| ResponseBody {
                body: Limited::new(body, limit),
                url,
                limit,
            })),
            Err(error) => Err(ClientError::Send {
                url,
                source: error.into(),
            }),
        }
    }

    /// Sends a request, and receives the response with its body.
    ///
    /// # Errors
    /// When the call fails, takes too long, or the response is too large.
    pub async fn call(
        &self,
        request: Request<Bytes>,
        limits: Limits,
    ) -> Result<Response<Bytes>, ClientError> {
        let url = request.uri().clone();
        let limit = limits.time;
        let response = tokio::time::timeout(limit, self.receive(request, limits.bytes)).await;
        response.unwrap_or(Err(ClientError::Timeout { url, limit }))
    }

    async fn receive(
        &self,
        request: Request<Bytes>,
        limit: usize,
    ) -> Result<Response<Bytes>, ClientError> {
        let (head, body) = self.send(request, limit).await?.into_parts();
        Ok(Response::from_parts(head, body.bytes().await?))
    }
}

/// The bounded body of a response.
#[derive(Debug)]
pub struct ResponseBody {
    body: Limited<Incoming>,
    url: Uri,
    limit: usize,
}

impl ResponseBody {
    /// Returns the next bytes, or `None` at the end.
    ///
    /// # Errors
    /// When the connection fails, or the body is too large.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, ClientError> {
        while let Some(frame) = self.body.frame().await {
            let frame = frame.map_err(|source| read_error(source, &self.url, self.limit))?;
            if let Ok(data) = frame.into_data() {
                return Ok(Some(data));
            }
        }
        Ok(None)
    }

    /// Returns the whole body.
    async fn bytes(self) -> Result<Bytes, ClientError> {
        let body = self.body.collect().await;
        let body = body.map_err(|source| read_error(source, &self.url, self.limit))?;
        Ok(body.to_bytes())
    }
}

fn read_error(source: BoxError, url: &Uri, limit: usize) -> ClientError {
    let url = url.clone();
    if source.is::<LengthLimitError>() {
        ClientError::TooLarge { url, limit }
    } else {
        ClientError::Read { url, source }
    }
}

/// Returns a connector that resolves hosts with the system's resolver. The addresses of a host share the time limit.
pub fn direct(connect_timeout: Option<Duration>) -> TcpConnector {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(connect_timeout);
    TcpConnector::new(tcp.map_err(BoxError::from))
}

fn connector(
    scheme: Scheme<'_>,
    tcp: TcpConnector,
) -> Result<HttpsConnector<TcpConnector>, TlsError> {
    let builder = HttpsConnectorBuilder::new();
    let (mut builder, server_name) = match scheme {
        Scheme::Http => (builder.with_tls_config(no_tls()?).https_or_http(), None),
        Scheme::Https(tls) => {
            let builder = builder.with_tls_config(tls.client_config()?);
            (builder.https_only(), tls.server_name()?)
        }
        Scheme::Either(tls) => {
            let builder = builder.with_tls_config(tls.client_config()?);
            (builder.https_or_http(), tls.server_name()?)
        }
    };
    if let Some(name) = server_name {
        builder = builder.with_server_name_resolver(FixedServerNameResolver::new(name));
    }
    Ok(builder.enable_http1().wrap_connector(tcp))
}

/// Returns the TLS configuration of a client whose URLs have the scheme `http`. It accepts no certificate.
fn no_tls() -> Result<ClientConfig, TlsError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    Ok(ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth())
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    const LIMITS: Limits = Limits {
        bytes: 4,
        time: Duration::from_millis(300),
    };

    /// Sends a request to a server that sends this response. A server without a response keeps the connection open.
    async fn call(response: Option<&'static str>) -> (Result<Bytes, String>, String) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/a", listener.local_addr().unwrap());
        let server = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = [0; 1024];
            let _ = stream.read(&mut request).await;
            match response {
                Some(response) => stream.write_all(response.as_bytes()).await.unwrap(),
                None => std::future::pending().await,
            }
        });
        let client = Client::new(Scheme::Http, direct(None), 1).unwrap();
        let request = Request::get(&url).body(Bytes::new()).unwrap();
        let result = client.call(request, LIMITS).await;
        server.abort();
        let body = result.map(Response::into_body);
        (body.map_err(|error| error.to_string()), url)
    }

    #[tokio::test]
    async fn errors_name_the_url_and_the_cause() {
        let (body, _) = call(Some("HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nfour")).await;
        assert_eq!(body.unwrap(), "four");
        let (body, url) = call(Some("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nfives")).await;
        let expected = format!("the response of {url} is larger than 4 bytes");
        assert_eq!(body.unwrap_err(), expected);
        let (body, url) = call(Some("HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nfo")).await;
        let error = body.unwrap_err();
        let expected = format!("cannot read the response of {url}: ");
        assert!(error.starts_with(&expected), "{error}");
        let (body, url) = call(None).await;
        let expected = format!("no response of {url} within 300ms");
        assert_eq!(body.unwrap_err(), expected);
    }

    #[tokio::test]
    async fn a_refused_connection_is_the_cause() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/a", listener.local_addr().unwrap());
        drop(listener);
        let client = Client::new(Scheme::Http, direct(None), 1).unwrap();
        let request = Request::get(&url).body(Bytes::new()).unwrap();
        let error = client.call(request, LIMITS).await.unwrap_err();
        let expected = format!("cannot send a request to {url}: {}", error.cause());
        assert_eq!(error.to_string(), expected);
        assert!(error.cause().contains("refused"), "{error}");
    }
}
