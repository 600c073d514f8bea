//! Responses of webhooks, and the failure policy.

use http_body_util::BodyExt as _;
use serde_json::{Value, json};

use super::{JSON, MAPS, map, ok, plural, register, rule, send, webhook, with};
use crate::harness::Harness;
use crate::hook::{Answer, Hook, allowed, patched};

#[tokio::test]
async fn responses_decide_and_failures_follow_the_policy() {
    let h = Harness::start().await;
    let hook = Hook::start(|path, _| match path {
        "/allow" => allowed(),
        "/warn" => Answer::Review(json!({"allowed": true, "warnings": ["careful", "careful"]})),
        "/no" => Answer::Review(json!({"allowed": false})),
        "/taken" => Answer::Review(json!({"allowed": false, "warnings": ["it hurts"],
            "status": {"code": 409, "reason": "Conflict", "message": "it is taken", "details": {"name": "x"}}})),
        "/fine" => Answer::Review(json!({"allowed": false, "status": {"code": 200, "message": "all right"}})),
        "/other" => Answer::Review(json!({"allowed": true, "uid": "another"})),
        "/patch" => patched(&json!([{"op": "add", "path": "/data/new", "value": "1"}])),
        "/misfit" => patched(&json!([{"op": "remove", "path": "/absent"}])),
        "/broken" => patched(&json!([{"op": "add", "path": "/data", "value": 5}])),
        "/garbage" => Answer::Raw(200, "<html>".to_owned()),
        "/error" => Answer::Raw(500, "out of order".to_owned()),
        "/long" => Answer::Raw(200, " ".repeat(9 << 20)),
        _ => Answer::Silence,
    })
    .await;
    let closed = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let nowhere = format!("https://127.0.0.1:{}/", closed.local_addr().unwrap().port());
    drop(closed);
    let stranger = Hook::start(|_, _| allowed()).await;
    let mut untrusted = hook.at("/allow");
    untrusted["caBundle"] = json!(stranger.bundle);
    let mut unreadable = hook.at("/allow");
    unreadable["caBundle"] = json!("bm8gY2VydGlmaWNhdGU=");
    let denied = "admission webhook \"w.example.com\" denied the request";
    let failed = "Internal error occurred: failed calling webhook \"w.example.com\": ";
    let service = |name: &str| json!({"service": {"namespace": "default", "name": name, "path": "/allow"}, "caBundle": hook.bundle});
    // Client, phase, code and message with Fail, and whether Ignore admits the request.
    for (client, phase, code, message, ignored) in [
        (hook.at("/allow"), "", 201, "", true),
        (
            hook.at("/no"),
            "",
            400,
            &*format!("{denied} without explanation"),
            false,
        ),
        (
            hook.at("/taken"),
            "",
            409,
            &*format!("{denied}: it is taken"),
            false,
        ),
        (
            hook.at("/fine"),
            "",
            400,
            &*format!("{denied}: all right"),
            false,
        ),
        (
            hook.at("/other"),
            "",
            500,
            &*format!("{failed}received invalid webhook response: expected response.uid"),
            true,
        ),
        (hook.at("/patch"), "Mutating", 201, "", true),
        (
            hook.at("/patch"),
            "Validating",
            500,
            "validating webhook may not return response.patch",
            true,
        ),
        (
            hook.at("/misfit"),
            "Mutating",
            500,
            "Internal error occurred: the patch of admission webhook",
            false,
        ),
        (
            hook.at("/broken"),
            "Mutating",
            500,
            "Internal error occurred: ",
            false,
        ),
        (hook.at("/garbage"), "", 500, failed, true),
        (
            hook.at("/error"),
            "",
            500,
            "500 Internal Server Error: out of order",
            true,
        ),
        (hook.at("/long"), "", 500, failed, true),
        (
            hook.at("/silence"),
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
                let (found, answer) = send(&h, "POST", &path, &map("a")).await;
                let about = format!("{client} {kind} {policy}: {answer}");
                if policy == "Ignore" && ignored {
                    assert_eq!(found, 201, "{about}");
                } else {
                    assert_eq!(found, code, "{about}");
                    let actual = answer["message"].as_str().unwrap_or_default();
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
        let of = webhook("w", hook.at(path), rule("", "v1", "configmaps"));
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
