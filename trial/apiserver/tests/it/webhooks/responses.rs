//! A test of the responses of webhooks, and of the failure policy for failed calls.

use http_body_util::BodyExt as _;
use serde_json::{Value, json};

use super::{JSON, MAPS, map, ok, plural, register, rule, send, webhook, with};
use crate::harness::Harness;
use berth_test_servers::{WebhookResponse, WebhookServer, allowed, patched};

#[tokio::test]
async fn responses_allow_or_deny_and_failed_calls_follow_the_failure_policy() {
    let h = Harness::start().await;
    let server = WebhookServer::start(|path, _| match path {
        "/allow" => allowed(),
        "/warn" => WebhookResponse::Review(json!({"allowed": true, "warnings": ["careful", "careful"]})),
        "/no" => WebhookResponse::Review(json!({"allowed": false})),
        "/taken" => WebhookResponse::Review(json!({"allowed": false, "warnings": ["it hurts"],
            "status": {"code": 409, "reason": "Conflict", "message": "it is taken", "details": {"name": "x"}}})),
        "/fine" => WebhookResponse::Review(json!({"allowed": false, "status": {"code": 200, "message": "all right"}})),
        "/other" => WebhookResponse::Review(json!({"allowed": true, "uid": "another"})),
        "/patch" => patched(&json!([{"op": "add", "path": "/data/new", "value": "1"}])),
        "/misfit" => patched(&json!([{"op": "remove", "path": "/absent"}])),
        "/broken" => patched(&json!([{"op": "add", "path": "/data", "value": 5}])),
        "/garbage" => WebhookResponse::Raw(200, "<html>".to_owned()),
        "/error" => WebhookResponse::Raw(500, "out of order".to_owned()),
        "/long" => WebhookResponse::Raw(200, " ".repeat(9 << 20)),
        _ => WebhookResponse::None,
    })
    .await;
    let closed = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let nowhere = format!("https://127.0.0.1:{}/", closed.local_addr().unwrap().port());
    drop(closed);
    let other_server = WebhookServer::start(|_, _| allowed()).await;
    let mut untrusted = server.client_config("/allow");
    untrusted["caBundle"] = json!(other_server.ca_bundle);
    let mut unreadable = server.client_config("/allow");
    unreadable["caBundle"] = json!("bm8gY2VydGlmaWNhdGU=");
    let denied = "admission webhook \"w.example.com\" denied the request";
    let failed = "Internal error occurred: failed calling webhook \"w.example.com\": ";
    let service = |name: &str| json!({"service": {"namespace": "default", "name": name, "path": "/allow"}, "caBundle": server.ca_bundle});
    // Each case contains the `clientConfig`, the phase (empty for both phases), the code and the message for the policy
    // `Fail`, and whether the policy `Ignore` admits the request.
    for (client, phase, code, message, ignored) in [
        (server.client_config("/allow"), "", 201, "", true),
        (
            server.client_config("/no"),
            "",
            400,
            &*format!("{denied} without explanation"),
            false,
        ),
        (
            server.client_config("/taken"),
            "",
            409,
            &*format!("{denied}: it is taken"),
            false,
        ),
        (
            server.client_config("/fine"),
            "",
            400,
            &*format!("{denied}: all right"),
            false,
        ),
        (
            server.client_config("/other"),
            "",
            500,
            &*format!("{failed}received invalid webhook response: expected response.uid"),
            true,
        ),
        (server.client_config("/patch"), "Mutating", 201, "", true),
        (
            server.client_config("/patch"),
            "Validating",
            500,
            "validating webhook may not return response.patch",
            true,
        ),
        (
            server.client_config("/misfit"),
            "Mutating",
            500,
            "Internal error occurred: cannot apply the patch of admission webhook",
            false,
        ),
        (
            server.client_config("/broken"),
            "Mutating",
            500,
            "Internal error occurred: ",
            false,
        ),
        (server.client_config("/garbage"), "", 500, failed, true),
        (
            server.client_config("/error"),
            "",
            500,
            "500 Internal Server Error: out of order",
            true,
        ),
        (server.client_config("/long"), "", 500, failed, true),
        (
            server.client_config("/silence"),
            "",
            500,
            "context deadline exceeded",
            true,
        ),
        (json!({"url": nowhere}), "", 500, failed, true),
        (untrusted, "", 500, "certificate", true),
        (unreadable, "", 500, "cannot use the caBundle", true),
        (
            service("absent"),
            "",
            500,
            "service \"absent\" not found",
            true,
        ),
    ] {
        for kind in ["Mutating", "Validating"] {
            if !phase.is_empty() && phase != kind {
                continue;
            }
            for policy in ["Fail", "Ignore"] {
                let of = webhook("w", client.clone(), rule("", "v1", "configmaps"));
                let of = with(of, &json!({"failurePolicy": policy, "timeoutSeconds": 1}));
                register(&h, kind, "c", json!([of])).await;
                let path = format!("{MAPS}?dryRun=All");
                let (found, response) = send(&h, "POST", &path, &map("a")).await;
                let about = format!("{client} {kind} {policy}: {response}");
                if policy == "Ignore" && ignored {
                    assert_eq!(found, 201, "{about}");
                } else {
                    assert_eq!(found, code, "{about}");
                    let actual = response["message"].as_str().unwrap_or_default();
                    assert!(actual.contains(message), "{about}");
                }
                ok(&h, "DELETE", &format!("{}/c", plural(kind)), Value::Null).await;
            }
        }
    }
    for (path, code, warnings) in [
        ("/warn", 201, vec!["299 - \"careful\""]),
        ("/taken", 409, vec!["299 - \"it hurts\""]),
    ] {
        let of = webhook(
            "w",
            server.client_config(path),
            rule("", "v1", "configmaps"),
        );
        register(&h, "Validating", "c", json!([of])).await;
        let request = http::Request::post(format!("{MAPS}?dryRun=All"));
        let request = request.header("content-type", JSON);
        let body = kube::client::Body::from(map("a").to_string().into_bytes());
        let response = h.client.send(request.body(body).unwrap()).await.unwrap();
        assert_eq!(response.status().as_u16(), code);
        let found: Vec<_> = response
            .headers()
            .get_all("warning")
            .iter()
            .cloned()
            .collect();
        assert_eq!(found, warnings, "{path}");
        let body = response.into_body().collect().await.unwrap().to_bytes();
        let body: Value = serde_json::from_slice(&body).unwrap();
        if code == 409 {
            assert_eq!(
                (&body["reason"], &body["details"]["name"]),
                (&json!("Conflict"), &json!("x"))
            );
        }
    }
}
