//! Tests of each kind of overrider in an override policy except `plaintext`.

use berth_e2e::Objects as _;
use berth_e2e::events::{self, Wanted};
use serde_json::{Value, json};

use crate::fleet::{Fleet, NAMESPACE};
use crate::manifests::{config_map, deployment, policy};

/// Returns an override policy that changes one object in m1.
fn override_policy(object: &Value, overriders: Value) -> Value {
    let kind = object["kind"].as_str().unwrap().to_lowercase();
    json!({ "apiVersion": "policy.karmada.io/v1alpha1", "kind": "OverridePolicy",
        "metadata": { "name": kind },
        "spec": {
            "resourceSelectors": [{ "apiVersion": object["apiVersion"], "kind": object["kind"],
                "name": object["metadata"]["name"] }],
            "overrideRules": [{ "targetCluster": { "clusterNames": ["m1"] }, "overriders": overriders }] } })
}

/// Returns a policy that propagates an object to m1. The name of the policy is the kind of the object.
fn policy_for_m1(object: &Value) -> Value {
    let mut policy = policy(object, &["m1"]);
    policy["metadata"]["name"] = json!(object["kind"].as_str().unwrap().to_lowercase());
    policy
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn overriders_change_labels_commands_and_images_and_skip_missing_keys() {
    let fleet = Fleet::start(1).await;
    let m1 = &fleet.members[0];
    let mut web = deployment("web", 1);
    web["metadata"]["labels"] = json!({ "app": "web", "old": "1", "gone": "1" });
    web["metadata"]["annotations"] = json!({ "old": "1", "gone": "1" });
    let container = &mut web["spec"]["template"]["spec"]["containers"][0];
    container["command"] = json!(["run", "slowly"]);
    container["args"] = json!(["-a"]);
    let entries = json!([
        { "operator": "replace", "value": { "old": "2", "missing": "2" } },
        { "operator": "add", "value": { "new": "2" } },
        { "operator": "remove", "value": { "gone": "1" } },
    ]);
    let part = |component: &str, operator: &str, value: &str| json!({ "component": component, "operator": operator, "value": value });
    fleet
        .apply(override_policy(&web, json!({
            "labelsOverrider": entries, "annotationsOverrider": entries,
            "commandOverrider": [{ "containerName": "main", "operator": "remove", "value": ["slowly"] }],
            "argsOverrider": [{ "containerName": "main", "operator": "add", "value": ["-b"] }],
            "imageOverrider": [part("Registry", "add", "fictional.registry.us"),
                part("Repository", "replace", "busybox"), part("Tag", "replace", "1.0")] })))
        .await;
    fleet.apply(web.clone()).await;
    fleet.apply(policy_for_m1(&web)).await;
    let object = m1.wait_until_exists(&web).await;
    for map in [
        &object["metadata"]["labels"],
        &object["metadata"]["annotations"],
    ] {
        assert_eq!(map["old"], "2");
        assert_eq!(map["new"], "2");
        assert!(map["gone"].is_null() && map["missing"].is_null(), "{map}");
    }
    let container = &object["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["command"], json!(["run"]));
    assert_eq!(container["args"], json!(["-a", "-b"]));
    assert_eq!(container["image"], "fictional.registry.us/busybox:1.0");
    let wanted = Wanted {
        kind: "Deployment",
        reason: "ApplyOverridePolicySucceed",
        ..Wanted::default()
    };
    events::wait_for(&fleet.client, NAMESPACE, wanted).await;
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn image_predicates_select_a_container_and_field_overriders_patch_json() {
    let fleet = Fleet::start(1).await;
    let m1 = &fleet.members[0];
    let pod = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "two" },
        "spec": { "containers": [{ "name": "a", "image": "nginx:1.19.0" }, { "name": "b", "image": "nginx:1.19.0" }] } });
    let mut map = config_map("settings");
    map["data"] = json!({ "db.json": r#"{"hosts":["a","b"],"port":1,"old":true}"# });
    fleet
        .apply(override_policy(&pod, json!({ "imageOverrider": [{ "component": "Registry", "operator": "replace",
            "value": "fictional.registry.us", "predicate": { "path": "/spec/containers/0/image" } }] })))
        .await;
    fleet
        .apply(override_policy(
            &map,
            json!({ "fieldOverrider": [{ "fieldPath": "/data/db.json", "json": [
            { "subPath": "/port", "operator": "replace", "value": 2 },
            { "subPath": "/hosts/-", "operator": "add", "value": "c" },
            { "subPath": "/old", "operator": "remove" }] }] }),
        ))
        .await;
    for object in [&pod, &map] {
        fleet.apply(object.clone()).await;
        fleet.apply(policy_for_m1(object)).await;
    }
    let containers = m1.wait_until_exists(&pod).await["spec"]["containers"].clone();
    assert_eq!(containers[0]["image"], "fictional.registry.us/nginx:1.19.0");
    assert_eq!(containers[1]["image"], "nginx:1.19.0");
    let text = m1.wait_until_exists(&map).await["data"]["db.json"].clone();
    let document: Value = serde_json::from_str(text.as_str().unwrap()).unwrap();
    assert_eq!(document, json!({ "hosts": ["a", "b", "c"], "port": 2 }));
    fleet.stop().await;
}
