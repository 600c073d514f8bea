//! Admission webhooks, called over TLS.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use berth_apiserver::{Limits, ServerConfig};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};

use crate::harness::{Harness, PATIENCE};
use crate::hook::{Answer, Hook, allowed, patched};

const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

async fn send(h: &Harness, method: &str, path: &str, body: &Value) -> (u16, Value) {
    let kind = if method == "PATCH" { MERGE } else { JSON };
    let bytes = if body.is_null() {
        Vec::new()
    } else {
        body.to_string().into_bytes()
    };
    h.raw(method, path, kind, bytes).await
}

async fn ok(h: &Harness, method: &str, path: &str, body: Value) -> Value {
    let (code, answer) = send(h, method, path, &body).await;
    assert!(code < 300, "{method} {path}: {answer}");
    answer
}

/// A rule for a resource, for all operations.
fn rule(group: &str, version: &str, resource: &str) -> Value {
    json!([{"operations": ["*"], "apiGroups": [group], "apiVersions": [version], "resources": [resource]}])
}

fn webhook(name: &str, client: Value, rules: Value) -> Value {
    json!({
        "name": format!("{name}.example.com"), "clientConfig": client, "rules": rules,
        "sideEffects": "None", "admissionReviewVersions": ["v1"],
    })
}

fn with(mut webhook: Value, fields: &Value) -> Value {
    for (name, value) in fields.as_object().unwrap() {
        webhook[name] = value.clone();
    }
    webhook
}

fn plural(kind: &str) -> String {
    format!("{GROUP}/{}webhookconfigurations", kind.to_lowercase())
}

/// Registers webhooks under a name; those that were there before go.
async fn register(h: &Harness, kind: &str, name: &str, webhooks: Value) {
    let path = plural(kind);
    send(h, "DELETE", &format!("{path}/{name}"), &Value::Null).await;
    let configuration = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": format!("{kind}WebhookConfiguration"),
        "metadata": {"name": name}, "webhooks": webhooks,
    });
    ok(h, "POST", &path, configuration).await;
}

fn map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"k": "v"}})
}

fn deployment(name: &str) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": {
        "replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]}}}})
}

#[tokio::test]
async fn configurations_are_defaulted_and_checked() {
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
            json!({"rules": [{"operations": ["*"], "apiGroups": ["*", "apps"], "apiVersions": ["v1"], "resources": ["pods"]}]}),
            "webhooks[0].rules[0].apiGroups",
        ),
        (
            json!({"rules": [{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["v1"], "resources": ["*", "pods"]}]}),
            "webhooks[0].rules[0].resources",
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
    assert_eq!(code, 422, "a replacement without a version");
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
async fn webhooks_are_called_for_what_their_rules_and_selectors_name() {
    let h = Harness::start().await;
    let hook = Hook::start(|_, _| allowed()).await;
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
            let of = webhook("w", hook.at("/"), json!([]));
            register(&h, kind, "c", json!([with(of, &fields)])).await;
            let trial = format!("{path}?dryRun=All");
            let (code, answer) = send(&h, method, &trial, body).await;
            assert!(code < 300, "{fields} {method} {path}: {answer}");
            assert_eq!(
                !hook.take().is_empty(),
                called,
                "{kind} {fields} {method} {path}"
            );
            ok(&h, "DELETE", &format!("{}/c", plural(kind)), Value::Null).await;
        }
    }
    let failing = with(
        webhook("w", hook.at("/"), rule("", "v1", "configmaps")),
        &condition("object.absent"),
    );
    register(&h, "Validating", "c", json!([failing])).await;
    let (code, answer) = send(&h, "POST", MAPS, &labelled).await;
    assert_eq!(
        (code, &answer["reason"]),
        (403, &json!("Forbidden")),
        "{answer}"
    );
}

