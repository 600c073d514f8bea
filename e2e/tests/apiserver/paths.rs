//! Tests of unusual paths, methods and queries, and of watch timeouts.

use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::content_type::{JSON, MERGE};
use crate::harness::objects::{Objects, map};
use crate::harness::server;

const NO_PAGE: &str = "404 page not found\n";
const NO_RESOURCE: &str = "the server could not find the requested resource";

/// Checks that the server decodes percent escapes in paths and ignores trailing slashes, and then finds the resource.
#[tokio::test]
async fn paths_are_decoded_before_routing() {
    let server = server().await;
    let namespace = server.namespace().await;
    let maps = Objects::maps(&server, &namespace);
    maps.create(&map("a", json!({}), json!({}))).await;
    let kind = async |path: &str| {
        let response = server.raw("GET", path, &[], "").await;
        assert_eq!(response.code, 200, "{path}: {}", response.text);
        response.json["kind"].clone()
    };
    for (path, expected) in [
        ("/api/v1/namespaces/default/", "Namespace"),
        ("/api/v1/namespaces/default//", "Namespace"),
        ("/api/v1/namespaces/", "NamespaceList"),
        ("/api/v1/namespaces/%64efault", "Namespace"),
        ("/api/v1/n%61mespaces", "NamespaceList"),
        ("/api/v1/namespaces/default%2Fconfigmaps", "ConfigMapList"),
        ("/%61pi/v1", "APIResourceList"),
        ("/api/", "APIVersions"),
        ("/apis/", "APIGroupList"),
        ("/apis/apps/", "APIGroup"),
        ("/api/v1/", "APIResourceList"),
        (
            "/apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Adiscovery",
            "ClusterRole",
        ),
    ] {
        assert_eq!(kind(path).await, expected, "{path}");
    }
    assert_eq!(
        kind(&format!("/api/v1/namespaces/{namespace}/configmaps/%61")).await,
        "ConfigMap"
    );
}

/// Checks that an unknown path gets 404. A path with an invalid escape or an invalid object name gets 400.
#[tokio::test]
async fn unknown_paths_return_404() {
    let server = server().await;
    let maps = "/api/v1/namespaces/default/configmaps";
    for path in [
        "//api/v1",
        "/API/v1",
        "/apis/nope",
        "/apis/nope/v1",
        "/apis/nope/v1/x",
        "/healthz/",
        "/healthz//ping",
        "/healthz/nope",
        "/metrics/",
        "/openapi/v2/",
        "/favicon.ico",
        "/swagger.json",
    ] {
        let response = server.raw("GET", path, &[], "").await;
        assert_eq!(
            (response.code, response.text.as_str()),
            (404, NO_PAGE),
            "{path}"
        );
        assert_eq!(
            response.headers["x-content-type-options"], "nosniff",
            "{path}"
        );
    }
    for path in [
        "/api//v1/namespaces",
        "/api/v1//namespaces/default",
        "/api/v1/namespaces/../namespaces",
        "/api/v1/namespaces/./default",
        "/api/v1/../../healthz",
        "/api/v2",
        "/api/v2/pods",
        "/apis/apps/v2",
        "/apis/apps/v2/deployments",
        "/api/v1/Namespaces",
        "/api/v1/configmaps/a",
        "/api/v1/namespaces/default/nodes",
        "/api/v1/namespaces/default/configmaps//a",
        "/api/v1/namespaces/default/configmaps/a%2Fb",
        "/api/v1/namespaces/default/configmaps/..%2F..",
        "/api/v1/namespaces/default/configmaps/a/b/c",
    ] {
        let response = server.raw("GET", path, &[], "").await;
        assert_eq!(
            (response.code, &response.json["message"]),
            (404, &json!(NO_RESOURCE)),
            "{path}: {}",
            response.text
        );
    }
    // The HTTP server rejects invalid percent escapes.
    for path in [format!("{maps}/a%zz"), "/%".to_owned()] {
        let response = server.raw("GET", &path, &[], "").await;
        assert_eq!(
            (response.code, response.text.as_str()),
            (400, "400 Bad Request")
        );
    }
    // `.`, `..` and names that contain `%` are invalid names of objects.
    for (name, why) in [
        ("..", "\"..\": may not be '..'"),
        ("%2e", "\".\": may not be '.'"),
        ("a%25b", "\"a%b\": may not contain '%'"),
    ] {
        for (method, header, body) in [
            ("GET", JSON, ""),
            ("DELETE", JSON, ""),
            ("PATCH", MERGE, "{}"),
        ] {
            let response = server
                .raw(method, &format!("{maps}/{name}"), &[header], body)
                .await;
            let expected = format!("Name parameter invalid: {why}");
            assert_eq!(
                (response.code, &response.json["message"]),
                (400, &json!(expected)),
                "{method} {name}"
            );
        }
    }
}

