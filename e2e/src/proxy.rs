//! An HTTP proxy that injects faults into requests to an API server.
//!
//! The proxy listens on a loopback address without TLS, and forwards each request to the API server. The rule of the
//! proxy is a function that selects the [`Fault`] for each request. A test may change the rule at any time. A test can
//! also cut all connections, as a restart of the server does, or freeze them, as the loss of a machine does.

mod body;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use kube::Client;
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use self::body::ProxyBody;

/// A request that the proxy has received.
#[derive(Clone, Debug)]
pub struct RecordedRequest {
    /// Time of arrival.
    pub at: Instant,
    /// HTTP method.
    pub method: Method,
    /// Path of the URL.
    pub path: String,
    /// Query of the URL.
    pub query: String,
    /// Number of requests that the proxy had received before this request.
    pub number: usize,
    /// Bearer token, empty for a request without a token.
    pub token: String,
    /// `User-Agent` header, empty for a request without this header.
    pub agent: String,
}

impl RecordedRequest {
    /// Reports whether the request is a watch.
    pub fn is_watch(&self) -> bool {
        self.query.contains("watch=true")
    }

    /// Reports whether the request patches a binding.
    pub fn writes_a_binding(&self) -> bool {
        self.method == Method::PATCH && self.path.contains("resourcebindings")
    }
}

/// Fault injected into a request.
#[derive(Clone, Debug)]
pub enum Fault {
    /// No fault: the request is forwarded.
    None,
    /// The proxy itself responds with this status and, if present, these `Retry-After` seconds.
    Respond(StatusCode, Option<u64>),
    /// The request is forwarded, and the proxy cuts the connection before it sends the response.
    LoseResponse,
    /// The proxy keeps the request and never responds.
    Silence,
    /// The request is forwarded after a delay.
    Delay(Duration),
    /// The request is forwarded, and the proxy cuts the connection in the middle of this line of the response. The
    /// first line is 0.
    CutInLine(usize),
    /// The proxy itself responds to a watch with the error event for an expired resource version.
    Expired,
    /// The request is forwarded, and this function changes each object of the response.
    Forge(fn(&mut serde_json::Value)),
}

type Rule = dyn Fn(&RecordedRequest) -> Fault + Send + Sync;

struct Shared {
    upstream: Client,
    rule: Mutex<Arc<Rule>>,
    requests: Mutex<Vec<RecordedRequest>>,
    token: Mutex<Option<String>>,
    /// Number of the newest frozen connection. All connections with a lower number are frozen too.
    frozen: watch::Sender<u64>,
}

/// A running proxy.
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    connections: Arc<Mutex<u64>>,
    up: CancellationToken,
    accepting: Option<tokio::task::JoinHandle<()>>,
}

impl std::fmt::Debug for Proxy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Proxy")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.up.cancel();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[expect(clippy::unwrap_used, reason = "this is how a test fails")]
impl Proxy {
    /// Starts a proxy that forwards all requests with the client `upstream`, and injects no faults yet.
    pub fn start(upstream: Client) -> Self {
        let mut proxy = Self {
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            shared: Arc::new(Shared {
                upstream,
                rule: Mutex::new(Arc::new(|_| Fault::None)),
                requests: Mutex::default(),
                token: Mutex::default(),
                frozen: watch::Sender::new(0),
            }),
            connections: Arc::default(),
            up: CancellationToken::new(),
            accepting: None,
        };
        proxy.listen();
        proxy
    }

    fn listen(&mut self) {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_reuseaddr(true).unwrap();
        socket.bind(self.address).unwrap();
        let listener = socket.listen(1024).unwrap();
        self.address = listener.local_addr().unwrap();
        self.up = CancellationToken::new();
        self.accepting = Some(tokio::spawn(accept(
            listener,
            self.shared.clone(),
            self.connections.clone(),
            self.up.clone(),
        )));
    }