#[tokio::test]
async fn a_review_says_what_is_done_to_which_object() {
    let h = Harness::start().await;
    let hook = Hook::start(|_, _| allowed()).await;
    let rules = json!([{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"]}]);
    let only =
        json!({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "default"}}});
    let of = with(webhook("w", hook.at("/"), rules), &only);
    register(&h, "Mutating", "c", json!([of])).await;
    let one = || {
        let mut seen = hook.take();
        assert_eq!(seen.len(), 1, "{seen:?}");
        seen.remove(0).1
    };
    ok(
        &h,
        "POST",
        &format!("{MAPS}?fieldManager=me&dryRun=All"),
        map("a"),
    )
    .await;
    let review = one();
    let core = |kind: &str| json!({"group": "", "version": "v1", "kind": kind});
    for (field, expected) in [
        ("operation", json!("CREATE")),
        ("kind", core("ConfigMap")),
        (
            "resource",
            json!({"group": "", "version": "v1", "resource": "configmaps"}),
        ),
        ("requestKind", core("ConfigMap")),
        ("name", json!("a")),
        ("namespace", json!("default")),
        ("dryRun", json!(true)),
        ("oldObject", Value::Null),
        (
            "options",
            json!({"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1", "fieldManager": "me", "dryRun": ["All"]}),
        ),
    ] {
        assert_eq!(review[field], expected, "{field}");
    }
    assert_eq!(review["userInfo"]["username"], "berth:admin");
    assert_eq!(review["object"]["metadata"]["uid"], Value::Null);
    assert_eq!(review["object"]["data"], json!({"k": "v"}));
    let mut generated = map("");
    generated["metadata"] = json!({"generateName": "g-"});
    let made = ok(&h, "POST", MAPS, generated).await;
    let review = one();
    assert_eq!(
        (&review["name"], &review["object"]["metadata"]["name"]),
        (&Value::Null, &Value::Null)
    );
    let name = made["metadata"]["name"].as_str().unwrap();
    assert!(name.starts_with("g-"));
    ok(
        &h,
        "PATCH",
        &format!("{MAPS}/{name}"),
        json!({"data": {"k": "w"}}),
    )
    .await;
    let review = one();
    assert_eq!(
        (&review["operation"], &review["name"]),
        (&json!("UPDATE"), &json!(name))
    );
    assert_eq!(
        (
            &review["object"]["data"]["k"],
            &review["oldObject"]["data"]["k"]
        ),
        (&json!("w"), &json!("v"))
    );
    assert_eq!(review["options"]["kind"], "UpdateOptions");
    ok(
        &h,
        "DELETE",
        &format!("{MAPS}/{name}"),
        json!({"propagationPolicy": "Foreground"}),
    )
    .await;
    // It waits for its dependents, of which there are none: its finalizer is taken away.
    let until = tokio::time::Instant::now() + PATIENCE;
    let mut seen = hook.take();
    while seen.len() < 2 {
        assert!(tokio::time::Instant::now() < until, "{seen:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
        seen.extend(hook.take());
    }
    let review = &seen[0].1;
    assert_eq!(
        (&review["operation"], &review["object"]),
        (&json!("DELETE"), &Value::Null)
    );
    assert_eq!(review["oldObject"]["metadata"]["name"], name);
    assert_eq!(review["options"]["propagationPolicy"], "Foreground");
    ok(&h, "POST", DEPLOYMENTS, deployment("d")).await;
    one();
    let scale = format!("{DEPLOYMENTS}/d/scale");
    ok(&h, "PATCH", &scale, json!({"spec": {"replicas": 2}})).await;
    let review = one();
    assert_eq!(
        review["kind"],
        json!({"group": "autoscaling", "version": "v1", "kind": "Scale"})
    );
    assert_eq!(
        (&review["subResource"], &review["resource"]["resource"]),
        (&json!("scale"), &json!("deployments"))
    );
    assert_eq!(
        (
            &review["object"]["spec"]["replicas"],
            &review["oldObject"]["spec"]["replicas"]
        ),
        (&json!(2), &json!(1))
    );
    let pods = "/api/v1/namespaces/default/pods";
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    ok(&h, "POST", pods, pod).await;
    one();
    let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}});
    ok(&h, "POST", &format!("{pods}/p/binding"), binding).await;
    let review = one();
    assert_eq!(
        (
            &review["operation"],
            &review["subResource"],
            &review["kind"]
        ),
        (&json!("CREATE"), &json!("binding"), &core("Binding"))
    );
    send(
        &h,
        "POST",
        &format!("{pods}/p/exec?command=ls&command=-l&stdout=1"),
        &Value::Null,
    )
    .await;
    let review = one();
    assert_eq!(
        (&review["operation"], &review["kind"]),
        (&json!("CONNECT"), &core("PodExecOptions"))
    );
    assert_eq!(
        (&review["object"]["command"], &review["options"]),
        (&json!(["ls", "-l"]), &Value::Null)
    );
    let eviction =
        json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}});
    ok(&h, "POST", &format!("{pods}/p/eviction"), eviction).await;
    // The pod goes without a review of its own.
    let review = one();
    assert_eq!(
        (&review["operation"], &review["resource"]["resource"]),
        (&json!("CREATE"), &json!("pods"))
    );
    assert_eq!(
        review["kind"],
        json!({"group": "policy", "version": "v1", "kind": "Eviction"})
    );
    let token = "/api/v1/namespaces/default/serviceaccounts/default/token";
    ok(
        &h,
        "POST",
        token,
        json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}),
    )
    .await;
    assert_eq!(one()["subResource"], "token");
}

