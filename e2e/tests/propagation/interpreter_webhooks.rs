//! Tests of an interpreter webhook with all controllers. The webhook determines the replicas and requirements in the
//! binding, the divided replicas, retained fields and dependencies in the members, and the health and aggregated
//! status. A failing webhook affects only its own kind.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use berth_api::binding::ResourceHealth;
use berth_e2e::Objects as _;
use berth_e2e::events::{self, Wanted};
use berth_e2e::objects::wait_for;
use berth_test_servers::{Mode, WebhookResponse, WebhookServer};
use kube::api::Api;
use serde_json::{Value, json};

use crate::fleet::{Fleet, NAMESPACE};
use crate::interpreter::{ROLLOUT, fleet_with};
use crate::manifests::{config_map, divided, policy};

fn rollout() -> Value {
    json!({ "apiVersion": "example.com/v1", "kind": "Rollout", "metadata": { "name": "web" },
        "spec": { "size": 3, "settings": "settings", "cpu": "100m" } })
}

/// Returns the webhook's response to a request about a Rollout.
fn interpret(request: &Value) -> Value {
    let object = &request["object"];
    let patched = |patch: Value| {
        json!({ "successful": true, "patchType": "JSONPatch",
            "patch": STANDARD.encode(patch.to_string()) })
    };
    let set = |path: &str, value: &Value| json!([{ "op": "add", "path": path, "value": value }]);
    match request["operation"].as_str().unwrap() {
        "InterpretReplica" => json!({ "successful": true, "replicas": object["spec"]["size"],
            "replicaRequirements": { "resourceRequest": { "cpu": object["spec"]["cpu"] } } }),
        "ReviseReplica" => patched(set("/spec/size", &request["replicas"])),
        "Retain" => match request.pointer("/observedObject/spec/revision") {
            Some(revision) => patched(set("/spec/revision", revision)),
            None => json!({ "successful": true }),
        },
        "InterpretStatus" => json!({ "successful": true,
            "rawStatus": { "ready": object["status"]["ready"].as_i64().unwrap_or(0) } }),
        "AggregateStatus" => {
            let items = request["aggregatedStatus"].as_array().into_iter().flatten();
            let ready: i64 = items
                .filter_map(|item| item["status"]["ready"].as_i64())
                .sum();
            patched(set("/status", &json!({ "ready": ready })))
        }
        "InterpretHealth" => json!({ "successful": true,
            "healthy": object["status"]["ready"] == object["spec"]["size"] }),
        "InterpretDependency" => json!({ "successful": true, "dependencies": [{
            "apiVersion": "v1", "kind": "ConfigMap", "namespace": object["metadata"]["namespace"],
            "name": object["spec"]["settings"] }] }),
        other => json!({ "successful": false,
            "status": { "code": 400, "message": format!("unknown operation {other}") } }),
    }
}

/// Starts a webhook server that interprets Rollouts.
async fn start_webhook() -> WebhookServer {
    WebhookServer::start(|_, request| WebhookResponse::Review(interpret(request))).await
}

fn configuration(client_config: Value) -> Value {
    json!({ "apiVersion": "config.karmada.io/v1alpha1",
        "kind": "ResourceInterpreterWebhookConfiguration", "metadata": { "name": "rollouts" },
        "webhooks": [{ "name": "rollouts.example.com", "clientConfig": client_config,
            "rules": [{ "operations": ["*"], "apiGroups": ["example.com"], "apiVersions": ["*"],
                "kinds": ["Rollout"] }],
            "timeoutSeconds": 1, "interpreterContextVersions": ["v1alpha1"] }] })
}

/// Waits for an event in the tests' namespace with this reason. Its message must contain `part`.
async fn wait_for_event(fleet: &Fleet, reason: &str, part: &str) {
    let wanted = Wanted {
        reason,
        text: part,
        ..Wanted::default()
    };
    events::wait_for(&fleet.client, NAMESPACE, wanted).await;
}

async fn wait_for_replicas(fleet: &Fleet) {
    wait_for(&fleet.bindings(), "web-rollout", "replicas", |binding| {
        binding.spec.replicas == 3
    })
    .await;
}

