//! Tests of request bodies whose `kind` or `apiVersion` is malformed or does not match the path of the request.

use serde_json::{Value, json};

use crate::harness::content_type::{JSON, MERGE, STRATEGIC};
use crate::harness::server;

/// Checks that a POST of an object with a wrong or malformed `kind` or `apiVersion` gets 400.
#[tokio::test]
async fn objects_of_another_kind_are_refused() {
    let server = server().await;
    let namespace = server.namespace().await;
    let maps = format!("/api/v1/namespaces/{namespace}/configmaps");
    let deployments = format!("/apis/apps/v1/namespaces/{namespace}/deployments");
    let roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles".to_owned();
    let events = format!("/apis/events.k8s.io/v1/namespaces/{namespace}/events");
    let autoscalers =
        format!("/apis/autoscaling/v2/namespaces/{namespace}/horizontalpodautoscalers");
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions".to_owned();
    let body = |version: &str, kind: &str| {
        format!(
            "{{\"apiVersion\":\"{version}\",\"kind\":\"{kind}\",\"metadata\":{{\"name\":\"x\"}}}}"
        )
    };
    for (path, body) in [
        (
            &maps,
            "{\"apiVersion\": 5, \"kind\": \"ConfigMap\"}".to_owned(),
        ),
        (&maps, "{\"kind\":true}".to_owned()),
        (&maps, "[]".to_owned()),
        (&maps, "{\"apiVersion\":\"a/b/c\"}".to_owned()),
        (&maps, body("v2", "ConfigMap")),
        (&maps, body("apps/v1", "ConfigMap")),
        (&maps, body("v1", "Pod")),
        (
            &deployments,
            body("autoscaling/v1", "HorizontalPodAutoscaler"),
        ),
        (&roles, body("rbac.authorization.k8s.io/v1", "Role")),
        (&events, body("v1", "Event")),
        (
            &autoscalers,
            body("autoscaling/v1", "HorizontalPodAutoscaler"),
        ),
        (&definitions, body("v1", "ConfigMap")),
    ] {
        let response = server.raw("POST", path, &[JSON], body.clone()).await;
        assert_eq!(response.code, 400, "{body}: {}", response.text);
    }
}

/// Checks that a merge patch with another `kind` or `apiVersion` gets 422. A strategic merge patch ignores both fields.
#[tokio::test]
async fn patches_do_not_change_the_kind() {
    let server = server().await;
    let namespace = server.namespace().await;
    let maps = format!("/api/v1/namespaces/{namespace}/configmaps");
    let map = json!({"metadata": {"name": "m"}}).to_string();
    assert_eq!(server.raw("POST", &maps, &[JSON], map).await.code, 201);
    let path = format!("{maps}/m");
    let send = async |kind: (&str, &str), change: Value| {
        server
            .raw("PATCH", &path, &[kind], change.to_string())
            .await
    };
    for change in [
        json!({"kind": 5}),
        json!({"kind": "Pod"}),
        json!({"apiVersion": "v2"}),
    ] {
        let response = send(MERGE, change).await;
        assert_eq!(response.code, 422, "{}", response.text);
    }
    let response = send(STRATEGIC, json!({"kind": "Pod", "apiVersion": "v2"})).await;
    assert_eq!(
        (response.code, &response.json["kind"]),
        (200, &json!("ConfigMap")),
        "{}",
        response.text
    );
}
