//! A test of the contents of the AdmissionReview that a webhook receives.

use std::time::Duration;

use serde_json::{Value, json};

use super::{DEPLOYMENTS, MAPS, deployment, map, ok, register, webhook, with};
use crate::harness::{Harness, TIMEOUT};
use berth_test_servers::{WebhookServer, allowed};

#[tokio::test]
async fn a_review_describes_the_request_and_its_objects() {
    let h = Harness::start().await;
    let server = WebhookServer::start(|_, _| allowed()).await;
    let rules = json!([{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"]}]);
    let only =
        json!({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "default"}}});
    let of = with(webhook("w", server.client_config("/"), rules), &only);
    register(&h, "Mutating", "c", json!([of])).await;
    let one = || {
        let mut seen = server.take_requests();
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
    // The first request is the delete. The second request is the removal of the finalizer, because the object has no
    // dependents.
    let until = tokio::time::Instant::now() + TIMEOUT;
    let mut seen = server.take_requests();
    while seen.len() < 2 {
        assert!(tokio::time::Instant::now() < until, "{seen:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
        seen.extend(server.take_requests());
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
}
