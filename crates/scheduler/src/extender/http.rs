//! The HTTP client of one extender, with a pool of connections.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use berth_component_base::user_agent::Component;
use berth_https_client::tls::{Tls, TlsError};
use berth_https_client::{Client, ClientError, Scheme, TcpConnector, direct};
use http::header::{ACCEPT, CONTENT_TYPE, USER_AGENT};
use http::{Request, StatusCode, Uri};
use hyper::body::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tower::ServiceExt as _;

use super::answers::CallError;
use super::config::Verb;
use super::metrics::ExtenderCounters;

/// Maximum number of concurrent calls to one extender. Each extender has its own limit, so a slow extender delays only
/// its own calls.
const CALLS_IN_FLIGHT: usize = 64;
/// Minimum interval between two reads of the certificate files.
const FILE_CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum size of the responses of all extenders in memory, in bytes. Each extender has an equal share, so that large
/// responses of one extender do not delay the calls of the others.
const ALL_RESPONSES: usize = 256 << 20;
/// Size of every response that is accepted, in bytes.
const RESPONSE_BASE: usize = 1 << 20;
/// Additional size for each cluster or victim in the request, for its name and a reason, in bytes.
const RESPONSE_PER_NAME: usize = 2 << 10;
/// Maximum size of a response that is decoded on the thread of the call, in bytes.
const SMALL_RESPONSE: usize = 16 << 10;
/// Maximum number of large responses of one extender that are decoded at the same time.
const DECODERS: usize = 2;

/// The HTTP client of one extender.
#[derive(Debug)]
pub(super) struct HttpClient {
    current: Mutex<Current>,
    tls: Option<Tls>,
    timeout: Duration,
    in_flight: Semaphore,
    /// One permit for each byte of the responses in memory.
    bytes: Arc<Semaphore>,
    bytes_share: usize,
    decoders: Arc<Semaphore>,
    metrics: Arc<ExtenderCounters>,
}

/// The call of a verb.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call<'a> {
    pub(super) verb: Verb,
    pub(super) url: &'a Uri,
    /// The number of clusters or victims in the request.
    pub(super) names: usize,
}

/// A connection pool, and the contents of the certificate files that the pool uses.
#[derive(Debug)]
struct Current {
    pool: Client,
    files: Vec<Option<Vec<u8>>>,
    /// The time of the last read of the certificate files.
    read_at: Instant,
}

impl HttpClient {
    /// Creates a client. `extenders` is the number of extenders that share the memory for responses.
    pub(super) fn new(
        tls: Option<Tls>,
        timeout: Duration,
        extenders: usize,
        metrics: Arc<ExtenderCounters>,
    ) -> Result<Self, TlsError> {
        let current = Current {
            files: tls.as_ref().map(Tls::contents).unwrap_or_default(),
            pool: pool(tls.as_ref(), timeout, &metrics)?,
            read_at: Instant::now(),
        };
        let bytes_share = ALL_RESPONSES / extenders.max(1);
        Ok(Self {
            current: Mutex::new(current),
            tls,
            timeout,
            in_flight: Semaphore::new(CALLS_IN_FLIGHT),
            bytes: Arc::new(Semaphore::new(bytes_share)),
            bytes_share,
            decoders: Arc::new(Semaphore::new(DECODERS)),
            metrics,
        })
    }

    /// Returns the connection pool. If a certificate file has changed, first replaces the pool. If the changed files
    /// cannot be used, the previous pool stays in use, for example while the certificate is renewed and the key is not
    /// renewed yet.
    fn pool(&self) -> Client {
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
    /// and the body is encoded and sent. A large response is decoded on another thread.
    pub(super) async fn post<T: Send + 'static>(
        &self,
        call: Call<'_>,
        encode: impl FnOnce() -> Result<Vec<u8>, CallError>,
        decode: impl FnOnce(&[u8]) -> Result<T, CallError> + Send + 'static,
    ) -> Result<T, CallError> {
        // This never fails, because the semaphore is never closed.
        let _permit = self.in_flight.acquire().await;
        let began = tokio::time::Instant::now();
        let response = async { self.decode(self.send(call, encode()?).await?, decode).await };
        let result = match tokio::time::timeout(self.timeout, response).await {
            Ok(result) => result,
            Err(_) => Err(CallError::Timeout(self.timeout)),
        };
        self.metrics
            .call(call.verb, began.elapsed(), result.as_ref().err());
        result
    }

