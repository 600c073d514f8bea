//! Tests of the server over HTTPS: reviews, changes of the certificate, TLS versions, and shutdown.

#![expect(clippy::unwrap_used, reason = "test code")]

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use berth_webhook::{
    CertificateFiles, MinimumTls, NoExecuteTaints, ServerOptions, ServingCertificate, StartError,
    WebhookServer,
};
use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_util::sync::CancellationToken;

struct Pair {
    certificate: String,
    key: String,
}

fn pair() -> Pair {
    let pair = rcgen::generate_simple_self_signed(["webhook.test".to_owned()]).unwrap();
    Pair {
        certificate: pair.cert.pem(),
        key: pair.signing_key.serialize_pem(),
    }
}

struct Running {
    address: SocketAddr,
    cancel: CancellationToken,
    task: JoinHandle<()>,
}

async fn start(certificate: ServingCertificate, minimum_tls: MinimumTls) -> Running {
    let server = WebhookServer::bind(ServerOptions {
        listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
        minimum_tls,
        no_execute: NoExecuteTaints::default(),
        quotas: None,
        certificate,
        metrics: Arc::default(),
    })
    .await
    .unwrap();
    let cancel = CancellationToken::new();
    Running {
        address: server.address(),
        task: tokio::spawn(server.run(cancel.clone())),
        cancel,
    }
}

/// Opens a connection as a client that trusts only one certificate.
async fn connect(
    address: SocketAddr,
    trusted: &str,
    protocol: &[u8],
    versions: &[&'static rustls::SupportedProtocolVersion],
) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_slice(trusted.as_bytes()).unwrap())
        .unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![protocol.to_vec()];
    let stream = TcpStream::connect(address).await?;
    let name = ServerName::try_from("webhook.test").unwrap();
    TlsConnector::from(Arc::new(config))
        .connect(name, stream)
        .await
}

/// Reports whether the server presents a certificate.
async fn presents(address: SocketAddr, certificate: &str) -> bool {
    connect(address, certificate, b"h2", rustls::ALL_VERSIONS)
        .await
        .is_ok()
}

fn review() -> Request<Full<Bytes>> {
    let body = json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": "a", "operation": "CREATE", "namespace": "karmada-es-m", "name": "web",
            "resource": { "group": "work.karmada.io", "version": "v1alpha1", "resource": "works" },
            "object": { "apiVersion": "work.karmada.io/v1alpha1", "kind": "Work",
                "metadata": { "name": "web", "namespace": "karmada-es-m" },
                "spec": { "workload": { "manifests": [] } } }
        }
    });
    Request::post("https://webhook.test/mutate-work?timeout=3s")
        .header("content-type", "application/json")
        .body(Full::from(body.to_string()))
        .unwrap()
}

async fn json_of(response: http::Response<hyper::body::Incoming>) -> Value {
    assert_eq!(response.status(), StatusCode::OK);
    let body = response.into_body().collect().await.unwrap().to_bytes();
    serde_json::from_slice(&body).unwrap()
}

#[tokio::test]
async fn reviews_are_answered_over_http_1_and_http_2() {
    let pair = pair();
    let certificate =
        ServingCertificate::from_pem(pair.certificate.as_bytes(), pair.key.as_bytes()).unwrap();
    let server = start(certificate, MinimumTls::default()).await;
    let open = async |protocol: &[u8]| {
        let versions = rustls::ALL_VERSIONS;
        let stream = connect(server.address, &pair.certificate, protocol, versions).await;
        TokioIo::new(stream.unwrap())
    };

    let (mut sender, connection) = http1::handshake(open(b"http/1.1").await).await.unwrap();
    let first = tokio::spawn(connection);
    let answer = json_of(sender.send_request(review()).await.unwrap()).await;
    assert_eq!(answer["response"]["allowed"], true);
    assert_eq!(answer["response"]["patchType"], "JSONPatch");

    let (mut sender, connection) = http2::handshake(TokioExecutor::new(), open(b"h2").await)
        .await
        .unwrap();
    let second = tokio::spawn(connection);
    let answer = json_of(sender.send_request(review()).await.unwrap()).await;
    assert_eq!(answer["response"]["uid"], "a");

    // Idle connections do not delay the shutdown.
    server.cancel.cancel();
    server.task.await.unwrap();
    drop((first.await, second.await));
    assert!(TcpStream::connect(server.address).await.is_err());
}

