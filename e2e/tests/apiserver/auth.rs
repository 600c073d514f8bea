//! Who may do what, and how refusals read.

use crate::server;

#[tokio::test]
async fn what_anybody_may_ask_is_answered() {
    let server = server().await;
    for path in ["/healthz", "/livez", "/readyz", "/version"] {
        let answer = server.raw("GET", path, &[], "").await;
        assert_eq!(answer.code, 200, "{path}: {}", answer.text);
    }
    let namespace = server.namespace().await;
    let answer = server
        .raw("GET", &format!("/api/v1/namespaces/{namespace}"), &[], "")
        .await;
    assert_eq!(answer.json["metadata"]["name"], namespace.as_str());
}
