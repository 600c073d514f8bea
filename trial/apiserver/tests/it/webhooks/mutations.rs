//! A test of the order and the effect of mutating webhooks.

use serde_json::{Value, json};

use super::{APPLY, DEPLOYMENTS, deployment, register, rule, webhook, with};
use crate::harness::Harness;
use berth_test_servers::{WebhookServer, allowed, patched};

#[tokio::test]
async fn mutating_webhooks_run_in_order_and_before_validating_webhooks() {
    let h = Harness::start().await;
    let server = WebhookServer::start(|path, request| match path {
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
    let first = webhook("first", server.client_config("/first"), rules());
    register(
        &h,
        "Mutating",
        "b",
        json!([with(
            webhook("l", server.client_config("/label"), rules()),
            &again
        )]),
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
                &json!({"name": "never.example.com", "clientConfig": server.client_config("/never")})
            )
        ]),
    )
    .await;
    register(
        &h,
        "Mutating",
        "c",
        json!([webhook("s", server.client_config("/sidecar"), rules())]),
    )
    .await;
    register(
        &h,
        "Validating",
        "a",
        json!([webhook("v", server.client_config("/validate"), rules())]),
    )
    .await;
    let apply = async |image: &str| {
        let mut wanted = deployment("d");
        wanted["spec"]["template"]["spec"]["containers"][0]["image"] = json!(image);
        let path = format!("{DEPLOYMENTS}/d?fieldManager=me");
        let (code, response) = h
            .raw("PATCH", &path, APPLY, wanted.to_string().into_bytes())
            .await;
        assert!(code < 300, "{response}");
        response
    };
    let made = apply("i").await;
    let seen = server.take_requests();
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
    // The server sets the defaults of the added container and removes its unknown field.
    assert_eq!(
        containers[1]["terminationMessagePath"],
        "/dev/termination-log"
    );
    assert_eq!(containers[1]["unknown"], Value::Null);
    assert_eq!(validated["spec"], made["spec"]);
    assert_eq!(made["metadata"]["labels"], json!({"hook": "1"}));
    // Fields that a webhook sets have no manager. Therefore, applying the same object again changes nothing.
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
