//! A webhook server for tests. It serves HTTPS with a certificate from its own certificate authority.

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
pub(crate) enum WebhookResponse {
    /// The `response` field of an AdmissionReview. The server adds the uid if the uid is missing.
    Review(Value),
    /// An HTTP response with this status code and body.
    Raw(u16, String),
    /// No response.
    None,
}

/// Returns a response that allows the request and patches the object.
pub(crate) fn patched(patch: &Value) -> WebhookResponse {
    let patch = STANDARD.encode(patch.to_string());
    WebhookResponse::Review(json!({"allowed": true, "patchType": "JSONPatch", "patch": patch}))
}

pub(crate) fn allowed() -> WebhookResponse {
    WebhookResponse::Review(json!({"allowed": true}))
}

type Respond = dyn Fn(&str, &Value) -> WebhookResponse + Send + Sync;

/// A running webhook server.
pub(crate) struct WebhookServer {
    pub(crate) port: u16,
    /// The `caBundle` that contains the certificate authority of the server.
    pub(crate) ca_bundle: String,
    received: Arc<Mutex<Vec<(String, Value)>>>,
}

impl WebhookServer {
    /// Starts a server. For each AdmissionReview, `respond` receives the path and the AdmissionRequest, and returns the
    /// response.
    pub(crate) async fn start(
        respond: impl Fn(&str, &Value) -> WebhookResponse + Send + Sync + 'static,
    ) -> Self {
        let key = KeyPair::generate().unwrap();
        let mut authority = CertificateParams::default();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let ca_bundle = STANDARD.encode(authority.self_signed(&key).unwrap().pem());
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
        let received = Arc::new(Mutex::new(Vec::new()));
        let acceptor = TlsAcceptor::from(Arc::new(tls));
        tokio::spawn(serve(
            listener,
            acceptor,
            received.clone(),
            Arc::new(respond),
        ));
        Self {
            port,
            ca_bundle,
            received,
        }
    }

    /// Returns the `clientConfig` of a webhook at this path of the server.
    pub(crate) fn client_config(&self, path: &str) -> Value {
        json!({"url": format!("https://127.0.0.1:{}{path}", self.port), "caBundle": self.ca_bundle})
    }

    /// Removes the received AdmissionReviews from the list of the server. Returns the path and the AdmissionRequest of
    /// each.
    pub(crate) fn take_requests(&self) -> Vec<(String, Value)> {
        std::mem::take(&mut *self.received.lock().unwrap())
    }

    /// Removes the received AdmissionReviews from the list of the server. Returns the path of each.
    pub(crate) fn take_paths(&self) -> Vec<String> {
        self.take_requests()
            .into_iter()
            .map(|(path, _)| path)
            .collect()
    }
}

async fn serve(
    listener: TcpListener,
    acceptor: TlsAcceptor,
    received: Arc<Mutex<Vec<(String, Value)>>>,
    respond: Arc<Respond>,
) {
    while let Ok((stream, _)) = listener.accept().await {
        let (acceptor, received, respond) = (acceptor.clone(), received.clone(), respond.clone());
        tokio::spawn(async move {
            let Ok(stream) = acceptor.accept(stream).await else {
                return;
            };
            let service = hyper::service::service_fn(move |request: Request<_>| {
                let (received, respond) = (received.clone(), respond.clone());
                async move {
                    Ok::<_, http::Error>(handle(request.map(Body::new), &received, &*respond).await)
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

async fn handle(
    request: Request<Body>,
    received: &Mutex<Vec<(String, Value)>>,
    respond: &Respond,
) -> Response<Body> {
    let path = request.uri().path().to_owned();
    let body = to_bytes(request.into_body(), usize::MAX).await.unwrap();
    let review: Value = serde_json::from_slice(&body).unwrap();
    let admission_request = &review["request"];
    received
        .lock()
        .unwrap()
        .push((path.clone(), admission_request.clone()));
    let (code, text) = match respond(&path, admission_request) {
        WebhookResponse::Review(mut response) => {
            if response["uid"].is_null() {
                response["uid"] = admission_request["uid"].clone();
            }
            let review = json!({
                "kind": "AdmissionReview", "apiVersion": review["apiVersion"], "response": response,
            });
            (200, review.to_string())
        }
        WebhookResponse::Raw(code, text) => (code, text),
        WebhookResponse::None => std::future::pending().await,
    };
    let response = Response::builder().status(code);
    response.body(Body::from(text)).unwrap()
}