/// All operations of the webhook take effect, from the replicas in the binding to the aggregated status.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_webhook_interprets_a_custom_workload() {
    let fleet = fleet_with(ROLLOUT, 2).await;
    let server = start_webhook().await;
    fleet
        .apply(configuration(server.client_config("/interpret")))
        .await;
    fleet.apply(config_map("settings")).await;
    fleet.apply(rollout()).await;
    let mut policy = divided(&rollout(), &[("m1", 2), ("m2", 1)]);
    policy["spec"]["propagateDeps"] = json!(true);
    fleet.apply(policy).await;
    let (first, second) = (&fleet.members[0], &fleet.members[1]);
    for (member, size) in [(first, 2), (second, 1)] {
        let is_revised = |found: &Value| found["spec"]["size"] == size;
        member.wait_for(&rollout(), "its size", is_revised).await;
        member.wait_until_exists(&config_map("settings")).await;
    }
    wait_for_replicas(&fleet).await;
    let binding = fleet.bindings().get("web-rollout").await.unwrap();
    let requirements = binding.spec.replica_requirements.unwrap();
    assert_eq!(requirements.resource_request["cpu"].0, "100m");

    // A field that a user sets in the member is retained when the template changes.
    let revision = json!({ "spec": { "revision": "r1" } });
    first.edit(&rollout(), revision).await;
    let image = json!({ "spec": { "image": "new" } });
    fleet.edit(&rollout(), image).await;
    let has_image = |found: &Value| found["spec"]["image"] == "new";
    first.wait_for(&rollout(), "the image", has_image).await;
    let kept = first.get(&rollout()).await.unwrap();
    assert_eq!(kept["spec"]["revision"], "r1");

    for (member, ready) in [(first, 2), (second, 0)] {
        let status = json!({ "ready": ready, "noise": "x" });
        member.report_status(&rollout(), status).await;
    }
    let healths = |binding: &berth_api::ResourceBinding| -> Vec<Option<ResourceHealth>> {
        let status = binding.status.clone().unwrap_or_default();
        let items = status.aggregated_status.into_iter();
        items.map(|item| item.health).collect()
    };
    let expected = [ResourceHealth::Healthy, ResourceHealth::Unhealthy].map(Some);
    wait_for(&fleet.bindings(), "web-rollout", "its health", |binding| {
        healths(binding) == expected
    })
    .await;
    second
        .report_status(&rollout(), json!({ "ready": 1 }))
        .await;
    let is_sum = |found: &Value| found["status"] == json!({ "ready": 3 });
    fleet.wait_for(&rollout(), "the sum", is_sum).await;
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unreachable_webhook_is_called_again_and_other_kinds_do_not_wait() {
    let fleet = fleet_with(ROLLOUT, 1).await;
    let server = start_webhook().await;
    server.set_mode(Mode::Down);
    fleet
        .apply(configuration(server.client_config("/interpret")))
        .await;
    fleet.apply(rollout()).await;
    fleet.apply(divided(&rollout(), &[("m1", 1)])).await;
    let part = "failed calling webhook \"rollouts/rollouts.example.com\"";
    wait_for_event(&fleet, "GetReplicasFailed", part).await;
    let other = config_map("other");
    fleet.apply(other.clone()).await;
    fleet.apply(policy(&other, &["m1"])).await;
    fleet.members[0].wait_until_exists(&other).await;
    assert_eq!(server.take_requests(), []);
    assert_eq!(fleet.members[0].get(&rollout()).await, None);
    server.set_mode(Mode::Up);
    fleet.members[0].wait_until_exists(&rollout()).await;
    wait_for_replicas(&fleet).await;
    fleet.stop().await;
}

/// The `caBundle` of the configuration must match the certificate of the webhook.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_webhook_with_a_foreign_certificate_gets_no_request() {
    let fleet = fleet_with(ROLLOUT, 1).await;
    let server = start_webhook().await;
    let other = start_webhook().await;
    let mut client_config = server.client_config("/interpret");
    client_config["caBundle"] = other.client_config("/interpret")["caBundle"].clone();
    fleet.apply(configuration(client_config)).await;
    fleet.apply(rollout()).await;
    fleet.apply(divided(&rollout(), &[("m1", 1)])).await;
    wait_for_event(&fleet, "GetReplicasFailed", "invalid peer certificate").await;
    assert_eq!(server.take_requests(), []);
    // The corrected `caBundle` is used at once.
    fleet
        .apply(configuration(server.client_config("/interpret")))
        .await;
    wait_for_replicas(&fleet).await;
    fleet.stop().await;
}

/// The webhook does not respond. An event reports the timeout, and the next call is delayed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_ends_after_its_time_limit() {
    let fleet = fleet_with(ROLLOUT, 1).await;
    let server = start_webhook().await;
    server.set_mode(Mode::Silent);
    fleet
        .apply(configuration(server.client_config("/interpret")))
        .await;
    fleet.apply(rollout()).await;
    fleet.apply(divided(&rollout(), &[("m1", 1)])).await;
    wait_for_event(&fleet, "GetReplicasFailed", "?timeout=1s").await;
    // After a call without a response, the webhook is not called for some time.
    wait_for_event(&fleet, "GetReplicasFailed", "it is called again in").await;
    let other = config_map("other");
    fleet.apply(other.clone()).await;
    fleet.apply(policy(&other, &["m1"])).await;
    fleet.members[0].wait_until_exists(&other).await;
    // A webhook with a changed configuration is called at once.
    server.set_mode(Mode::Up);
    let mut changed = configuration(server.client_config("/interpret"));
    changed["webhooks"][0]["timeoutSeconds"] = json!(5);
    fleet.apply(changed).await;
    wait_for_replicas(&fleet).await;
    fleet.stop().await;
}

/// The configuration refers to a Service instead of a URL.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_webhook_may_be_behind_a_service() {
    let fleet = fleet_with(ROLLOUT, 1).await;
    let server = start_webhook().await;
    let port = server.port;
    fleet
        .apply(
            json!({ "apiVersion": "v1", "kind": "Service", "metadata": { "name": "hook" },
            "spec": { "type": "ExternalName", "externalName": "localhost" } }),
        )
        .await;
    let client_config = json!({ "caBundle": server.client_config("/interpret")["caBundle"],
        "service": { "namespace": NAMESPACE, "name": "hook", "port": port, "path": "/interpret" } });
    fleet.apply(configuration(client_config)).await;
    fleet.apply(rollout()).await;
    fleet.apply(divided(&rollout(), &[("m1", 1)])).await;
    wait_for_replicas(&fleet).await;
    fleet.stop().await;
}

/// The URL of a webhook must have the scheme `https`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invalid_configurations_are_refused() {
    let fleet = Fleet::without_clusters(0).await;
    let configurations: Api<berth_api::ResourceInterpreterWebhookConfiguration> =
        Api::all(fleet.client.clone());
    let invalid = configuration(json!({ "url": "http://127.0.0.1" }));
    let invalid = serde_json::from_value(invalid).unwrap();
    let params = kube::api::PostParams::default();
    let created = configurations.create(&params, &invalid).await;
    let error = created.unwrap_err().to_string();
    assert!(error.contains("webhooks[0].clientConfig.url"), "{error}");
    fleet.stop().await;
}
