//! Tests of the health endpoints.

use crate::harness::server;

/// Checks that the health endpoints and two of their checks respond with `ok`, and that `?verbose` lists the checks.
#[tokio::test]
async fn health_endpoints_are_served() {
    let server = server().await;
    let get = async |path: &str| server.raw("GET", path, &[], "").await;
    for path in [
        "/healthz",
        "/livez",
        "/readyz",
        "/healthz/ping",
        "/livez/etcd",
    ] {
        let response = get(path).await;
        assert_eq!(
            (response.code, response.text.as_str()),
            (200, "ok"),
            "{path}"
        );
    }
    for path in ["/healthz", "/livez", "/readyz"] {
        let text = get(&format!("{path}?verbose")).await.text;
        assert!(text.starts_with("[+]ping ok\n"), "{text}");
        assert!(
            text.ends_with(&format!("{} check passed\n", &path[1..])),
            "{text}"
        );
    }
}

/// Checks that health checks have their own paths, that an unknown check gets 404, and that `?verbose` lists the
/// checks.
#[tokio::test]
async fn health_checks_can_be_selected() {
    let server = server().await;
    let get = async |path: &str| {
        let response = server.raw("GET", path, &[], "").await;
        (response.code, response.text)
    };
    for path in [
        "/livez/ping",
        "/livez/etcd",
        "/healthz/log",
        "/readyz/ping",
        "/readyz/informer-sync",
        "/readyz/shutdown",
    ] {
        assert_eq!(get(path).await, (200, "ok".to_owned()), "{path}");
    }
    for path in ["/readyz/etcd", "/livez/shutdown"] {
        assert_eq!(get(path).await.0, 404, "{path}");
    }
    let (_, text) = get("/readyz?verbose").await;
    assert!(text.starts_with("[+]ping ok\n[+]log ok\n"), "{text}");
    assert!(text.ends_with("readyz check passed\n"), "{text}");
}
