//! One connection: TCP, TLS where asked for, HTTP/2.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use berth_api::component::Component;
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
use super::tls::{self, TlsError};
use super::wire::service::estimator_client::EstimatorClient;

/// How long one address is tried.
const PATIENCE: Duration = Duration::from_secs(5);

/// Why an address cannot be connected to.
#[derive(Debug, thiserror::Error)]
pub(super) enum DialError {
    /// No connection, or no TLS on it.
    #[error("cannot connect to {address}: {source}")]
    Connect {
        /// The address.
        address: String,
        /// Why not.
        source: io::Error,
    },
    /// It took too long.
    #[error("cannot connect to {address}: no answer within {PATIENCE:?}")]
    NoAnswer {
        /// The address.
        address: String,
    },
    /// The address is none.
    #[error("{address} is no address")]
    Address {
        /// As resolved.
        address: String,
    },
    /// There is no HTTP/2 at the other end.
    #[error("cannot speak HTTP/2 with {address}: {source}")]
    Http {
        /// The address.
        address: String,
        /// Why not.
        source: hyper::Error,
    },
    /// The files of the TLS options cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
}

/// A client on a connection. Cheap to clone.
pub(super) type Client = EstimatorClient<Stream>;

/// Carries a connection until it ends.
pub(super) type Driver = Pin<Box<dyn Future<Output = Result<(), hyper::Error>> + Send>>;

/// Connects to the first address that can be connected to.
///
/// # Errors
/// The reason of the last address.
pub(super) async fn dial(addresses: &[Address], tls: &Tls) -> Result<(Client, Driver), DialError> {
    let mut last = DialError::Address {
        address: String::new(),
    };
    for address in addresses {
        let attempt = tokio::time::timeout(PATIENCE, connect(address, tls)).await;
        match attempt {
            Ok(Ok(connection)) => return Ok(connection),
            Ok(Err(error)) => last = error,
            Err(_) => {
                last = DialError::NoAnswer {
                    address: address.to_string(),
                }
            }
        }
    }
    Err(last)
}

async fn connect(address: &Address, tls: &Tls) -> Result<(Client, Driver), DialError> {
    let failed = |source| DialError::Connect {
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
        return Err(DialError::Address {
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
) -> Result<(Client, Driver), DialError>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let origin = Uri::builder()
        .scheme(scheme)
        .authority(address.to_string())
        .path_and_query("/")
        .build()
        .map_err(|_| DialError::Address {
            address: address.to_string(),
        })?;
    // No pings: servers in Go take them for an attack when they come more often than every five minutes.
    // A connection that nothing comes back from is given up by whoever waits for answers.
    let (sender, connection) = http2::Builder::new(TokioExecutor::new())
        .handshake(TokioIo::new(stream))
        .await
        .map_err(|source| DialError::Http {
            address: address.to_string(),
            source,
        })?;
    let agent = HeaderValue::try_from(Component::Scheduler.user_agent()).ok();
    let client = EstimatorClient::with_origin(Stream { sender, agent }, origin);
    Ok((client, Box::pin(connection)))
}

/// Sends requests on one connection.
#[derive(Clone, Debug)]
pub(super) struct Stream {
    sender: SendRequest<Body>,
    agent: Option<HeaderValue>,
}

impl tower::Service<Request<Body>> for Stream {
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
        let answer = self.sender.send_request(request);
        Box::pin(async move { answer.await.map_err(unavailable) })
    }
}

/// What breaks a connection, in the words of gRPC.
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
