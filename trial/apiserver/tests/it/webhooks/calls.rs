//! Tests of calls to webhooks: writes during a call, the limits for concurrent requests, and Services as the addresses
//! of webhooks.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use berth_apiserver::{Limits, ServerConfig};
use serde_json::{Value, json};

use super::{JSON, MAPS, MERGE, map, ok, register, rule, send, webhook, with};
use crate::harness::{Harness, TIMEOUT};
use berth_test_servers::{WebhookResponse, WebhookServer, allowed};

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_webhook_may_write_to_the_server_during_its_call() {
    let h = Harness::start().await;
    let client: Arc<Mutex<Option<kube::Client>>> = Arc::default();
    let (inner, calls) = (client.clone(), Arc::new(Mutex::new(0)));
    let count = calls.clone();
    let server = WebhookServer::start(move |path, request| {
        *count.lock().unwrap() += 1;
        let calls = *count.lock().unwrap();
        let of = request["name"].as_str().unwrap().to_owned();
        if path == "/always" || calls == 1 {
            let client = inner.lock().unwrap().clone().unwrap();
            // The webhook changes the object of the reviewed request. This change causes a conflict.
            let patch = json!({"metadata": {"annotations": {"calls": calls.to_string()}}});
            let request = http::Request::patch(format!("/api/v1/namespaces/default/secrets/{of}"));
            let request = request.header("content-type", MERGE);
            let request = request.body(patch.to_string().into_bytes()).unwrap();
            let written = std::thread::spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build()
                    .unwrap();
                runtime.block_on(client.request::<Value>(request)).is_ok()
            });
            assert!(written.join().unwrap());
        }
        allowed()
    })
    .await;
    *client.lock().unwrap() = Some(h.server.client());
    let secrets = "/api/v1/namespaces/default/secrets";
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}});
    ok(&h, "POST", secrets, secret).await;
    let change = |value: &str| json!({"data": {"k": value}, "metadata": {"annotations": null}});
    for (path, value, times, code) in [("/once", "dg==", 2, 200), ("/always", "dw==", 6, 409)] {
        *calls.lock().unwrap() = 0;
        let of = webhook("w", server.client_config(path), rule("", "v1", "secrets"));
        // Excludes the writes of the webhook, which set an annotation.
        let condition = json!({"matchConditions": [{"name": "not-own",
            "expression": "!has(object.metadata.annotations)"}]});
        register(&h, "Validating", "c", json!([with(of, &condition)])).await;
        let (found, response) = send(&h, "PATCH", &format!("{secrets}/s"), &change(value)).await;
        assert_eq!(
            (found, *calls.lock().unwrap()),
            (code, times),
            "{path}: {response}"
        );
    }
}

#[tokio::test]
async fn the_limits_for_concurrent_requests_exempt_administrators_and_watches() {
    let h = Harness::with(ServerConfig {
        limits: Limits {
            requests: 1,
            mutating_requests: 1,
            ..Limits::default()
        },
        ..ServerConfig::default()
    })
    .await;
    let binding = json!({"metadata": {"name": "carol"},
        "roleRef": {"kind": "ClusterRole", "name": "edit", "apiGroup": "rbac.authorization.k8s.io"},
        "subjects": [{"kind": "User", "name": "carol", "apiGroup": "rbac.authorization.k8s.io"}]});
    let bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
    ok(&h, "POST", bindings, binding).await;
    let server = WebhookServer::start(|_, _| WebhookResponse::None).await;
    let slow = with(
        webhook("w", server.client_config("/"), rule("", "v1", "configmaps")),
        &json!({"timeoutSeconds": 30}),
    );
    register(&h, "Validating", "c", json!([slow])).await;
    // The in-process client does not retry after the status code 429.
    let client = h.server.client();
    let send_as_carol = |method: &str, path: &str, body: Value| {
        let request = http::Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", JSON)
            .header("impersonate-user", "carol")
            .body(kube::client::Body::from(body.to_string().into_bytes()))
            .unwrap();
        let client = client.clone();
        async move { client.send(request).await.unwrap() }
    };
    let first = tokio::spawn(send_as_carol("POST", MAPS, map("a")));
    let until = tokio::time::Instant::now() + TIMEOUT;
    while server.take_requests().is_empty() {
        assert!(tokio::time::Instant::now() < until);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let second = send_as_carol("POST", MAPS, map("b")).await;
    assert_eq!(second.status().as_u16(), 429);
    assert_eq!(second.headers()["retry-after"], "1");
    let watch = format!("{MAPS}?watch=true");
    let watches = [
        send_as_carol("GET", &watch, Value::Null).await,
        send_as_carol("GET", &watch, Value::Null).await,
    ];
    for response in watches {
        assert_eq!(response.status().as_u16(), 200, "watches have no limit");
    }
    let read = send_as_carol("GET", MAPS, Value::Null).await;
    assert_eq!(read.status().as_u16(), 200, "reads have a separate limit");
    let secret = json!({"metadata": {"name": "s"}});
    ok(&h, "POST", "/api/v1/namespaces/default/secrets", secret).await;
    assert!(!first.is_finished());
    first.abort();
}

#[tokio::test]
async fn external_names_are_called_and_missing_endpoints_are_errors() {
    let h = Harness::start().await;
    let server = WebhookServer::start(|_, _| allowed()).await;
    let services = "/api/v1/namespaces/default/services";
    let external = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "hook"},
        "spec": {"type": "ExternalName", "externalName": "localhost"}});
    ok(&h, "POST", services, external).await;
    // The URL contains the host name of a Service, as in Karmada's manifest.
    let url = format!("https://hook.default.svc:{}/url", server.port);
    for (client, path) in [
        (
            json!({"service": {"namespace": "default", "name": "hook", "path": "/service", "port": server.port}}),
            "/service",
        ),
        (json!({"url": url}), "/url"),
    ] {
        let client = with(client, &json!({"caBundle": server.ca_bundle}));
        register(
            &h,
            "Validating",
            "c",
            json!([webhook("w", client, rule("", "v1", "configmaps"))]),
        )
        .await;
        ok(&h, "POST", &format!("{MAPS}?dryRun=All"), map("a")).await;
        assert_eq!(server.take_paths(), [path]);
    }
    let cluster = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "empty"},
        "spec": {"ports": [{"port": 443}]}});
    ok(&h, "POST", services, cluster).await;
    for (port, message) in [
        (443, "no endpoints available for service \"empty\""),
        (444, "no service port 444 found for service \"empty\""),
    ] {
        let client = json!({"service": {"namespace": "default", "name": "empty", "port": port}, "caBundle": server.ca_bundle});
        register(
            &h,
            "Validating",
            "c",
            json!([webhook("w", client, rule("", "v1", "configmaps"))]),
        )
        .await;
        let (code, response) = send(&h, "POST", MAPS, &map("a")).await;
        assert_eq!(code, 500);
        assert!(
            response["message"].as_str().unwrap().contains(message),
            "{response}"
        );
    }
}
