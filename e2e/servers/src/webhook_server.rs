//! An HTTPS server that acts as an admission webhook or an interpreter webhook. Its certificate is signed by a
//! certificate authority of its own.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::authority::{Authority, Clients};

/// The behaviour of the server when a client connects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The server responds to requests.
    Up,
    /// The server closes each connection without a response.
    Down,
    /// The server accepts requests and never responds.
    Silent,
}

/// The response of a webhook.
#[derive(Debug)]
pub enum WebhookResponse {
    /// The `response` field of a review. The server adds the uid if the uid is missing.
    Review(Value),
    /// An HTTP response with this status code and body.
    Raw(u16, String),
    /// No response.
    None,
}

/// Returns a response that allows the request and patches the object.
pub fn patched(patch: &Value) -> WebhookResponse {
    let patch = STANDARD.encode(patch.to_string());
    WebhookResponse::Review(json!({"allowed": true, "patchType": "JSONPatch", "patch": patch}))
}

/// Returns a response that allows the request.
pub fn allowed() -> WebhookResponse {
    WebhookResponse::Review(json!({"allowed": true}))
}

/// A request: the path, and the field `request` of the review.
type Received = (String, Value);

/// A running webhook server.
#[derive(Debug)]
pub struct WebhookServer {
    /// The local port of the server.
    pub port: u16,
    /// The `caBundle` that contains the certificate authority of the server.
    pub ca_bundle: String,
    state: Arc<State>,
}

/// A function that returns the response to a review, from the path and the field `request`.
type Respond = dyn Fn(&str, &Value) -> WebhookResponse + Send + Sync;

struct State {
    mode: Mutex<Mode>,
    received: Mutex<Vec<Received>>,
    respond: Box<Respond>,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").finish_non_exhaustive()
    }
}

impl WebhookServer {
    /// Starts a server. For each review, `respond` receives the path and the field `request`, and returns the response.
    pub async fn start(
        respond: impl Fn(&str, &Value) -> WebhookResponse + Send + Sync + 'static,
    ) -> Self {
        let authority = Authority::new();
        let names = ["localhost", "127.0.0.1", "hook.default.svc"];
        let tls = Arc::new(authority.server(&names, Clients::All));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::new(State {
            mode: Mutex::new(Mode::Up),
            received: Mutex::default(),
            respond: Box::new(respond),
        });
        tokio::spawn(serve(listener, tls.into(), Arc::clone(&state)));
        Self {
            port,
            ca_bundle: authority.bundle(),
            state,
        }
    }

    /// Sets the behaviour of the server.
    pub fn set_mode(&self, mode: Mode) {
        *self.state.mode.lock().unwrap() = mode;
    }

    /// Returns the `clientConfig` of a webhook at this path of the server.
    pub fn client_config(&self, path: &str) -> Value {
        json!({"url": format!("https://127.0.0.1:{}{path}", self.port), "caBundle": self.ca_bundle})
    }

    /// Removes the received requests from the list of the server, and returns them.
    pub fn take_requests(&self) -> Vec<Received> {
        std::mem::take(&mut *self.state.received.lock().unwrap())
    }

    /// Removes the received requests from the list of the server, and returns their paths.
    pub fn take_paths(&self) -> Vec<String> {
        self.take_requests()
            .into_iter()
            .map(|(path, _)| path)
            .collect()
    }
}

async fn serve(listener: TcpListener, acceptor: TlsAcceptor, state: Arc<State>) {
    while let Ok((stream, _)) = listener.accept().await {
        let (acceptor, state) = (acceptor.clone(), Arc::clone(&state));
        tokio::spawn(async move {
            if *state.mode.lock().unwrap() == Mode::Down {
                return;
            }
            let Ok(stream) = acceptor.accept(stream).await else {
                return;
            };
            let service = service_fn(move |request| handle(request, Arc::clone(&state)));
            let serving = hyper::server::conn::http1::Builder::new();
            drop(
                serving
                    .serve_connection(TokioIo::new(stream), service)
                    .await,
            );
        });
    }
}

async fn handle(
    request: Request<Incoming>,
    state: Arc<State>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let path = request.uri().path().to_owned();
    let body = request.into_body().collect().await.unwrap().to_bytes();
    let review: Value = serde_json::from_slice(&body).unwrap();
    let request = &review["request"];
    let received = (path.clone(), request.clone());
    state.received.lock().unwrap().push(received);
    let mode = *state.mode.lock().unwrap();
    let response = match mode {
        Mode::Silent => WebhookResponse::None,
        Mode::Up | Mode::Down => (state.respond)(&path, request),
    };
    let (code, text) = match response {
        WebhookResponse::Review(mut response) => {
            if response["uid"].is_null() {
                response["uid"] = request["uid"].clone();
            }
            let answer = json!({
                "kind": review["kind"], "apiVersion": review["apiVersion"], "response": response,
            });
            (200, answer.to_string())
        }
        WebhookResponse::Raw(code, text) => (code, text),
        WebhookResponse::None => std::future::pending().await,
    };
    let response = Response::builder().status(code);
    Ok(response.body(Full::from(text)).unwrap())
}
