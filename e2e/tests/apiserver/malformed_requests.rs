//! Tests of bodies that the server does not read, and of plaintext HTTP. The suite `request_bodies` contains other
//! malformed requests.

use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::harness::content_type::JSON;
use crate::harness::server;

/// Checks that a request with a large body to an unknown resource gets the response 404, although the server does not
/// read the body.
#[tokio::test]
async fn a_request_refused_before_its_body_is_read_gets_a_response() {
    let server = server().await;
    let response = server.raw("GET", "/apis/nothing/v1/foos", &[], "").await;
    assert_eq!(response.code, 404);
    assert_eq!(response.json["data"], Value::Null);
    let large = format!("{{\"data\": {{\"k\": \"{}\"}}}}", "x".repeat(4 << 20));
    let response = server
        .raw("POST", "/apis/nothing/v1/foos", &[JSON], large)
        .await;
    assert_eq!(response.code, 404);
}

/// Checks that the server responds to a plaintext HTTP request with a message that it expects HTTPS.
#[tokio::test]
async fn plaintext_http_gets_an_explanation() {
    let server = server().await;
    let url = server.config().await.cluster_url;
    let address = url.authority().unwrap().as_str();
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream
        .write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        .await
        .unwrap();
    let mut response = String::new();
    let read = stream.read_to_string(&mut response);
    let read = tokio::time::timeout(Duration::from_mins(2), read).await;
    read.unwrap().unwrap();
    assert_eq!(
        response,
        "HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n"
    );
}
