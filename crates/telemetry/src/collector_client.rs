//! The HTTP client of the trace exporter. The exporter runs in its own thread, and its requests run in the runtime of
//! the process.

use std::time::Duration;

use berth_https_client::tls::{Tls, TlsError, Trust};
use berth_https_client::{Client, Limits, Scheme, direct};
use bytes::Bytes;
use http::{Request, Response};
use opentelemetry_http::{HttpClient, HttpError};
use tokio::runtime::Handle;

/// The limits of a request.
const LIMITS: Limits = Limits {
    bytes: 1 << 20,
    time: Duration::from_secs(10),
};

/// An HTTP client for an OpenTelemetry collector.
#[derive(Clone, Debug)]
pub(crate) struct CollectorClient {
    client: Client,
    runtime: Handle,
}

impl CollectorClient {
    /// Creates a client that sends its requests in `runtime`.
    ///
    /// # Errors
    /// When the system's certificate authorities cannot be used.
    pub(crate) fn new(runtime: Handle) -> Result<Self, TlsError> {
        let tls = Tls::trusting(Trust::System);
        Ok(Self {
            client: Client::new(Scheme::Either(&tls), direct(None), usize::MAX)?,
            runtime,
        })
    }
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
            .spawn(async move { client.call(request, LIMITS).await });
        Box::pin(async move { Ok(task.await??) })
    }
}
