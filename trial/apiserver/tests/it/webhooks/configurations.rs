//! Tests of webhook configurations: defaults, validation, and the deletion of a configuration whose webhook denies
//! deletions.

use std::time::Duration;

use serde_json::{Value, json};

use super::{GROUP, map, ok, plural, register, rule, send, webhook, with};
use crate::harness::{Harness, TIMEOUT};
use berth_test_servers::{WebhookResponse, WebhookServer, allowed};

#[tokio::test]
async fn configurations_are_defaulted_and_validated() {
    let h = Harness::start().await;
    let path = plural("Mutating");
    let client = json!({"service": {"namespace": "n", "name": "s"}});
    let fine = webhook("a", client.clone(), rule("", "v1", "pods"));
    let configuration = |webhook: Value| {
        json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
            "metadata": {"name": "c"}, "webhooks": [webhook]})
    };
    let stored = ok(&h, "POST", &path, configuration(fine.clone())).await;
    let webhook = &stored["webhooks"][0];
    for (field, expected) in [
        ("failurePolicy", json!("Fail")),
        ("matchPolicy", json!("Equivalent")),
        ("namespaceSelector", json!({})),
        ("objectSelector", json!({})),
        ("timeoutSeconds", json!(10)),
        ("reinvocationPolicy", json!("Never")),
    ] {
        assert_eq!(webhook[field], expected, "{field}");
    }
    assert_eq!(webhook["rules"][0]["scope"], "*");
    assert_eq!(webhook["clientConfig"]["service"]["port"], 443);
    assert_eq!(stored["metadata"]["generation"], 1);
    let url = |url: &str| json!({"clientConfig": {"url": url}});
    for (fields, field) in [
        (json!({"name": "short.name"}), "webhooks[0].name"),
        (json!({"sideEffects": null}), "webhooks[0].sideEffects"),
        (json!({"sideEffects": "Some"}), "webhooks[0].sideEffects"),
        (
            json!({"admissionReviewVersions": []}),
            "webhooks[0].admissionReviewVersions",
        ),
        (
            json!({"admissionReviewVersions": ["v2"]}),
            "webhooks[0].admissionReviewVersions",
        ),
        (json!({"timeoutSeconds": 31}), "webhooks[0].timeoutSeconds"),
        (
            json!({"failurePolicy": "Shrug"}),
            "webhooks[0].failurePolicy",
        ),
        (json!({"matchPolicy": "Some"}), "webhooks[0].matchPolicy"),
        (json!({"clientConfig": {}}), "webhooks[0].clientConfig"),
        (url("http://localhost/"), "webhooks[0].clientConfig.url"),
        (
            url("https://localhost/?a=b"),
            "webhooks[0].clientConfig.url",
        ),
        (
            json!({"rules": [{"operations": [], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}]}),
            "webhooks[0].rules[0].operations",
        ),
        (
            json!({"rules": [{"operations": ["PATCH"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}]}),
            "webhooks[0].rules[0].operations[0]",
        ),
        (
            json!({"objectSelector": {"matchExpressions": [{"key": "a", "operator": "Like"}]}}),
            "webhooks[0].objectSelector.matchExpressions[0].operator",
        ),
        (
            json!({"matchConditions": [{"name": "a b", "expression": "true"}]}),
            "webhooks[0].matchConditions[0].name",
        ),
        (
            json!({"matchConditions": [{"name": "a", "expression": "object."}]}),
            "webhooks[0].matchConditions[0].expression",
        ),
        (
            json!({"matchConditions": [{"name": "a", "expression": "'text'"}]}),
            "webhooks[0].matchConditions[0].expression",
        ),
    ] {
        let mut refused = configuration(with(fine.clone(), &fields));
        refused["metadata"]["name"] = json!("d");
        let (code, status) = send(&h, "POST", &path, &refused).await;
        assert_eq!(code, 422, "{fields}: {status}");
        let causes = status["details"]["causes"].as_array().unwrap();
        assert!(
            causes.iter().any(|c| c["field"] == field),
            "{fields}: {status}"
        );
    }
    let item = format!("{path}/c");
    let (code, _) = send(&h, "PUT", &item, &configuration(fine.clone())).await;
    assert_eq!(
        code, 422,
        "a replacement without a resourceVersion is refused"
    );
    let longer = json!({"webhooks": [with(fine, &json!({"timeoutSeconds": 5}))]});
    let changed = ok(&h, "PATCH", &item, longer).await;
    assert_eq!(changed["metadata"]["generation"], 2);
    let listed = ok(&h, "GET", GROUP, Value::Null).await;
    assert_eq!(
        listed["resources"][0]["kind"],
        "MutatingWebhookConfiguration"
    );
    assert_eq!(
        listed["resources"][0]["categories"],
        json!(["api-extensions"])
    );
}

#[tokio::test]
async fn a_namespace_deletion_resumes_after_the_denying_webhook_is_deleted() {
    let h = Harness::start().await;
    let server = WebhookServer::start(|_, request| match request["operation"].as_str() {
        Some("DELETE") => {
            WebhookResponse::Review(json!({"allowed": false, "status": {"message": "it stays"}}))
        }
        _ => allowed(),
    })
    .await;
    let space = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}});
    ok(&h, "POST", "/api/v1/namespaces", space).await;
    ok(&h, "POST", "/api/v1/namespaces/n/configmaps", map("a")).await;
    let everything = json!([{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"]}]);
    let only_maps = json!({"matchConditions": [{"name": "maps", "expression": "request.kind.kind != 'Namespace'"}]});
    let of = with(
        webhook("w", server.client_config("/"), everything),
        &only_maps,
    );
    register(&h, "Validating", "c", json!([of])).await;
    let (code, response) = send(
        &h,
        "DELETE",
        "/api/v1/namespaces/n/configmaps",
        &Value::Null,
    )
    .await;
    assert_eq!(code, 400, "{response}");
    ok(&h, "DELETE", "/api/v1/namespaces/n", Value::Null).await;
    let until = tokio::time::Instant::now() + TIMEOUT;
    server.take_requests();
    // The server also calls the webhook when it deletes the objects of the namespace, and retries these deletions.
    let mut calls = 0;
    while calls < 2 {
        assert!(tokio::time::Instant::now() < until);
        let seen = server.take_requests();
        calls += seen
            .iter()
            .filter(|(_, r)| r["operation"] == "DELETE" && r["name"] == "a")
            .count();
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(
        send(&h, "GET", "/api/v1/namespaces/n", &Value::Null)
            .await
            .0,
        200
    );
    // The webhook does not review this deletion, because requests on webhook configurations are exempt.
    ok(
        &h,
        "DELETE",
        &format!("{}/c", plural("Validating")),
        Value::Null,
    )
    .await;
    while send(&h, "GET", "/api/v1/namespaces/n", &Value::Null)
        .await
        .0
        != 404
    {
        assert!(
            tokio::time::Instant::now() < until,
            "the namespace still exists"
        );
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