    async fn send(&self, call: Call<'_>, body: Vec<u8>) -> Result<ResponseBody, CallError> {
        let limit = response_limit(call.names, body.len()).min(self.bytes_share);
        let request = Request::post(call.url)
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "application/json")
            .header(USER_AGENT, Component::Scheduler.user_agent())
            .body(Bytes::from(body))
            .map_err(|error| CallError::Unreachable(error.to_string()))?;
        let response = self.pool().send(request, limit).await;
        let (head, mut body) = response.map_err(|error| call_error(&error))?.into_parts();
        let is_ok = head.status == StatusCode::OK;
        let mut received = ResponseBody::default();
        // The body is always read, so that the connection can be reused.
        while let Some(data) = body.chunk().await.map_err(|error| call_error(&error))? {
            if is_ok {
                self.store(&mut received, &data).await;
            }
        }
        if is_ok {
            Ok(received)
        } else {
            Err(CallError::Status(head.status))
        }
    }

    /// Appends data to a response, after the responses in memory leave room for it.
    async fn store(&self, received: &mut ResponseBody, data: &[u8]) {
        let bytes = u32::try_from(data.len()).unwrap_or(u32::MAX);
        let permit = Arc::clone(&self.bytes).acquire_many_owned(bytes).await;
        match (&mut received.permit, permit.ok()) {
            (Some(held), Some(more)) => held.merge(more),
            (held, more) => *held = more,
        }
        received.bytes.extend_from_slice(data);
    }

    async fn decode<T: Send + 'static>(
        &self,
        response: ResponseBody,
        decode: impl FnOnce(&[u8]) -> Result<T, CallError> + Send + 'static,
    ) -> Result<T, CallError> {
        if response.bytes.len() <= SMALL_RESPONSE {
            return decode(&response.bytes);
        }
        let decoder = Arc::clone(&self.decoders).acquire_owned().await;
        let ResponseBody { bytes, permit } = response;
        let decoding = tokio::task::spawn_blocking(move || {
            let result = decode(&bytes);
            // The thread keeps the permits until here, also when the call times out meanwhile.
            drop((decoder, permit));
            result
        });
        decoding.await.unwrap_or_else(|error| {
            let problem = format!("it cannot be decoded: {error}");
            Err(CallError::Malformed(problem))
        })
    }
}

/// The body of a response, with the permits for its bytes.
#[derive(Debug, Default)]
struct ResponseBody {
    bytes: Vec<u8>,
    permit: Option<OwnedSemaphorePermit>,
}

/// Returns the maximum size of the response to a request with `names` clusters or victims and a body of `sent` bytes. An
/// extender may return the Cluster objects that it received, and may format them.
fn response_limit(names: usize, sent: usize) -> usize {
    let names = names.saturating_mul(RESPONSE_PER_NAME);
    names
        .saturating_add(RESPONSE_BASE)
        .saturating_add(sent.saturating_mul(2))
}

/// Creates a connection pool that counts new connections.
fn pool(
    tls: Option<&Tls>,
    timeout: Duration,
    metrics: &Arc<ExtenderCounters>,
) -> Result<Client, TlsError> {
    let metrics = Arc::clone(metrics);
    let counted = direct(Some(timeout)).map_response(move |stream| {
        metrics.connection();
        stream
    });
    let scheme = tls.map_or(Scheme::Http, Scheme::Https);
    Client::new(scheme, TcpConnector::new(counted), CALLS_IN_FLIGHT)
}

fn call_error(error: &ClientError) -> CallError {
    match error {
        ClientError::TooLarge { limit, .. } => CallError::TooLarge(*limit),
        _ => CallError::Unreachable(error.cause()),
    }
}
