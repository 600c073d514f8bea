//! Tests of the responses to malformed requests: wrong bodies, media types, methods and options.

use serde_json::{Value, json};

use crate::server;

/// The method, path, header and body of a request, and the expected code, reason and message of the response. A message
/// of
/// `None` is not compared.
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
    let json_type = ("content-type", "application/json");
    let pod =
        json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let response = server
        .raw("POST", &pods, &[json_type], pod.to_string())
        .await;
    assert_eq!(response.code, 201, "{}", response.text);
    let one = format!("{maps}/a");
    let (log, exec) = (
        format!("{pods}/none/log"),
        format!("{pods}/p/exec?command=ls"),
    );
    let cases: [Case<'_>; 8] = [
        ("POST", &maps, json_type, "{\"a\":", 400, "BadRequest", None),
        (
            "POST",
            &maps,
            json_type,
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
            json_type,
            "{}",
            405,
            "MethodNotAllowed",
            Some("the server does not allow this method on the requested resource"),
        ),
        (
            "GET",
            &log,
            json_type,
            "",
            404,
            "NotFound",
            Some("pods \"none\" not found"),
        ),
        (
            "POST",
            &exec,
            json_type,
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
async fn refusals_before_the_body_is_read_still_send_a_response() {
    let server = server().await;
    let response = server.raw("GET", "/apis/nothing/v1/foos", &[], "").await;
    assert_eq!(response.code, 404);
    assert_eq!(response.json["data"], Value::Null);
    let large = format!("{{\"data\": {{\"k\": \"{}\"}}}}", "x".repeat(4 << 20));
    let json_type = ("content-type", "application/json");
    let response = server
        .raw("POST", "/apis/nothing/v1/foos", &[json_type], large)
        .await;
    assert_eq!(response.code, 404);
}

/// Checks that a write with an invalid option gets 422, and that a body that is not JSON gets 400.
#[tokio::test]
async fn invalid_options_and_bodies_are_refused() {
    let server = server().await;
    let maps = "/api/v1/namespaces/default/configmaps";
    let json_type = ("content-type", "application/json");
    let merge = ("content-type", "application/merge-patch+json");
    let body = r#"{"metadata": {"name": "never"}}"#;
    let long = format!("fieldManager={}", "a".repeat(129));
    for (method, kind, header) in [
        ("POST", "CreateOptions", json_type),
        ("PUT", "UpdateOptions", json_type),
        ("PATCH", "PatchOptions", merge),
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
        let response = server.raw("POST", maps, &[json_type], text).await;
        let start = "the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; json \
                     parse error: ";
        let message = response.json["message"].as_str().unwrap();
        assert!(
            response.code == 400 && message.starts_with(start),
            "{message}"
        );
    }
}