#[tokio::test]
async fn slow_bodies_and_idle_connections_do_not_delay_reviews() {
    let pair = pair();
    let certificate =
        ServingCertificate::from_pem(pair.certificate.as_bytes(), pair.key.as_bytes()).unwrap();
    let server = start(certificate, MinimumTls::default()).await;
    let open = async || {
        let versions = rustls::ALL_VERSIONS;
        let stream = connect(server.address, &pair.certificate, b"http/1.1", versions).await;
        stream.unwrap()
    };
    let mut slow = Vec::new();
    for _ in 0..150 {
        let mut stream = open().await;
        let head = "POST /mutate-work HTTP/1.1\r\nhost: webhook.test\r\n\
            content-type: application/json\r\ncontent-length: 100\r\n\r\n{";
        stream.write_all(head.as_bytes()).await.unwrap();
        slow.push(stream);
    }
    // Connections without a handshake are enough to reach the limit.
    let mut idle = Vec::new();
    for _ in 0..1_000 {
        idle.push(TcpStream::connect(server.address).await.unwrap());
    }
    let (mut sender, connection) = http1::handshake(TokioIo::new(open().await)).await.unwrap();
    let connection = tokio::spawn(connection);
    let answer = sender.send_request(review());
    // The body timeout of the slow requests and the timeout of handshakes is 10 s.
    let answer = tokio::time::timeout(Duration::from_secs(8), answer).await;
    assert_eq!(
        json_of(answer.unwrap().unwrap()).await["response"]["allowed"],
        true
    );
    // The oldest connections made room.
    let mut rest = Vec::new();
    let closed = slow[0].read_to_end(&mut rest);
    let closed = tokio::time::timeout(Duration::from_secs(8), closed).await;
    assert!(closed.is_ok());
    connection.abort();
}

#[tokio::test]
async fn a_review_in_progress_is_answered_during_the_shutdown() {
    let pair = pair();
    let certificate =
        ServingCertificate::from_pem(pair.certificate.as_bytes(), pair.key.as_bytes()).unwrap();
    let server = start(certificate, MinimumTls::default()).await;
    let versions = rustls::ALL_VERSIONS;
    let mut stream = connect(server.address, &pair.certificate, b"http/1.1", versions)
        .await
        .unwrap();
    let body = review().into_body().collect().await.unwrap().to_bytes();
    let head = format!(
        "POST /mutate-work HTTP/1.1\r\nhost: webhook.test\r\ncontent-type: application/json\r\n\
         expect: 100-continue\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut continued = [0; 25];
    stream.read_exact(&mut continued).await.unwrap();
    assert_eq!(&continued, b"HTTP/1.1 100 Continue\r\n\r\n");

    // The server waits for the body while the listener is closed.
    server.cancel.cancel();
    while TcpStream::connect(server.address).await.is_ok() {
        tokio::task::yield_now().await;
    }
    assert!(!server.task.is_finished());
    stream.write_all(&body).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    let answer = String::from_utf8(answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
    assert!(answer.contains(r#""allowed":true"#), "{answer}");
    server.task.await.unwrap();
}

fn write(folder: &Path, pair: &Pair) {
    std::fs::write(folder.join("tls.crt"), &pair.certificate).unwrap();
    std::fs::write(folder.join("tls.key"), &pair.key).unwrap();
}

#[tokio::test]
async fn the_server_uses_changed_certificate_files_only_if_they_are_complete() {
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (pair(), pair());
    write(folder.path(), &first);
    let files = CertificateFiles {
        certificate: folder.path().join("tls.crt"),
        key: folder.path().join("tls.key"),
    };
    let certificate = files.load().unwrap();
    let server = start(certificate.clone(), MinimumTls::default()).await;
    let interval = Duration::from_millis(5);
    let watch = tokio::spawn(files.watch(certificate, interval, server.cancel.clone()));
    assert!(presents(server.address, &first.certificate).await);

    // A certificate is not used if the file `tls.key` contains another key.
    std::fs::write(folder.path().join("tls.crt"), &second.certificate).unwrap();
    assert!(presents(server.address, &first.certificate).await);
    std::fs::write(folder.path().join("tls.key"), &second.key).unwrap();
    while !presents(server.address, &second.certificate).await {
        tokio::task::yield_now().await;
    }

    std::fs::remove_file(folder.path().join("tls.key")).unwrap();
    assert!(presents(server.address, &second.certificate).await);
    write(folder.path(), &first);
    while !presents(server.address, &first.certificate).await {
        tokio::task::yield_now().await;
    }
    server.cancel.cancel();
    watch.await.unwrap();
}

#[tokio::test]
async fn the_minimum_version_of_tls_is_enforced() {
    for (minimum, accepted) in [(MinimumTls::V1_2, true), (MinimumTls::V1_3, false)] {
        let pair = pair();
        let certificate =
            ServingCertificate::from_pem(pair.certificate.as_bytes(), pair.key.as_bytes()).unwrap();
        let server = start(certificate, minimum).await;
        let old = &[&rustls::version::TLS12];
        let connected = connect(server.address, &pair.certificate, b"h2", old).await;
        assert_eq!(connected.is_ok(), accepted, "{minimum:?}");
        server.cancel.cancel();
    }
}

#[tokio::test]
async fn the_start_error_contains_an_address_that_is_in_use() {
    let pair = pair();
    let certificate =
        ServingCertificate::from_pem(pair.certificate.as_bytes(), pair.key.as_bytes()).unwrap();
    let taken = start(certificate.clone(), MinimumTls::default()).await;
    let error = WebhookServer::bind(ServerOptions {
        listen: taken.address,
        minimum_tls: MinimumTls::default(),
        no_execute: NoExecuteTaints::default(),
        quotas: None,
        certificate,
        metrics: Arc::default(),
    })
    .await
    .unwrap_err();
    assert!(matches!(error, StartError::Bind { .. }));
    assert!(
        error.to_string().contains(&taken.address.to_string()),
        "{error}"
    );
}
