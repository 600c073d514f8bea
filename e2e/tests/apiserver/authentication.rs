//! Tests of authentication without client certificates: anonymous requests and service account tokens.

use serde_json::{Value, json};

use crate::harness::content_type::JSON;
use crate::harness::server;
use crate::harness::server::raw;

/// Checks that a client without a token can read the health endpoints and the version only, as the anonymous user. A
/// client with an invalid token gets 401 even for the version.
#[tokio::test]
async fn requests_without_a_token_are_anonymous_and_invalid_tokens_are_refused() {
    let server = server().await;
    let anonymous = server.with_token(None).await;
    for path in ["/healthz", "/livez", "/readyz", "/version"] {
        let response = raw(&anonymous, "GET", path, &[], "").await;
        assert_eq!(response.code, 200, "{path}: {}", response.text);
    }
    for (path, message) in [
        (
            "/api/v1/namespaces/default/configmaps",
            r#"configmaps is forbidden: User "system:anonymous" cannot list resource "configmaps" in API group "" in the namespace "default""#,
        ),
        (
            "/metrics",
            r#"forbidden: User "system:anonymous" cannot get path "/metrics""#,
        ),
        (
            "/api",
            r#"forbidden: User "system:anonymous" cannot get path "/api""#,
        ),
    ] {
        let response = raw(&anonymous, "GET", path, &[], "").await;
        assert_eq!(
            (response.code, &response.json["message"]),
            (403, &json!(message))
        );
    }
    let invalid = server.with_token(Some("made-up")).await;
    let response = raw(&invalid, "GET", "/version", &[], "").await;
    assert_eq!(
        (response.code, &response.json["reason"]),
        (401, &json!("Unauthorized"))
    );
}

/// Checks that a token of a service account authenticates the account until the account is deleted. A token for another
/// audience is rejected.
#[tokio::test]
async fn tokens_expire_with_their_service_account() {
    let server = server().await;
    let namespace = server.namespace().await;
    let accounts = format!("/api/v1/namespaces/{namespace}/serviceaccounts");
    server
        .create(&accounts, json!({"metadata": {"name": "bot"}}))
        .await;
    let path = format!("{accounts}/bot/token");
    let request = async |spec: Value| {
        let body = json!({ "spec": spec }).to_string();
        server.raw("POST", &path, &[JSON], body).await
    };
    let response = request(json!({"expirationSeconds": 10})).await;
    assert_eq!(
        response.json["message"],
        "TokenRequest.authentication.k8s.io \"\" is invalid: spec.expirationSeconds: Invalid value: 10: may not specify a duration less than 10 minutes"
    );
    let response = request(json!({})).await;
    assert_eq!(response.code, 201, "{}", response.text);
    assert_eq!(
        response.json["spec"],
        json!({"audiences": ["https://kubernetes.default.svc"], "expirationSeconds": 3600, "boundObjectRef": null})
    );
    let token = response.json["status"]["token"]
        .as_str()
        .unwrap()
        .to_owned();
    let bot = server.with_token(Some(&token)).await;
    let whoami = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let response = raw(&bot, "POST", whoami, &[JSON], "{}").await;
    let info = &response.json["status"]["userInfo"];
    let user = format!("system:serviceaccount:{namespace}:bot");
    assert_eq!(info["username"], user.as_str(), "{}", response.text);
    assert_eq!(
        info["groups"],
        json!([
            "system:serviceaccounts",
            format!("system:serviceaccounts:{namespace}"),
            "system:authenticated"
        ])
    );
    let review = async |token: &str| {
        let body = json!({"spec": {"token": token}}).to_string();
        let path = "/apis/authentication.k8s.io/v1/tokenreviews";
        server.raw("POST", path, &[JSON], body).await.json["status"].clone()
    };
    let status = review(&token).await;
    assert_eq!(
        (&status["authenticated"], &status["user"]["username"]),
        (&json!(true), &json!(user))
    );
    assert_eq!(
        review("made-up").await,
        json!({"user": {}, "error": "invalid bearer token"})
    );
    let elsewhere = request(json!({"audiences": ["elsewhere"]})).await;
    let elsewhere = elsewhere.json["status"]["token"]
        .as_str()
        .unwrap()
        .to_owned();
    let client = server.with_token(Some(&elsewhere)).await;
    assert_eq!(raw(&client, "GET", "/version", &[], "").await.code, 401);

    let response = server
        .raw("DELETE", &format!("{accounts}/bot"), &[], "")
        .await;
    assert_eq!(response.code, 200);
    // kube-apiserver caches valid tokens, and accepts this token for some time after the deletion.
    if !server.is_kube_apiserver() {
        assert_eq!(raw(&bot, "GET", "/version", &[], "").await.code, 401);
    }
    let response = request(json!({})).await;
    assert_eq!(
        response.json["message"],
        "serviceaccounts \"bot\" not found"
    );
}
