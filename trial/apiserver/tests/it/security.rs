//! Tests of tokens, client certificates, HTTP/2 connections, time limits for slow clients, and ports in use.

use std::sync::Arc;
use std::time::Duration;

use berth_apiserver::{ClientCertificate, Limits, Server, ServerConfig, StartError};
use http_body_util::BodyExt as _;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::harness::{Harness, TIMEOUT};

async fn with_token(server: &Server, token: Option<&str>) -> Client {
    let kubeconfig = Kubeconfig::from_yaml(&server.kubeconfig("t")).unwrap();
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .unwrap();
    config.auth_info.token = token.map(|t| t.to_owned().into());
    Client::try_from(config).unwrap()
}

async fn code(client: &Client, path: &str) -> u16 {
    let request = http::Request::get(path)
        .body(kube::client::Body::empty())
        .unwrap();
    client.send(request).await.unwrap().status().as_u16()
}

#[tokio::test]
async fn only_a_valid_token_authenticates() {
    let h = Harness::start().await;
    for (token, expected) in [(None, 403), (Some("wrong"), 401)] {
        let client = with_token(&h.server, token).await;
        assert_eq!(code(&client, "/api/v1/namespaces").await, expected);
        assert_eq!(code(&client, "/metrics").await, expected);
    }
    let anonymous = with_token(&h.server, None).await;
    for path in ["/healthz", "/livez", "/readyz", "/version"] {
        assert_eq!(code(&anonymous, path).await, 200, "{path}");
    }
}

/// Opens a TLS connection. The client offers these ALPN protocols and the client certificate.
async fn connect(
    h: &Harness,
    protocols: &[&[u8]],
    certificate: Option<&ClientCertificate>,
) -> TlsStream<TcpStream> {
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_slice(h.server.ca_pem().as_bytes()).unwrap())
        .unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let mut config = match certificate {
        None => builder.with_no_client_auth(),
        Some(pair) => builder
            .with_client_auth_cert(
                vec![CertificateDer::from_pem_slice(pair.certificate_pem.as_bytes()).unwrap()],
                PrivateKeyDer::from_pem_slice(pair.key_pem.as_bytes()).unwrap(),
            )
            .unwrap(),
    };
    config.alpn_protocols = protocols.iter().map(|p| p.to_vec()).collect();
    let stream = TcpStream::connect(h.server.address()).await.unwrap();
    TlsConnector::from(Arc::new(config))
        .connect("localhost".try_into().unwrap(), stream)
        .await
        .unwrap()
}

/// Sends text, and returns the bytes that the server sends before it closes the connection.
async fn exchange(stream: &mut TlsStream<TcpStream>, text: &str) -> String {
    stream.write_all(text.as_bytes()).await.unwrap();
    let mut response = Vec::new();
    let read = tokio::time::timeout(TIMEOUT, stream.read_to_end(&mut response)).await;
    // The read may fail, because the server may close the connection of a slow client without the TLS alert
    // `close_notify`.
    let _ = read.unwrap();
    String::from_utf8_lossy(&response).into_owned()
}

#[tokio::test]
async fn a_client_certificate_names_user_and_group() {
    let h = Harness::start().await;
    let pair = h
        .server
        .client_certificate("carol", Some("system:masters"))
        .unwrap();
    let request = "POST /apis/authentication.k8s.io/v1/selfsubjectreviews HTTP/1.1\r\nHost: x\r\n\
        Content-Type: application/json\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}";
    let mut stream = connect(&h, &[b"http/1.1"], Some(&pair)).await;
    let response = exchange(&mut stream, request).await;
    assert!(response.starts_with("HTTP/1.1 201"), "{response}");
    for part in [
        "\"carol\"",
        "\"system:masters\"",
        "\"system:authenticated\"",
        "X509SHA256=",
    ] {
        assert!(response.contains(part), "{response}");
    }
    let other = Harness::start().await;
    let foreign = other.server.client_certificate("carol", None).unwrap();
    let mut stream = connect(&h, &[b"http/1.1"], Some(&foreign)).await;
    let response = exchange(&mut stream, request).await;
    assert!(response.starts_with("HTTP/1.1 401"), "{response}");
}

