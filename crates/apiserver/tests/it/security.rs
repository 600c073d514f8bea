//! Who gets in, and how broken requests are answered.

use berth_apiserver::{Server, ServerConfig, StartError};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::Value;

use crate::harness::Harness;

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
async fn only_the_token_opens() {
    let h = Harness::start().await;
    for token in [None, Some("wrong")] {
        let client = with_token(&h.server, token).await;
        assert_eq!(code(&client, "/api/v1/namespaces").await, 401);
    }
    let nobody = with_token(&h.server, None).await;
    for path in ["/healthz", "/livez", "/readyz", "/version"] {
        assert_eq!(code(&nobody, path).await, 200, "{path}");
    }
}

#[tokio::test]
async fn broken_requests_are_answered_with_a_status() {
    let h = Harness::start().await;
    let path = "/api/v1/namespaces/default/configmaps";
    let large = format!("{{\"data\": {{\"k\": \"{}\"}}}}", "x".repeat(4 << 20)).into_bytes();
    let cases = [
        (
            "POST",
            path,
            "application/json",
            b"{\"apiVersion\":".to_vec(),
            400,
            "BadRequest",
        ),
        (
            "POST",
            path,
            "application/json",
            large,
            413,
            "RequestEntityTooLarge",
        ),
        (
            "POST",
            path,
            "text/plain",
            b"x".to_vec(),
            415,
            "UnsupportedMediaType",
        ),
        (
            "PATCH",
            "/api/v1/namespaces/default/configmaps/a",
            "text/plain",
            b"{}".to_vec(),
            415,
            "UnsupportedMediaType",
        ),
        (
            "GET",
            "/apis/nothing/v1/here",
            "",
            Vec::new(),
            404,
            "NotFound",
        ),
        (
            "PUT",
            path,
            "application/json",
            b"{}".to_vec(),
            405,
            "MethodNotAllowed",
        ),
    ];
    for (method, path, content_type, body, code, reason) in cases {
        let (got, status) = h.raw(method, path, content_type, body).await;
        assert_eq!(
            (got, &status["kind"], &status["reason"]),
            (code, &Value::from("Status"), &Value::from(reason))
        );
    }
}

#[tokio::test]
async fn a_taken_port_says_so_and_shutdown_frees_it() {
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
