//! Tests of the rules, selectors and match conditions that select the requests for a webhook.

use serde_json::{Value, json};

use super::{DEPLOYMENTS, MAPS, deployment, map, ok, plural, register, rule, send, webhook, with};
use crate::harness::Harness;
use berth_test_servers::{WebhookServer, allowed};

#[tokio::test]
async fn webhooks_are_called_for_matching_requests() {
    let h = Harness::start().await;
    let server = WebhookServer::start(|_, _| allowed()).await;
    ok(&h, "POST", MAPS, map("there")).await;
    ok(&h, "POST", DEPLOYMENTS, deployment("d")).await;
    let scaler = json!({"apiVersion": "autoscaling/v1", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "s"},
        "spec": {"maxReplicas": 2, "scaleTargetRef": {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"}}});
    let mut labelled = map("labelled");
    labelled["metadata"]["labels"] = json!({"team": "a"});
    let space = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n", "labels": {"team": "a"}}});
    let on = |operations: &[&str], group: &str, version: &str, resource: &str, scope: &str| {
        json!({"rules": [{"operations": operations, "apiGroups": [group], "apiVersions": [version],
            "resources": [resource], "scope": scope}]})
    };
    let maps = |fields: Value| with(on(&["*"], "", "v1", "configmaps", "*"), &fields);
    let condition =
        |expression: &str| json!({"matchConditions": [{"name": "c", "expression": expression}]});
    let create = ("POST", MAPS, &labelled);
    let touch = json!({"data": {"k": "w"}});
    let there = format!("{MAPS}/there");
    let update = ("PATCH", there.as_str(), &touch);
    let remove = ("DELETE", there.as_str(), &Value::Null);
    let status = json!({"status": {"replicas": 1}});
    let (status_path, scale_path) = (
        format!("{DEPLOYMENTS}/d/status"),
        format!("{DEPLOYMENTS}/d/scale"),
    );
    let of_status = ("PATCH", status_path.as_str(), &status);
    let replicas = json!({"spec": {"replicas": 3}});
    let scale = ("PATCH", scale_path.as_str(), &replicas);
    let scaler = (
        "POST",
        "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers",
        &scaler,
    );
    let namespace = ("POST", "/api/v1/namespaces", &space);
    let team = json!({"matchLabels": {"team": "a"}});
    let other = json!({"matchLabels": {"team": "b"}});
    let own = json!({"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["default"]}]});
    for (fields, (method, path, body), called) in [
        (on(&["CREATE"], "", "v1", "configmaps", "*"), create, true),
        (on(&["CREATE"], "", "v1", "configmaps", "*"), update, false),
        (on(&["UPDATE"], "", "v1", "configmaps", "*"), update, true),
        (on(&["DELETE"], "", "v1", "configmaps", "*"), remove, true),
        (
            on(&["CREATE", "UPDATE"], "", "v1", "configmaps", "*"),
            remove,
            false,
        ),
        (on(&["*"], "*", "*", "*", "*"), create, true),
        (on(&["*"], "apps", "v1", "configmaps", "*"), create, false),
        (on(&["*"], "", "v2", "configmaps", "*"), create, false),
        (on(&["*"], "", "v1", "secrets", "*"), create, false),
        (on(&["*"], "", "v1", "*", "Namespaced"), create, true),
        (on(&["*"], "", "v1", "*", "Cluster"), create, false),
        (
            on(&["*"], "", "v1", "namespaces", "Cluster"),
            namespace,
            true,
        ),
        (
            on(&["*"], "apps", "v1", "deployments", "*"),
            of_status,
            false,
        ),
        (on(&["*"], "apps", "v1", "*", "*"), of_status, false),
        (
            on(&["*"], "apps", "v1", "deployments/status", "*"),
            of_status,
            true,
        ),
        (on(&["*"], "apps", "v1", "*/*", "*"), of_status, true),
        (on(&["*"], "apps", "v1", "*/scale", "*"), scale, true),
        (on(&["*"], "apps", "v1", "deployments/*", "*"), scale, true),
        (
            with(
                on(&["*"], "autoscaling", "v2", "*", "*"),
                &json!({"matchPolicy": "Exact"}),
            ),
            scaler,
            false,
        ),
        (on(&["*"], "autoscaling", "v2", "*", "*"), scaler, true),
        (maps(json!({"objectSelector": team})), create, true),
        (maps(json!({"objectSelector": other})), create, false),
        (maps(json!({"objectSelector": team})), update, false),
        (maps(json!({"namespaceSelector": own})), create, true),
        (maps(json!({"namespaceSelector": team})), create, false),
        (
            with(
                on(&["*"], "", "v1", "namespaces", "*"),
                &json!({"namespaceSelector": team}),
            ),
            namespace,
            true,
        ),
        (
            with(
                on(&["*"], "", "v1", "namespaces", "*"),
                &json!({"namespaceSelector": other}),
            ),
            namespace,
            false,
        ),
        (
            maps(condition("object.metadata.name == 'labelled'")),
            create,
            true,
        ),
        (
            maps(condition("object.metadata.name == 'other'")),
            create,
            false,
        ),
        (
            maps(condition(
                "request.operation == 'DELETE' && oldObject.data.k == 'v' && object == null",
            )),
            remove,
            true,
        ),
        (
            maps(condition(
                "request.userInfo.username == 'berth:admin' && request.namespace == 'default'",
            )),
            create,
            true,
        ),
        (
            maps(condition(
                "oldObject != null && oldObject.data.k != object.data.k",
            )),
            update,
            true,
        ),
        (
            with(
                maps(condition("object.absent")),
                &json!({"failurePolicy": "Ignore"}),
            ),
            create,
            false,
        ),
    ] {
        for kind in ["Mutating", "Validating"] {
            let of = webhook("w", server.client_config("/"), json!([]));
            register(&h, kind, "c", json!([with(of, &fields)])).await;
            let trial = format!("{path}?dryRun=All");
            let (code, response) = send(&h, method, &trial, body).await;
            assert!(code < 300, "{fields} {method} {path}: {response}");
            assert_eq!(
                !server.take_requests().is_empty(),
                called,
                "{kind} {fields} {method} {path}"
            );
            ok(&h, "DELETE", &format!("{}/c", plural(kind)), Value::Null).await;
        }
    }
    let failing = with(
        webhook("w", server.client_config("/"), rule("", "v1", "configmaps")),
        &condition("object.absent"),
    );
    register(&h, "Validating", "c", json!([failing])).await;
    let (code, response) = send(&h, "POST", MAPS, &labelled).await;
    assert_eq!(
        (code, &response["reason"]),
        (403, &json!("Forbidden")),
        "{response}"
    );
}
