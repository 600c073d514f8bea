//! An HTTPS server that acts as an interpreter webhook. Its certificate is signed by a certificate authority of its
//! own.

use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

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

/// A function that returns the `response` to the `request` of a ResourceInterpreterContext.
type Interpret = fn(&Value) -> Value;

/// A running webhook server.
pub struct WebhookServer {
    port: u16,
    bundle: String,
    state: Arc<State>,
}

struct State {
    mode: Mutex<Mode>,
    requests: Mutex<Vec<Value>>,
    interpret: Interpret,
}

impl WebhookServer {
    pub async fn start(interpret: Interpret) -> Self {
        let key = KeyPair::generate().unwrap();
        let mut authority = CertificateParams::default();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let bundle = STANDARD.encode(authority.self_signed(&key).unwrap().pem());
        let issuer = Issuer::new(authority, key);
        let own = KeyPair::generate().unwrap();
        let names = ["127.0.0.1", "hook.default.svc"].map(str::to_owned);
        let certificate = CertificateParams::new(names).unwrap();
        let certificate = certificate.signed_by(&own, &issuer).unwrap();
        let private = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(own.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], private)
            .unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::new(State {
            mode: Mutex::new(Mode::Up),
            requests: Mutex::default(),
            interpret,
        });
        tokio::spawn(serve(listener, Arc::new(tls).into(), Arc::clone(&state)));
        Self {
            port,
            bundle,
            state,
        }
    }

    pub fn set_mode(&self, mode: Mode) {
        *self.state.mode.lock().unwrap() = mode;
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the `clientConfig` of the webhook, with its URL and certificate authority.
    pub fn client_config(&self) -> Value {
        json!({ "url": format!("https://127.0.0.1:{}/interpret", self.port),
            "caBundle": self.bundle })
    }

    /// Returns the requests that the server has received so far.
    pub fn requests(&self) -> Vec<Value> {
        self.state.requests.lock().unwrap().clone()
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
            let respond =
                hyper::service::service_fn(move |request| respond(request, Arc::clone(&state)));
            let serving = hyper::server::conn::http1::Builder::new();
            drop(
                serving
                    .serve_connection(TokioIo::new(stream), respond)
                    .await,
            );
        });
    }
}

async fn respond(
    request: Request<Incoming>,
    state: Arc<State>,
) -> Result<Response<Full<Bytes>>, hyper::Error> {
    let body = request.into_body().collect().await?.to_bytes();
    let mode = *state.mode.lock().unwrap();
    let message: Value = serde_json::from_slice(&body).unwrap();
    let request = &message["request"];
    state.requests.lock().unwrap().push(request.clone());
    if mode == Mode::Silent {
        std::future::pending::<()>().await;
    }
    let mut response = (state.interpret)(request);
    response["uid"] = request["uid"].clone();
    let review = json!({ "apiVersion": message["apiVersion"], "kind": message["kind"],
        "response": response });
    Ok(Response::new(Full::from(review.to_string())))
}
