//! Request bodies that are too large, too deep or not text. The suite `request_bodies` contains the others.

use serde_json::{Value, json};

use crate::harness::content_type::{JSON, PROTOBUF, YAML};
use crate::harness::objects::{Objects, ResponseStatus, map, status_of};
use crate::harness::server;

/// The size of the largest accepted request body, in bytes.
const MAX_BODY: usize = 3 << 20;

#[tokio::test]
async fn bodies_above_three_mebibytes_are_refused() {
    let server = server().await;
    let namespace = server.namespace().await;
    let maps = Objects::maps(&server, &namespace);
    maps.create(&map("a", json!({}), json!({}))).await;
    let large = "x".repeat(MAX_BODY);
    let data = format!("{{\"data\":{{\"k\":\"{large}\"}}}}");
    let typed = |name: &'static str| ("content-type", name);
    let operations =
        format!("[{{\"op\":\"add\",\"path\":\"/data\",\"value\":{{\"k\":\"{large}\"}}}}]");
    let options = format!("{{\"kind\":\"DeleteOptions\",\"apiVersion\":\"v1\",\"x\":\"{large}\"}}");
    let yaml = format!("data:\n  k: {large}\n");
    let protobuf = [b"k8s\0".as_slice(), large.as_bytes()].concat();
    let path = |rest: &str| format!("/api/v1/namespaces/{namespace}/{rest}");
    let (all, one) = (path("configmaps"), path("configmaps/a"));
    let (applied, token) = (
        path("configmaps/a?fieldManager=m"),
        path("serviceaccounts/default/token"),
    );
    let review = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    for (method, path, header, body) in [
        ("POST", &*all, JSON, data.as_bytes()),
        ("POST", &all, YAML, yaml.as_bytes()),
        ("POST", &all, PROTOBUF, &protobuf),
        ("POST", review, JSON, data.as_bytes()),
        ("POST", &token, JSON, data.as_bytes()),
        ("PUT", &one, JSON, data.as_bytes()),
        ("PUT", &one, YAML, yaml.as_bytes()),
        (
            "PATCH",
            &one,
            typed("application/json-patch+json"),
            operations.as_bytes(),
        ),
        (
            "PATCH",
            &one,
            typed("application/merge-patch+json"),
            data.as_bytes(),
        ),
        (
            "PATCH",
            &one,
            typed("application/strategic-merge-patch+json"),
            data.as_bytes(),
        ),
        (
            "PATCH",
            &applied,
            typed("application/apply-patch+yaml"),
            data.as_bytes(),
        ),
        ("DELETE", &one, JSON, options.as_bytes()),
        ("DELETE", &all, JSON, options.as_bytes()),
    ] {
        let response = server.raw(method, path, &[header], body).await;
        let expected = "Request entity too large: limit is 3145728";
        assert_eq!(
            status_of(&response),
            (413, expected),
            "{method} {path} {header:?}"
        );
        assert_eq!(response.json["reason"], "RequestEntityTooLarge");
    }
    // A body of the maximum size is read, and refused because a ConfigMap must be smaller. A body with one byte more is
    // too large.
    let (begin, end) = (r#"{"metadata":{"name":"b"},"data":{"k":""#, r#""}}"#);
    for (over, code) in [(0, 422), (1, 413)] {
        let fill = "x".repeat(MAX_BODY + over - begin.len() - end.len());
        let response = maps
            .send("POST", "", &[JSON], format!("{begin}{fill}{end}"))
            .await;
        assert_eq!(response.code, code, "{}", response.text);
    }
    // The body of a GET request is ignored.
    let response = server.raw("GET", &one, &[JSON], data).await;
    assert_eq!(response.json["metadata"]["name"], "a", "{}", response.text);
    assert_eq!(response.json["data"], Value::Null);
}

#[tokio::test]
async fn config_maps_and_secrets_hold_up_to_one_mebibyte() {
    let server = server().await;
    let namespace = server.namespace().await;
    for (plural, kind, field) in [
        ("configmaps", "ConfigMap", "[]"),
        ("secrets", "Secret", "data"),
    ] {
        let objects = Objects::at(&server, format!("/api/v1/namespaces/{namespace}/{plural}"));
        for (over, code) in [(0, 201), (1, 422)] {
            // The limit applies to the decoded values alone. Keys are not counted.
            let text = "x".repeat((1 << 20) + over);
            let values = if kind == "Secret" {
                "stringData"
            } else {
                "data"
            };
            let object = json!({"metadata": {"name": "a"}, values: {"some.key": text}});
            let response = objects.post("?dryRun=All", &object).await;
            assert_eq!(response.code, code, "{kind}: {}", &response.text[..200]);
            if code == 422 {
                let expected = format!(
                    "{kind} \"a\" is invalid: {field}: Too long: may not be more than 1048576 bytes"
                );
                assert_eq!(response.json["message"], expected);
            }
        }
    }
}

/// Returns the message about a body whose object cannot be decoded. `why` is the error of the decoder.
fn unrecognized(why: &str) -> String {
    format!("the object provided is unrecognized (must be of type ConfigMap): {why}")
}

/// Checks that a deeply nested body is refused with status 400, and that invalid UTF-8 is accepted.
#[tokio::test]
async fn nested_bodies_are_refused_and_invalid_text_is_replaced() {
    let server = server().await;
    let maps = Objects::maps(&server, "default");
    let unreadable = unrecognized("couldn't get version/kind; json parse error: ");
    for body in ["[".repeat(20_000), "{\"a\":".repeat(20_000)] {
        let response = maps.send("POST", "?dryRun=All", &[JSON], body).await;
        let ResponseStatus(code, found) = status_of(&response);
        assert!(code == 400 && found.starts_with(&unreadable), "{found}");
    }
    // The server replaces invalid UTF-8 by U+FFFD, as Go does.
    let response = maps
        .send(
            "POST",
            "?dryRun=All",
            &[JSON],
            b"{\"metadata\":{\"name\":\"n\"},\"data\":{\"k\":\"\xff\"}}".as_slice(),
        )
        .await;
    assert_eq!(
        (response.code, &response.json["data"]["k"]),
        (201, &json!("\u{fffd}"))
    );
}

/// Checks that an invalid protobuf body is refused with status 400.
#[tokio::test]
async fn invalid_protobuf_bodies_are_refused() {
    let server = server().await;
    let maps = Objects::maps(&server, "default");
    let prefix =
        "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]";
    let named = b"k8s\0\n\x0f\n\x02v1\x12\tConfigMap";
    for (body, why) in [
        (&b""[..], "empty data".to_owned()),
        (b"k8s\0", "empty body".to_owned()),
        (b"abc", prefix.to_owned()),
        (b"{}", prefix.to_owned()),
        (b"k8s\0\xff\xff\xff", "unexpected EOF".to_owned()),
        (
            &[named.as_slice(), b"\x12\xff"].concat(),
            "unexpected EOF".to_owned(),
        ),
    ] {
        let response = maps.send("POST", "?dryRun=All", &[PROTOBUF], body).await;
        let ResponseStatus(code, message) = status_of(&response);
        assert!(
            code == 400 && message.starts_with(&unrecognized(&why)),
            "{body:?}: {message}"
        );
    }
    // The server detects a truncated field when it decodes the object.
    let short = [named.as_slice(), b"\x12\x05\n\t\n\x01x"].concat();
    let response = maps.send("POST", "?dryRun=All", &[PROTOBUF], short).await;
    assert!(
        response.code == 400 && status_of(&response).1.contains("unexpected EOF"),
        "{}",
        response.text
    );
}