    /// Returns the address at which the proxy listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the proxy's URL, `http://…`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the configuration of a client that connects to the proxy.
    ///
    /// # Panics
    /// Never: the address is valid.
    pub fn config(&self) -> kube::Config {
        let mut config = kube::Config::new(self.url().parse().unwrap());
        config.default_retry = false;
        config
    }

    /// Returns a client that connects to the proxy.
    ///
    /// # Panics
    /// If no TLS provider is installed.
    pub fn client(&self) -> Client {
        Client::try_from(self.config()).unwrap()
    }

    /// Returns a kubeconfig for the proxy with this user.
    pub fn kubeconfig(&self, user: &serde_json::Value) -> String {
        serde_json::json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "proxy",
            "clusters": [{"name": "proxy", "cluster": {"server": self.url()}}],
            "users": [{"name": "proxy", "user": user}],
            "contexts": [{"name": "proxy", "context": {"cluster": "proxy", "user": "proxy"}}],
        })
        .to_string()
    }

    /// Sets the rule for later requests.
    pub fn rule(&self, rule: impl Fn(&RecordedRequest) -> Fault + Send + Sync + 'static) {
        *lock(&self.shared.rule) = Arc::new(rule);
    }

    /// Stops injecting faults.
    pub fn heal(&self) {
        self.rule(|_| Fault::None);
    }

    /// Rejects later requests that do not have this bearer token.
    pub fn require_token(&self, token: &str) {
        *lock(&self.shared.token) = Some(token.to_owned());
    }

    /// Returns all requests so far.
    pub fn requests(&self) -> Vec<RecordedRequest> {
        lock(&self.shared.requests).clone()
    }

    /// Returns the number of requests so far for which `matches` returns true.
    pub fn count(&self, matches: impl Fn(&RecordedRequest) -> bool) -> usize {
        lock(&self.shared.requests)
            .iter()
            .filter(|request| matches(request))
            .count()
    }

    /// Cuts all connections and refuses new connections, as during a restart of the server.
    pub async fn down(&mut self) {
        self.up.cancel();
        if let Some(accepting) = self.accepting.take() {
            let _ = accepting.await;
        }
    }

    /// Accepts connections again at the same address.
    pub fn back_up(&mut self) {
        self.listen();
    }

    /// Freezes all current connections: they stay open but transfer no more data. New connections work.
    pub fn freeze(&self) {
        let newest = *lock(&self.connections);
        self.shared.frozen.send_replace(newest);
    }
}

async fn accept(
    listener: TcpListener,
    shared: Arc<Shared>,
    connections: Arc<Mutex<u64>>,
    up: CancellationToken,
) {
    loop {
        let stream = tokio::select! {
            () = up.cancelled() => return,
            Ok((stream, _)) = listener.accept() => stream,
        };
        let _ = stream.set_nodelay(true);
        let number = {
            let mut connections = lock(&connections);
            *connections += 1;
            *connections
        };
        let (shared, up) = (shared.clone(), up.clone());
        tokio::spawn(async move {
            let service = service_fn(|request| respond(shared.clone(), number, request));
            let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
            tokio::select! {
                () = up.cancelled() => {}
                _ = connection => {}
            }
        });
    }
}

/// Error that closes a connection before the response.
#[derive(Debug, thiserror::Error)]
#[error("the proxy cuts the connection")]
struct Cut;

