//! A proxy between a scheduler and its API server that breaks things on request.
//!
//! It speaks plain HTTP on loopback and passes each request on through a client of the server. What it does
//! to a request is decided by a rule, which a test changes while the proxy runs; connections can be cut, and
//! frozen as when a machine vanishes without a word.

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

/// A request as a rule sees it.
#[derive(Clone, Debug)]
pub struct RecordedRequest {
    /// When it came.
    pub at: Instant,
    /// Its method.
    pub method: Method,
    /// Its path.
    pub path: String,
    /// Its query.
    pub query: String,
    /// Its number, from 0.
    pub number: usize,
    /// The bearer token that it carries.
    pub token: String,
    /// Its `User-Agent`.
    pub agent: String,
}

impl RecordedRequest {
    /// Whether it is a watch.
    pub fn is_watch(&self) -> bool {
        self.query.contains("watch=true")
    }

    /// Whether it writes a binding.
    pub fn writes_a_binding(&self) -> bool {
        self.method == Method::PATCH && self.path.contains("resourcebindings")
    }
}

/// What happens to a request.
#[derive(Clone, Debug)]
pub enum Fault {
    /// Nothing: it is passed on.
    None,
    /// It is answered with this code and not passed on.
    Answer(StatusCode, Option<u64>),
    /// It is passed on, and the connection is cut before the answer.
    LoseAnswer,
    /// There is no answer, ever.
    Silence,
    /// It is passed on after a while.
    Late(Duration),
    /// The answer is cut in the middle of this line of it, from 0.
    CutInLine(usize),
    /// A watch gets the news that its version is gone.
    Expired,
    /// It is passed on, and each object of the answer is changed by this.
    Forge(fn(&mut serde_json::Value)),
}

type Rule = dyn Fn(&RecordedRequest) -> Fault + Send + Sync;

struct Shared {
    upstream: Client,
    rule: Mutex<Arc<Rule>>,
    asked: Mutex<Vec<RecordedRequest>>,
    token: Mutex<Option<String>>,
    /// Connections up to this number are frozen.
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
    /// Starts a proxy that breaks nothing yet.
    pub fn start(upstream: Client) -> Self {
        let mut proxy = Self {
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            shared: Arc::new(Shared {
                upstream,
                rule: Mutex::new(Arc::new(|_| Fault::None)),
                asked: Mutex::default(),
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

    /// The proxy's address, `http://…`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// A configuration of a client of the proxy.
    ///
    /// # Panics
    /// Never: the address is valid.
    pub fn config(&self) -> kube::Config {
        let mut config = kube::Config::new(self.url().parse().unwrap());
        config.default_retry = false;
        config
    }

    /// A client of the proxy.
    ///
    /// # Panics
    /// Where no TLS provider is installed.
    pub fn client(&self) -> Client {
        Client::try_from(self.config()).unwrap()
    }

    /// A kubeconfig for the proxy, for this user.
    pub fn kubeconfig(&self, user: &serde_json::Value) -> String {
        serde_json::json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "proxy",
            "clusters": [{"name": "proxy", "cluster": {"server": self.url()}}],
            "users": [{"name": "proxy", "user": user}],
            "contexts": [{"name": "proxy", "context": {"cluster": "proxy", "user": "proxy"}}],
        })
        .to_string()
    }

    /// From now on this rule decides what happens to requests.
    pub fn rule(&self, rule: impl Fn(&RecordedRequest) -> Fault + Send + Sync + 'static) {
        *lock(&self.shared.rule) = Arc::new(rule);
    }

    /// From now on nothing is broken.
    pub fn heal(&self) {
        self.rule(|_| Fault::None);
    }

    /// From now on requests need this bearer token.
    pub fn require_token(&self, token: &str) {
        *lock(&self.shared.token) = Some(token.to_owned());
    }

    /// All requests so far.
    pub fn requests(&self) -> Vec<RecordedRequest> {
        lock(&self.shared.asked).clone()
    }

    /// How many of the requests so far are such.
    pub fn count(&self, which: impl Fn(&RecordedRequest) -> bool) -> usize {
        lock(&self.shared.asked)
            .iter()
            .filter(|asked| which(asked))
            .count()
    }

    /// Cuts all connections and refuses new ones, as a server that is restarted.
    pub async fn down(&mut self) {
        self.up.cancel();
        if let Some(accepting) = self.accepting.take() {
            let _ = accepting.await;
        }
    }

    /// Accepts connections again, at the same address.
    pub fn back_up(&mut self) {
        self.listen();
    }

    /// Nothing comes through the connections that there are now, ever again, and nobody is told.
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
            let service = service_fn(|request| answer(shared.clone(), number, request));
            let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
            tokio::select! {
                () = up.cancelled() => {}
                _ = connection => {}
            }
        });
    }
}