#[tokio::test]
async fn answers_decide_and_failures_are_up_to_the_policy() {
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
    // Client, phase, then code and part of the message with Fail, and whether Ignore lets it pass.
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
                    let said = answer["message"].as_str().unwrap_or_default();
                    assert!(said.contains(message), "{about}");
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

#[tokio::test]
async fn mutations_come_in_order_are_defaulted_and_seen_by_those_who_validate() {
    let h = Harness::start().await;
    let hook = Hook::start(|path, request| match path {
        "/sidecar" => {
            let containers = request["object"]["spec"]["template"]["spec"]["containers"].as_array();
            if containers.unwrap().len() > 1 {
                return allowed();
            }
            let sidecar = json!({"name": "side", "image": "s", "unknown": 1});
            patched(&json!([{"op": "add", "path": "/spec/template/spec/containers/-", "value": sidecar}]))
        }
        "/label" => patched(&json!([{"op": "add", "path": "/metadata/labels", "value": {"hook": "1"}}])),
        _ => allowed(),
    })
    .await;
    let rules = || rule("apps", "v1", "deployments");
    let again = json!({"reinvocationPolicy": "IfNeeded"});
    let first = webhook("first", hook.at("/first"), rules());
    register(
        &h,
        "Mutating",
        "b",
        json!([with(webhook("l", hook.at("/label"), rules()), &again)]),
    )
    .await;
    register(
        &h,
        "Mutating",
        "a",
        json!([
            with(first.clone(), &again),
            with(
                first.clone(),
                &json!({"name": "never.example.com", "clientConfig": hook.at("/never")})
            )
        ]),
    )
    .await;
    register(
        &h,
        "Mutating",
        "c",
        json!([webhook("s", hook.at("/sidecar"), rules())]),
    )
    .await;
    register(
        &h,
        "Validating",
        "a",
        json!([webhook("v", hook.at("/validate"), rules())]),
    )
    .await;
    let apply = async |image: &str| {
        let mut wanted = deployment("d");
        wanted["spec"]["template"]["spec"]["containers"][0]["image"] = json!(image);
        let path = format!("{DEPLOYMENTS}/d?fieldManager=me");
        let (code, answer) = h
            .raw("PATCH", &path, APPLY, wanted.to_string().into_bytes())
            .await;
        assert!(code < 300, "{answer}");
        answer
    };
    let made = apply("i").await;
    let seen = hook.take();
    let paths: Vec<&str> = seen.iter().map(|(path, _)| path.as_str()).collect();
    assert_eq!(
        paths,
        [
            "/first",
            "/never",
            "/label",
            "/sidecar",
            "/first",
            "/label",
            "/validate"
        ]
    );
    let validated = &seen[6].1["object"];
    let containers = made["spec"]["template"]["spec"]["containers"]
        .as_array()
        .unwrap();
    assert_eq!(containers.len(), 2);
    // The default of the field, and no field that containers do not have.
    assert_eq!(
        containers[1]["terminationMessagePath"],
        "/dev/termination-log"
    );
    assert_eq!(containers[1]["unknown"], Value::Null);
    assert_eq!(validated["spec"], made["spec"]);
    assert_eq!(made["metadata"]["labels"], json!({"hook": "1"}));
    // Fields that webhooks add have no manager, so applying the same object again conflicts with nothing and changes nothing.
    let managed = made["metadata"]["managedFields"].to_string();
    assert!(
        !managed.contains("side") && !managed.contains("hook"),
        "{managed}"
    );
    let same = apply("i").await;
    assert_eq!(
        same["metadata"]["resourceVersion"],
        made["metadata"]["resourceVersion"]
    );
    let changed = apply("j").await;
    assert_eq!(
        changed["spec"]["template"]["spec"]["containers"][0]["image"],
        "j"
    );
    assert_eq!(
        changed["spec"]["template"]["spec"]["containers"][1]["name"],
        "side"
    );
    assert_eq!(changed["metadata"]["generation"], 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_webhook_may_write_to_the_server_while_it_is_asked() {
    let h = Harness::start().await;
    let client: Arc<Mutex<Option<kube::Client>>> = Arc::default();
    let (inner, calls) = (client.clone(), Arc::new(Mutex::new(0)));
    let count = calls.clone();
    let hook = Hook::start(move |path, request| {
        *count.lock().unwrap() += 1;
        let calls = *count.lock().unwrap();
        let of = request["name"].as_str().unwrap().to_owned();
        if path == "/always" || calls == 1 {
            let client = inner.lock().unwrap().clone().unwrap();
            // It changes the same object, so that the write that asks comes too late.
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
        let of = webhook("w", hook.at(path), rule("", "v1", "secrets"));
        // Not for what the webhook itself writes.
        let condition = json!({"matchConditions": [{"name": "not-own",
            "expression": "!has(object.metadata.annotations)"}]});
        register(&h, "Validating", "c", json!([with(of, &condition)])).await;
        let (found, answer) = send(&h, "PATCH", &format!("{secrets}/s"), &change(value)).await;
        assert_eq!(
            (found, *calls.lock().unwrap()),
            (code, times),
            "{path}: {answer}"
        );
    }
}

#[tokio::test]
async fn requests_that_wait_for_webhooks_leave_room_for_others() {
    let h = Harness::with(ServerConfig {
        limits: Limits {
            requests: 2,
            ..Limits::default()
        },
        ..ServerConfig::default()
    })
    .await;
    let hook = Hook::start(|_, _| Answer::Silence).await;
    let slow = with(
        webhook("w", hook.at("/"), rule("", "v1", "configmaps")),
        &json!({"timeoutSeconds": 30}),
    );
    register(&h, "Validating", "c", json!([slow])).await;
    // Within the process, where a client does not try again by itself.
    let client = h.server.client();
    let post = |name: &str| {
        let request = http::Request::post(MAPS).header("content-type", JSON);
        let body = kube::client::Body::from(map(name).to_string().into_bytes());
        let (client, request) = (client.clone(), request.body(body).unwrap());
        async move { client.send(request).await.unwrap() }
    };
    let first = tokio::spawn(post("a"));
    let until = tokio::time::Instant::now() + PATIENCE;
    while hook.take().is_empty() {
        assert!(tokio::time::Instant::now() < until);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let second = post("b").await;
    assert_eq!(second.status().as_u16(), 429);
    assert_eq!(second.headers()["retry-after"], "1");
    ok(&h, "GET", MAPS, Value::Null).await;
    assert!(!first.is_finished());
    first.abort();
}

#[tokio::test]
async fn services_are_reached_where_they_are() {
    let h = Harness::start().await;
    let hook = Hook::start(|_, _| allowed()).await;
    let services = "/api/v1/namespaces/default/services";
    let external = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "hook"},
        "spec": {"type": "ExternalName", "externalName": "localhost"}});
    ok(&h, "POST", services, external).await;
    // The url is as Karmada's manifest has it: the name of a Service, which no name server knows.
    let url = format!("https://hook.default.svc:{}/url", hook.port);
    for (client, path) in [
        (
            json!({"service": {"namespace": "default", "name": "hook", "path": "/service", "port": hook.port}}),
            "/service",
        ),
        (json!({"url": url}), "/url"),
    ] {
        let client = with(client, &json!({"caBundle": hook.bundle}));
        register(
            &h,
            "Validating",
            "c",
            json!([webhook("w", client, rule("", "v1", "configmaps"))]),
        )
        .await;
        ok(&h, "POST", &format!("{MAPS}?dryRun=All"), map("a")).await;
        assert_eq!(hook.paths(), [path]);
    }
    let cluster = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "empty"},
        "spec": {"ports": [{"port": 443}]}});
    ok(&h, "POST", services, cluster).await;
    for (port, message) in [
        (443, "no endpoints available for service \"empty\""),
        (444, "no service port 444 found for service \"empty\""),
    ] {
        let client = json!({"service": {"namespace": "default", "name": "empty", "port": port}, "caBundle": hook.bundle});
        register(
            &h,
            "Validating",
            "c",
            json!([webhook("w", client, rule("", "v1", "configmaps"))]),
        )
        .await;
        let (code, answer) = send(&h, "POST", MAPS, &map("a")).await;
        assert_eq!(code, 500);
        assert!(
            answer["message"].as_str().unwrap().contains(message),
            "{answer}"
        );
    }
}