/// Handles one request, and injects the fault that the rule selects.
async fn respond(
    shared: Arc<Shared>,
    connection: u64,
    request: Request<Incoming>,
) -> Result<Response<ProxyBody>, Cut> {
    let recorded = record(&shared, &request);
    let required = lock(&shared.token).clone();
    if required.is_some_and(|required| required != recorded.token) {
        return Ok(refusal(StatusCode::UNAUTHORIZED, None));
    }
    let mut frozen = shared.frozen.subscribe();
    let rule = lock(&shared.rule).clone();
    let fault = rule(&recorded);
    let forwarded = async {
        match fault {
            Fault::Respond(code, retry_after) => return Ok(refusal(code, retry_after)),
            Fault::Silence => std::future::pending().await,
            Fault::Delay(pause) => tokio::time::sleep(pause).await,
            Fault::Expired => return Ok(expired()),
            Fault::None | Fault::LoseResponse | Fault::CutInLine(_) | Fault::Forge(_) => {}
        }
        let response = forward(&shared, request).await.map_err(|_| Cut)?;
        match fault {
            Fault::LoseResponse => Err(Cut),
            Fault::CutInLine(line) => Ok(response.map(|body| body.cut_in_line(line))),
            Fault::Forge(forge) => {
                let (mut parts, body) = response.into_parts();
                parts.headers.remove(header::CONTENT_LENGTH);
                Ok(Response::from_parts(parts, body.forged(forge)))
            }
            _ => Ok(response),
        }
    };
    let response = tokio::select! {
        response = forwarded => response?,
        () = body::wait_until_frozen(&mut frozen, connection) => std::future::pending().await,
    };
    Ok(response.map(|body| body.frozen_when(frozen, connection)))
}

/// Records a request.
fn record(shared: &Shared, request: &Request<Incoming>) -> RecordedRequest {
    let token = request
        .headers()
        .get(header::AUTHORIZATION)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.strip_prefix("Bearer "))
        .unwrap_or_default();
    let agent = request.headers().get(header::USER_AGENT);
    let agent = agent.and_then(|value| value.to_str().ok());
    let agent = agent.unwrap_or_default();
    let mut all = lock(&shared.requests);
    let recorded = RecordedRequest {
        at: Instant::now(),
        method: request.method().clone(),
        path: request.uri().path().to_owned(),
        query: request.uri().query().unwrap_or_default().to_owned(),
        number: all.len(),
        token: token.to_owned(),
        agent: agent.to_owned(),
    };
    all.push(recorded.clone());
    recorded
}

/// Forwards a request to the server.
async fn forward(
    shared: &Shared,
    request: Request<Incoming>,
) -> Result<Response<ProxyBody>, kube::Error> {
    let (mut parts, body) = request.into_parts();
    parts.headers = forwarded_headers(&parts.headers);
    let body = match body.collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) => return Err(kube::Error::HyperError(error)),
    };
    let request = Request::from_parts(parts, kube::client::Body::from(body));
    let (mut parts, body) = shared.upstream.send(request).await?.into_parts();
    parts.headers.remove(header::TRANSFER_ENCODING);
    parts.headers.remove(header::CONNECTION);
    Ok(Response::from_parts(parts, ProxyBody::new(body)))
}

/// Returns the headers that the proxy forwards: the content types and the user agent.
fn forwarded_headers(headers: &HeaderMap) -> HeaderMap {
    [header::ACCEPT, header::CONTENT_TYPE, header::USER_AGENT]
        .into_iter()
        .filter_map(|name| headers.get(&name).map(|value| (name, value.clone())))
        .collect()
}

fn refusal(code: StatusCode, retry_after: Option<u64>) -> Response<ProxyBody> {
    let mut status = serde_json::json!({
        "apiVersion": "v1", "kind": "Status", "status": "Failure", "code": code.as_u16(),
        "reason": code.canonical_reason(), "message": "the test proxy rejects the request",
    });
    if let Some(seconds) = retry_after {
        status["details"] = serde_json::json!({ "retryAfterSeconds": seconds });
    }
    let mut response = Response::new(ProxyBody::from_bytes(Bytes::from(status.to_string())));
    *response.status_mut() = code;
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    );
    if let Some(seconds) = retry_after {
        headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// Returns the response to a watch from an expired resource version.
fn expired() -> Response<ProxyBody> {
    let line = serde_json::json!({"type": "ERROR", "object": {
        "apiVersion": "v1", "kind": "Status", "status": "Failure", "code": 410,
        "reason": "Expired", "message": "too old resource version",
    }});
    let mut response = Response::new(ProxyBody::from_bytes(Bytes::from(format!("{line}\n"))));
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    );
    response
}