/// Why a connection ends before its answer.
#[derive(Debug, thiserror::Error)]
#[error("the proxy cuts the connection")]
struct Cut;

async fn answer(
    shared: Arc<Shared>,
    connection: u64,
    request: Request<Incoming>,
) -> Result<Response<ProxyBody>, Cut> {
    let asked = note(&shared, &request);
    let required = lock(&shared.token).clone();
    if required.is_some_and(|required| required != asked.token) {
        return Ok(refusal(StatusCode::UNAUTHORIZED, None));
    }
    let mut frozen = shared.frozen.subscribe();
    let rule = lock(&shared.rule).clone();
    let fault = rule(&asked);
    let answered = async {
        match fault {
            Fault::Answer(code, retry_after) => return Ok(refusal(code, retry_after)),
            Fault::Silence => std::future::pending().await,
            Fault::Late(pause) => tokio::time::sleep(pause).await,
            Fault::Expired => return Ok(expired()),
            Fault::None | Fault::LoseAnswer | Fault::CutInLine(_) | Fault::Forge(_) => {}
        }
        let response = pass_on(&shared, request).await.map_err(|_| Cut)?;
        match fault {
            Fault::LoseAnswer => Err(Cut),
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
        response = answered => response?,
        () = body::frost(&mut frozen, connection) => std::future::pending().await,
    };
    Ok(response.map(|body| body.frozen_when(frozen, connection)))
}

fn note(shared: &Shared, request: &Request<Incoming>) -> RecordedRequest {
    let token = request
        .headers()
        .get(header::AUTHORIZATION)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.strip_prefix("Bearer "))
        .unwrap_or_default();
    let agent = request.headers().get(header::USER_AGENT);
    let agent = agent.and_then(|value| value.to_str().ok());
    let agent = agent.unwrap_or_default();
    let mut all = lock(&shared.asked);
    let asked = RecordedRequest {
        at: Instant::now(),
        method: request.method().clone(),
        path: request.uri().path().to_owned(),
        query: request.uri().query().unwrap_or_default().to_owned(),
        number: all.len(),
        token: token.to_owned(),
        agent: agent.to_owned(),
    };
    all.push(asked.clone());
    asked
}

async fn pass_on(
    shared: &Shared,
    request: Request<Incoming>,
) -> Result<Response<ProxyBody>, kube::Error> {
    let (mut parts, body) = request.into_parts();
    parts.headers = passed(&parts.headers);
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

/// The headers that are about the content; the others are about the connection.
fn passed(headers: &HeaderMap) -> HeaderMap {
    [header::ACCEPT, header::CONTENT_TYPE, header::USER_AGENT]
        .into_iter()
        .filter_map(|name| headers.get(&name).map(|value| (name, value.clone())))
        .collect()
}

fn refusal(code: StatusCode, retry_after: Option<u64>) -> Response<ProxyBody> {
    let mut status = serde_json::json!({
        "apiVersion": "v1", "kind": "Status", "status": "Failure", "code": code.as_u16(),
        "reason": code.canonical_reason(), "message": "the proxy of the test refuses",
    });
    if let Some(seconds) = retry_after {
        status["details"] = serde_json::json!({ "retryAfterSeconds": seconds });
    }
    let mut response = Response::new(ProxyBody::whole(Bytes::from(status.to_string())));
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

/// A watch that begins and says at once that its version is too old.
fn expired() -> Response<ProxyBody> {
    let line = serde_json::json!({"type": "ERROR", "object": {
        "apiVersion": "v1", "kind": "Status", "status": "Failure", "code": 410,
        "reason": "Expired", "message": "too old resource version",
    }});
    let mut response = Response::new(ProxyBody::whole(Bytes::from(format!("{line}\n"))));
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    );
    response
}
