//! Tests of Secrets for the tokens of service accounts.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use berth_e2e::eventually;
use berth_test_requirements::needs;
use serde_json::{Value, json};

use crate::harness::content_type::{JSON, MERGE};
use crate::harness::server;
use crate::harness::server::{ApiResponse, TestServer};

async fn create(server: &TestServer, path: &str, object: Value) -> ApiResponse {
    server.raw("POST", path, &[JSON], object.to_string()).await
}

fn secret(name: &str, annotations: Value) -> Value {
    json!({"metadata": {"name": name, "annotations": annotations}, "type": "kubernetes.io/service-account-token"})
}

#[tokio::test]
async fn token_secrets_without_an_account_are_refused() {
    let server = server().await;
    let secrets = format!("/api/v1/namespaces/{}/secrets", server.namespace().await);
    let refused = create(&server, &secrets, secret("s", json!({}))).await;
    let why = "Secret \"s\" is invalid: metadata.annotations[kubernetes.io/service-account.name]: Required value";
    assert_eq!((refused.code, &refused.json["message"]), (422, &json!(why)));
}

/// Checks that the server writes a token, the CA certificate and the namespace into a Secret for a service account. The
/// server deletes such a Secret if the service account does not exist. kube-controller-manager, which does so for
/// kube-apiserver, does not run.
#[needs(embedded)]
#[tokio::test]
async fn token_secrets_are_filled_in_and_deleted_with_their_account() {
    let server = server().await;
    let namespace = server.namespace().await;
    let base = format!("/api/v1/namespaces/{namespace}");
    let secrets = format!("{base}/secrets");
    let account = json!({"metadata": {"name": "robot"}});
    let account = create(&server, &format!("{base}/serviceaccounts"), account).await;
    let of_robot = json!({"kubernetes.io/service-account.name": "robot"});
    let created = create(&server, &secrets, secret("s", of_robot)).await;
    assert_eq!(created.code, 201, "{}", created.text);
    let path = format!("{secrets}/s");
    let filled = async || {
        let found = server.raw("GET", &path, &[], "").await;
        if found.json["data"]["token"].is_string() {
            Ok(found.json)
        } else {
            Err(found.text)
        }
    };
    let found = eventually("the token", filled).await;
    let uid = &found["metadata"]["annotations"]["kubernetes.io/service-account.uid"];
    assert_eq!(*uid, account.json["metadata"]["uid"]);
    let text = |key: &str| {
        let bytes = STANDARD
            .decode(found["data"][key].as_str().unwrap())
            .unwrap();
        String::from_utf8(bytes).unwrap()
    };
    assert_eq!(text("namespace"), namespace);
    assert!(text("ca.crt").starts_with("-----BEGIN CERTIFICATE-----"));
    let review = async || {
        let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview",
            "spec": {"token": text("token")}});
        let path = "/apis/authentication.k8s.io/v1/tokenreviews";
        create(&server, path, review).await.json["status"].take()
    };
    let status = review().await;
    let user = format!("system:serviceaccount:{namespace}:robot");
    assert_eq!(status["user"]["username"], user, "{status}");
    // The server fills in a removed token again.
    let emptied = json!({"data": {"token": null}}).to_string();
    let emptied = server.raw("PATCH", &path, &[MERGE], emptied).await;
    assert_eq!(emptied.code, 200, "{}", emptied.text);
    eventually("the token to be restored", filled).await;

    let missing_account = json!({"kubernetes.io/service-account.name": "missing"});
    let account = format!("{base}/serviceaccounts/robot");
    assert_eq!(server.raw("DELETE", &account, &[], "").await.code, 200);
    create(&server, &secrets, secret("orphan", missing_account)).await;
    for name in ["s", "orphan"] {
        let path = format!("{secrets}/{name}");
        eventually("the secret to be deleted", async || {
            let found = server.raw("GET", &path, &[], "").await;
            if found.code == 404 {
                Ok(())
            } else {
                Err(found.text)
            }
        })
        .await;
    }
    assert!(review().await["authenticated"] != true);
}
