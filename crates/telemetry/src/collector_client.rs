//! The HTTP client of the trace exporter. The exporter runs in its own thread, and its requests run in the runtime of
//! the process.

use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use opentelemetry_http::{HttpClient, HttpError};
use tokio::runtime::Handle;

/// Time limit of a request.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum size of a response body in bytes.
const RESPONSE_LIMIT: usize = 1 << 20;

/// An HTTP client for an OpenTelemetry collector.
#[derive(Clone, Debug)]
pub(crate) struct CollectorClient {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    runtime: Handle,
}

impl CollectorClient {
    /// Creates a client that sends its requests in `runtime`.
    ///
    /// # Errors
    /// When the system's certificate authorities cannot be used.
    pub(crate) fn new(runtime: Handle) -> Result<Self, std::io::Error> {
        let provider = rustls::crypto::ring::default_provider();
        let connector = hyper_rustls::HttpsConnectorBuilder::new()
            .with_provider_and_platform_verifier(provider)?
            .https_or_http()
            .enable_http1()
            .build();
        Ok(Self {
            client: Client::builder(TokioExecutor::new()).build(connector),
            runtime,
        })
    }
}

async fn send(
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    request: Request<Bytes>,
) -> Result<Response<Bytes>, HttpError> {
    let response = client.request(request.map(Full::new)).await?;
    let (parts, body) = response.into_parts();
    let body = Limited::new(body, RESPONSE_LIMIT).collect().await?;
    Ok(Response::from_parts(parts, body.to_bytes()))
}

impl HttpClient for CollectorClient {
    fn send_bytes<'client, 'response>(
        &'client self,
        request: Request<Bytes>,
    ) -> std::pin::Pin<
        Box<dyn Future<Output = Result<Response<Bytes>, HttpError>> + Send + 'response>,
    >
    where
        'client: 'response,
        Self: 'response,
    {
        let client = self.client.clone();
        let task = self
            .runtime
            .spawn(async move { tokio::time::timeout(TIMEOUT, send(client, request)).await });
        Box::pin(async move { task.await?? })
    }
}
