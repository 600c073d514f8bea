//! Tests of the responses to malformed requests: wrong bodies, media types, methods and options, and plaintext HTTP.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::harness::content_type::{JSON, MERGE};
use crate::harness::server;

/// The method, path, header and body of a request, and the expected code, reason and message of the response. A message
/// of `None` is not compared.
type Case<'a> = (
    &'a str,
    &'a str,
    (&'a str, &'a str),
    &'a str,
    u16,
    &'a str,
    Option<&'a str>,
);

/// Checks that each malformed request gets a response of kind `Status` with the expected code and reason.
#[tokio::test]
async fn malformed_requests_get_status_responses() {
    let server = server().await;
    let namespace = server.namespace().await;
    let maps = format!("/api/v1/namespaces/{namespace}/configmaps");
    let pods = format!("/api/v1/namespaces/{namespace}/pods");
    let large = format!("{{\"data\": {{\"k\": \"{}\"}}}}", "x".repeat(4 << 20));
    let pod =
        json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let response = server.raw("POST", &pods, &[JSON], pod.to_string()).await;
    assert_eq!(response.code, 201, "{}", response.text);
    let one = format!("{maps}/a");
    let (log, exec) = (
        format!("{pods}/none/log"),
        format!("{pods}/p/exec?command=ls"),
    );
    let cases: [Case<'_>; 8] = [
        ("POST", &maps, JSON, "{\"a\":", 400, "BadRequest", None),
        (
            "POST",
            &maps,
            JSON,
            &large,
            413,
            "RequestEntityTooLarge",
            Some("Request entity too large: limit is 3145728"),
        ),
        (
            "POST",
            &maps,
            ("content-type", "text/plain"),
            "x",
            415,
            "UnsupportedMediaType",
            None,
        ),
        (
            "PATCH",
            &one,
            ("content-type", "text/plain"),
            "x",
            415,
            "UnsupportedMediaType",
            None,
        ),
        (
            "GET",
            &maps,
            ("accept", "text/html"),
            "",
            406,
            "NotAcceptable",
            None,
        ),
        (
            "PUT",
            &maps,
            JSON,
            "{}",
            405,
            "MethodNotAllowed",
            Some("the server does not allow this method on the requested resource"),
        ),
        (
            "GET",
            &log,
            JSON,
            "",
            404,
            "NotFound",
            Some("pods \"none\" not found"),
        ),
        (
            "POST",
            &exec,
            JSON,
            "",
            400,
            "BadRequest",
            Some("pod p does not have a host assigned"),
        ),
    ];
    for (method, path, header, body, code, reason, message) in cases {
        let response = server.raw(method, path, &[header], body).await;
        assert_eq!(
            (
                response.code,
                &response.json["kind"],
                &response.json["reason"]
            ),
            (code, &json!("Status"), &json!(reason)),
            "{method} {path}: {}",
            response.text
        );
        if let Some(message) = message {
            assert_eq!(response.json["message"], message, "{method} {path}");
        }
    }
}

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

/// Checks that a write with an invalid option gets 422, and that a body that is not JSON gets 400.
#[tokio::test]
async fn invalid_options_and_bodies_are_refused() {
    let server = server().await;
    let maps = "/api/v1/namespaces/default/configmaps";
    let body = r#"{"metadata": {"name": "never"}}"#;
    let long = format!("fieldManager={}", "a".repeat(129));
    for (method, kind, header) in [
        ("POST", "CreateOptions", JSON),
        ("PUT", "UpdateOptions", JSON),
        ("PATCH", "PatchOptions", MERGE),
    ] {
        for (option, why) in [
            (
                "dryRun=foo",
                "dryRun: Unsupported value: [\"foo\"]: supported values: \"All\"",
            ),
            (
                "fieldValidation=foo",
                "fieldValidation: Unsupported value: \"foo\": supported values: \"\", \"Ignore\", \"Strict\", \"Warn\"",
            ),
            (
                long.as_str(),
                "fieldManager: Too long: may not be more than 128 bytes",
            ),
        ] {
            let path = if method == "POST" {
                format!("{maps}?{option}")
            } else {
                format!("{maps}/never?{option}")
            };
            let response = server.raw(method, &path, &[header], body).await;
            let message = format!("{kind}.meta.k8s.io \"\" is invalid: {why}");
            assert_eq!(
                (response.code, &response.json["message"]),
                (422, &json!(message))
            );
        }
    }
    for text in [
        "{\"a\":",
        "x",
        "",
        "{\"a\":tru}",
        "{\"a\":1,}",
        "{\"a\":1} x",
    ] {
        let response = server.raw("POST", maps, &[JSON], text).await;
        let start = "the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; json \
                     parse error: ";
        let message = response.json["message"].as_str().unwrap();
        assert!(
            response.code == 400 && message.starts_with(start),
            "{message}"
        );
    }
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