#[tokio::test]
async fn what_a_webhook_holds_goes_with_the_webhook_and_configurations_are_never_held() {
    let h = Harness::start().await;
    let hook = Hook::start(|_, request| match request["operation"].as_str() {
        Some("DELETE") => {
            Answer::Review(json!({"allowed": false, "status": {"message": "it stays"}}))
        }
        _ => allowed(),
    })
    .await;
    let space = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}});
    ok(&h, "POST", "/api/v1/namespaces", space).await;
    ok(&h, "POST", "/api/v1/namespaces/n/configmaps", map("a")).await;
    let everything = json!([{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"]}]);
    let only_maps = json!({"matchConditions": [{"name": "maps", "expression": "request.kind.kind != 'Namespace'"}]});
    let of = with(webhook("w", hook.at("/"), everything), &only_maps);
    register(&h, "Validating", "c", json!([of])).await;
    let (code, answer) = send(
        &h,
        "DELETE",
        "/api/v1/namespaces/n/configmaps",
        &Value::Null,
    )
    .await;
    assert_eq!(code, 400, "{answer}");
    ok(&h, "DELETE", "/api/v1/namespaces/n", Value::Null).await;
    let until = tokio::time::Instant::now() + PATIENCE;
    hook.take();
    // The server asks on its own behalf, too, and again after a while.
    let mut asked = 0;
    while asked < 2 {
        assert!(tokio::time::Instant::now() < until);
        let seen = hook.take();
        asked += seen
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
        assert!(tokio::time::Instant::now() < until, "the namespace stays");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
