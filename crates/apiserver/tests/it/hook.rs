//! A webhook server over TLS with its own certificate authority.

use std::sync::{Arc, Mutex};

use axum::body::{Body, to_bytes};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{Request, Response};
use hyper_util::rt::TokioIo;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// The response of a webhook.
pub(crate) enum Answer {
    /// The `response` of a review. The uid is added.
    Review(Value),
    /// Another body with a status code.
    Raw(u16, String),
    /// No response.
    Silence,
}

/// Allows a request with a patch.
pub(crate) fn patched(patch: &Value) -> Answer {
    let patch = STANDARD.encode(patch.to_string());
    Answer::Review(json!({"allowed": true, "patchType": "JSONPatch", "patch": patch}))
}

pub(crate) fn allowed() -> Answer {
    Answer::Review(json!({"allowed": true}))
}

type Decide = dyn Fn(&str, &Value) -> Answer + Send + Sync;

/// A running webhook server.
pub(crate) struct Hook {
    pub(crate) port: u16,
    /// The `caBundle` of its authority.
    pub(crate) bundle: String,
    seen: Arc<Mutex<Vec<(String, Value)>>>,
}

impl Hook {
    /// Starts a server. `decide` receives the path and the request of each review.
    pub(crate) async fn start(
        decide: impl Fn(&str, &Value) -> Answer + Send + Sync + 'static,
    ) -> Self {
        let key = KeyPair::generate().unwrap();
        let mut authority = CertificateParams::default();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let bundle = STANDARD.encode(authority.self_signed(&key).unwrap().pem());
        let issuer = Issuer::new(authority, key);
        let own = KeyPair::generate().unwrap();
        let names = ["localhost", "127.0.0.1", "hook.default.svc"];
        let certificate = CertificateParams::new(names.map(str::to_owned)).unwrap();
        let certificate = certificate.signed_by(&own, &issuer).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let private = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(own.serialize_der()));
        let tls = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], private)
            .unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let acceptor = TlsAcceptor::from(Arc::new(tls));
        tokio::spawn(serve(listener, acceptor, seen.clone(), Arc::new(decide)));
        Self { port, bundle, seen }
    }

    /// Returns the `clientConfig` of a webhook at a path.
    pub(crate) fn at(&self, path: &str) -> Value {
        json!({"url": format!("https://127.0.0.1:{}{path}", self.port), "caBundle": self.bundle})
    }

    /// Returns the paths and requests of the reviews since the last call.
    pub(crate) fn take(&self) -> Vec<(String, Value)> {
        std::mem::take(&mut *self.seen.lock().unwrap())
    }

    /// Returns the paths of the reviews since the last call.
    pub(crate) fn paths(&self) -> Vec<String> {
        self.take().into_iter().map(|(path, _)| path).collect()
    }
}

async fn serve(
    listener: TcpListener,
    acceptor: TlsAcceptor,
    seen: Arc<Mutex<Vec<(String, Value)>>>,
    decide: Arc<Decide>,
) {
    while let Ok((stream, _)) = listener.accept().await {
        let (acceptor, seen, decide) = (acceptor.clone(), seen.clone(), decide.clone());
        tokio::spawn(async move {
            let Ok(stream) = acceptor.accept(stream).await else {
                return;
            };
            let service = hyper::service::service_fn(move |request: Request<_>| {
                let (seen, decide) = (seen.clone(), decide.clone());
                async move {
                    Ok::<_, http::Error>(answer(request.map(Body::new), &seen, &*decide).await)
                }
            });
            let serving = hyper::server::conn::http1::Builder::new();
            drop(
                serving
                    .serve_connection(TokioIo::new(stream), service)
                    .await,
            );
        });
    }
}

async fn answer(
    request: Request<Body>,
    seen: &Mutex<Vec<(String, Value)>>,
    decide: &Decide,
) -> Response<Body> {
    let path = request.uri().path().to_owned();
    let body = to_bytes(request.into_body(), usize::MAX).await.unwrap();
    let review: Value = serde_json::from_slice(&body).unwrap();
    let asked = &review["request"];
    seen.lock().unwrap().push((path.clone(), asked.clone()));
    let (code, text) = match decide(&path, asked) {
        Answer::Review(mut response) => {
            if response["uid"].is_null() {
                response["uid"] = asked["uid"].clone();
            }
            let answer = json!({
                "kind": "AdmissionReview", "apiVersion": review["apiVersion"], "response": response,
            });
            (200, answer.to_string())
        }
        Answer::Raw(code, text) => (code, text),
        Answer::Silence => std::future::pending().await,
    };
    let answer = Response::builder().status(code);
    answer.body(Body::from(text)).unwrap()
}