#[tokio::test]
async fn many_watches_share_one_http2_connection() {
    let h = Harness::start().await;
    let stream = connect(&h, &[b"h2", b"http/1.1"], None).await;
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let executor = hyper_util::rt::TokioExecutor::new();
    let io = hyper_util::rt::TokioIo::new(stream);
    let (mut sender, connection) = hyper::client::conn::http2::handshake(executor, io)
        .await
        .unwrap();
    let connection = tokio::spawn(connection);
    let request = |path: &str| {
        http::Request::get(format!("https://localhost{path}"))
            .header("authorization", format!("Bearer {}", h.server.token()))
            .body(kube::client::Body::empty())
            .unwrap()
    };
    let mut watches = Vec::new();
    for _ in 0..50 {
        let path =
            "/api/v1/namespaces/default/configmaps?watch=true&fieldSelector=metadata.name%3Dnews";
        let response = sender.send_request(request(path)).await.unwrap();
        assert_eq!(response.status(), 200);
        watches.push(response.into_body());
    }
    let map = r#"{"metadata": {"name": "news"}}"#;
    let (code, _) = h
        .raw(
            "POST",
            "/api/v1/namespaces/default/configmaps",
            "application/json",
            map.into(),
        )
        .await;
    assert_eq!(code, 201);
    for watch in &mut watches {
        let frame = tokio::time::timeout(TIMEOUT, watch.frame())
            .await
            .unwrap()
            .unwrap()
            .unwrap();
        let line = String::from_utf8_lossy(&frame.into_data().unwrap()).into_owned();
        assert!(line.contains("\"news\""), "{line}");
    }
    drop(watches);
    drop(sender);
    connection.await.unwrap().unwrap();
}

#[tokio::test]
async fn slow_clients_are_disconnected() {
    let limits = Limits {
        slow_client: Duration::from_millis(200),
        request_timeout: Duration::from_millis(200),
        ..Limits::default()
    };
    let h = Harness::with(ServerConfig {
        limits,
        ..ServerConfig::default()
    })
    .await;
    // The client sends an incomplete request head.
    let mut stream = connect(&h, &[b"http/1.1"], None).await;
    let response = exchange(&mut stream, "GET /healthz HTTP/1.1\r\nHost: x\r\n").await;
    assert!(!response.starts_with("HTTP/1.1 200"), "{response}");
    // The client sends a complete head and an incomplete body.
    let mut stream = connect(&h, &[b"http/1.1"], None).await;
    let head = format!(
        "POST /api/v1/namespaces HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\n\
         Content-Type: application/json\r\nContent-Length: 100\r\nConnection: close\r\n\r\n{{",
        h.server.token()
    );
    let response = exchange(&mut stream, &head).await;
    assert!(response.starts_with("HTTP/1.1 504"), "{response}");
    // The client stops reading a response that is larger than the window of its stream.
    for name in ["a", "b"] {
        let map =
            serde_json::json!({"metadata": {"name": name}, "data": {"k": "x".repeat(150_000)}});
        let path = "/api/v1/namespaces/default/configmaps";
        let body = map.to_string().into_bytes();
        assert_eq!(h.raw("POST", path, "application/json", body).await.0, 201);
    }
    let io = hyper_util::rt::TokioIo::new(connect(&h, &[b"h2"], None).await);
    let executor = hyper_util::rt::TokioExecutor::new();
    let mut client = hyper::client::conn::http2::Builder::new(executor);
    client.initial_stream_window_size(1_u32 << 16);
    let (mut sender, connection) = client.handshake(io).await.unwrap();
    let connection = tokio::spawn(connection);
    let request = http::Request::get("https://localhost/api/v1/namespaces/default/configmaps")
        .header("authorization", format!("Bearer {}", h.server.token()))
        .body(kube::client::Body::empty())
        .unwrap();
    let unread = sender.send_request(request).await.unwrap();
    let closed = tokio::time::timeout(TIMEOUT, connection).await;
    assert!(closed.is_ok(), "the connection is still open");
    drop(unread);
    // The client starts no TLS handshake.
    let mut plain = TcpStream::connect(h.server.address()).await.unwrap();
    let mut nothing = Vec::new();
    let read = tokio::time::timeout(TIMEOUT, plain.read_to_end(&mut nothing)).await;
    assert!(read.is_ok(), "the connection is still open");
}

#[tokio::test]
async fn a_port_in_use_is_reported_and_shutdown_releases_it() {
    let first = Server::start(ServerConfig::default()).await.unwrap();
    let listen = first.address();
    let second = Server::start(ServerConfig {
        listen,
        ..ServerConfig::default()
    })
    .await;
    assert!(matches!(second, Err(StartError::Bind { address, .. }) if address == listen));
    first.shutdown().await;
    Server::start(ServerConfig {
        listen,
        ..ServerConfig::default()
    })
    .await
    .unwrap();
}
