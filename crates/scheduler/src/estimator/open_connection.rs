//! The steps that open a connection to an estimator: TCP, TLS (if it is configured) and HTTP/2.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use berth_component_base::user_agent::Component;
use berth_estimator_protocol::wire::service::estimator_client::EstimatorClient;
use berth_https_client::tls::TlsError;
use http::header::USER_AGENT;
use http::{HeaderValue, Request, Response, Uri};
use hyper::body::Incoming;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tonic::Status;
use tonic::body::Body;

use super::options::Tls;
use super::resolve::Address;
use super::tls;

/// Time limit for connecting to one address.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum size of a response, in bytes. A response is one number.
const MAX_RESPONSE: usize = 4 << 10;
/// Maximum number of unread bytes of a response, and of all responses of a connection. There is a connection to each
/// member.
const STREAM_WINDOW: u32 = 16 << 10;
const CONNECTION_WINDOW: u32 = 256 << 10;

/// The reason why a connection to an address cannot be opened.
#[derive(Debug, thiserror::Error)]
pub(super) enum OpenError {
    /// TCP or TLS failed.
    #[error("cannot connect to {address}: {source}")]
    Connect {
        /// The address.
        address: String,
        /// The cause.
        source: io::Error,
    },
    /// The attempt timed out.
    #[error("cannot connect to {address}: no answer within {TIMEOUT:?}")]
    NoAnswer {
        /// The address.
        address: String,
    },
    /// The address is invalid.
    #[error("{address} is not a valid address")]
    Address {
        /// The address.
        address: String,
    },
    /// The server does not accept HTTP/2.
    #[error("HTTP/2 handshake with {address} failed: {source}")]
    Http {
        /// The address.
        address: String,
        /// The cause.
        source: hyper::Error,
    },
    /// The TLS files cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
}

/// A gRPC client that uses one connection. Clones are cheap.
pub(super) type Client = EstimatorClient<Channel>;

/// A future that performs the I/O of a connection. A task must poll it. It completes when the connection ends.
pub(super) type Driver = Pin<Box<dyn Future<Output = Result<(), hyper::Error>> + Send>>;

/// Connects to the first address that accepts a connection.
///
/// # Errors
/// Returns the error of the last address if no address accepts a connection.
pub(super) async fn to_first(
    addresses: &[Address],
    tls: &Tls,
) -> Result<(Client, Driver), OpenError> {
    let mut last = OpenError::Address {
        address: String::new(),
    };
    for address in addresses {
        let attempt = tokio::time::timeout(TIMEOUT, connect(address, tls)).await;
        match attempt {
            Ok(Ok(connection)) => return Ok(connection),
            Ok(Err(error)) => last = error,
            Err(_) => {
                last = OpenError::NoAnswer {
                    address: address.to_string(),
                }
            }
        }
    }
    Err(last)
}

async fn connect(address: &Address, tls: &Tls) -> Result<(Client, Driver), OpenError> {
    let failed = |source| OpenError::Connect {
        address: address.to_string(),
        source,
    };
    let tls = tls::client_config(tls)?;
    let tcp = TcpStream::connect((address.host.as_str(), address.port))
        .await
        .map_err(failed)?;
    tcp.set_nodelay(true).map_err(failed)?;
    let Some(config) = tls else {
        return handshake(tcp, address, "http").await;
    };
    let Ok(name) = ServerName::try_from(address.host.clone()) else {
        return Err(OpenError::Address {
            address: address.to_string(),
        });
    };
    let stream = TlsConnector::from(config)
        .connect(name, tcp)
        .await
        .map_err(failed)?;
    handshake(stream, address, "https").await
}

async fn handshake<S>(
    stream: S,
    address: &Address,
    scheme: &str,
) -> Result<(Client, Driver), OpenError>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let origin = Uri::builder()
        .scheme(scheme)
        .authority(address.to_string())
        .path_and_query("/")
        .build()
        .map_err(|_| OpenError::Address {
            address: address.to_string(),
        })?;
    // The client sends no pings, because a gRPC server in Go closes a connection if it receives pings more often than
    // every five minutes. Timeouts of calls detect dead connections.
    let (sender, connection) = http2::Builder::new(TokioExecutor::new())
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(|source| OpenError::Http {
            address: address.to_string(),
            source,
        })?;
    let agent = HeaderValue::try_from(Component::Scheduler.user_agent()).ok();
    let client = EstimatorClient::with_origin(Channel { sender, agent }, origin);
    let client = client.max_decoding_message_size(MAX_RESPONSE);
    Ok((client, Box::pin(connection)))
}

/// The HTTP/2 channel of one connection.
#[derive(Clone, Debug)]
pub(super) struct Channel {
    sender: SendRequest<Body>,
    agent: Option<HeaderValue>,
}

impl tower::Service<Request<Body>> for Channel {
    type Response = Response<Incoming>;
    type Error = Status;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Status>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Status>> {
        self.sender.poll_ready(context).map_err(unavailable)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        if let Some(agent) = &self.agent {
            request.headers_mut().insert(USER_AGENT, agent.clone());
        }
        let response = self.sender.send_request(request);
        Box::pin(async move { response.await.map_err(unavailable) })
    }
}

/// Converts a connection error to the status `UNAVAILABLE`. The message lists all causes of the error in one line.
fn unavailable(error: hyper::Error) -> Status {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(&error);
    while let Some(source) = cause {
        text = format!("{text}: {source}");
        cause = source.source();
    }
    let mut status = Status::unavailable(text);
    status.set_source(Arc::new(error));
    status
}