/// Checks that a path responds with 405 to a method that it does not support.
#[tokio::test]
async fn unsupported_methods_are_refused() {
    let server = server().await;
    let maps = "/api/v1/namespaces/default/configmaps";
    let not_allowed = "the server does not allow this method on the requested resource";
    for method in ["HEAD", "OPTIONS", "TRACE"] {
        for (path, code) in [
            (maps, 405),
            ("/api/v1/namespaces/default", 405),
            ("/api", 405),
            ("/api/v1", 405),
            ("/apis/apps/v1", 405),
            ("/version", 405),
            ("/healthz", 200),
            ("/apis", 200),
            ("/apis/apps", 200),
            ("/openapi/v2", 200),
            ("/openapi/v3", 200),
            ("/", 200),
            ("/nothing", 404),
        ] {
            let response = server.raw(method, path, &[], "").await;
            assert_eq!(response.code, code, "{method} {path}: {}", response.text);
            if method == "HEAD" {
                assert_eq!(response.text, "", "{path}");
            } else if code == 405 {
                assert_eq!(response.json["message"], not_allowed);
            }
        }
    }
    for (method, path) in [
        ("POST", "/api/v1/namespaces/default/configmaps/a"),
        ("PUT", maps),
        ("PATCH", maps),
        ("DELETE", "/version"),
        (
            "GET",
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
        ),
        (
            "GET",
            "/api/v1/namespaces/default/serviceaccounts/default/token",
        ),
    ] {
        let response = server.raw(method, path, &[JSON], "{}").await;
        assert_eq!(
            (response.code, &response.json["message"]),
            (405, &json!(not_allowed)),
            "{method} {path}"
        );
    }
}

/// Checks that unknown query parameters have no effect. An invalid `timeout` gets 400.
#[tokio::test]
async fn unknown_query_parameters_are_ignored() {
    let server = server().await;
    let namespace = server.namespace().await;
    let maps = Objects::maps(&server, &namespace);
    for name in ["a", "b", "c"] {
        maps.create(&map(name, json!({}), json!({}))).await;
    }
    let long = format!("?{}", "a".repeat(60_000));
    for (query, count) in [
        ("?foo=bar&foo=baz", 3),
        ("?%zz=1", 3),
        ("?limit=%zz", 3),
        ("?limit=1;x=2", 3),
        ("?limit=-1", 3),
        ("?timeoutSeconds=-5", 3),
        ("?timeout=0s", 3),
        ("?timeout=-1s", 3),
        ("?timeout=1h30m", 3),
        ("?pretty=maybe", 3),
        // If a query contains a parameter twice, the server uses the first value.
        ("?limit=2&limit=1", 2),
        ("?limit=1&&foo", 1),
        (long.as_str(), 3),
    ] {
        let response = maps.get(query).await;
        let items = response.json["items"].as_array().map(Vec::len);
        let own = if count == 3 { server.initial_maps() } else { 0 };
        let expected = (200, Some(count + own));
        assert_eq!((response.code, items), expected, "{query}");
    }
    let timeout = |why: &str| format!("invalid timeout specified in the request URL - time: {why}");
    let invalid = |text: &str| timeout(&format!("invalid duration \"{text}\""));
    let range = "strconv.ParseInt: parsing \"99999999999999999999\": value out of range";
    for (query, message) in [
        ("?timeout=abc", invalid("abc")),
        ("?timeout=5", timeout("missing unit in duration \"5\"")),
        (
            "?timeout=5x",
            timeout("unknown unit \"x\" in duration \"5x\""),
        ),
        ("?timeoutSeconds=99999999999999999999", range.to_owned()),
    ] {
        let response = maps.get(query).await;
        assert_eq!(
            (response.code, &response.json["message"]),
            (400, &json!(message)),
            "{query}"
        );
    }
    for (method, path) in [("POST", ""), ("DELETE", "/none")] {
        let response = maps
            .send(method, &format!("{path}?timeout=x"), &[JSON], "{}")
            .await;
        assert_eq!(
            (response.code, &response.json["message"]),
            (400, &json!(invalid("x")))
        );
    }
    let health = server.raw("GET", "/healthz?timeout=x", &[], "").await;
    assert_eq!(health.code, 400, "{}", health.text);
    // The server looks up an object name of any length.
    let name = "a".repeat(9000);
    let response = maps.get(&format!("/{name}")).await;
    assert_eq!(
        (response.code, &response.json["message"]),
        (404, &json!(format!("configmaps \"{name}\" not found")))
    );
}

/// Checks that a watch sends its events and ends after `timeoutSeconds`.
#[tokio::test]
async fn watches_end_after_their_timeout() {
    let server = server().await;
    let namespace = server.namespace().await;
    let maps = Objects::maps(&server, &namespace);
    maps.create(&map("a", json!({}), json!({}))).await;
    let watch = async |seconds: i32| {
        let query = format!("?watch=true&timeoutSeconds={seconds}");
        let ended = tokio::time::timeout(Duration::from_mins(1), maps.get(&query)).await;
        ended.unwrap()
    };
    let response = watch(1).await;
    let all = 1 + server.initial_maps();
    assert_eq!((response.code, response.text.lines().count()), (200, all));
    // A negative timeout ends the watch at once, perhaps before the first event.
    let response = watch(-5).await;
    assert!(
        response.code == 200 && response.text.lines().count() <= all,
        "{}",
        response.text
    );
    let one: Value = maps.get("/a?watch=true&timeoutSeconds=1").await.json;
    assert_eq!(one["kind"], "ConfigMap");
}
