//! A test of a scheduler that has no right to read templates, which the plugin Coscheduling needs.

use std::path::Path;

use berth_component_base::kube_client;
use berth_component_base::user_agent::Component;
use k8s_openapi::api::core::v1::Event;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::Client;
use kube::api::{Api, ListParams, PostParams};
use serde_json::{Value, json};

use crate::scene::{Scene, binding, configuration};

const ACCOUNT: &str = "system:serviceaccount:karmada-system:berth-scheduler";

/// Creates the ClusterRoles and ClusterRoleBindings of a manifest in `deploy/scheduler`.
async fn grant(client: &Client, manifest: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../deploy/scheduler")
        .join(manifest);
    let text = std::fs::read_to_string(file).unwrap();
    for document in text.split("\n---\n") {
        let object: Value = serde_saphyr::from_str(document).unwrap();
        let parameters = PostParams::default();
        match object["kind"].as_str().unwrap() {
            "ClusterRole" => {
                let role: ClusterRole = serde_json::from_value(object).unwrap();
                let api = Api::all(client.clone());
                api.create(&parameters, &role).await.unwrap();
            }
            "ClusterRoleBinding" => {
                let binding: ClusterRoleBinding = serde_json::from_value(object).unwrap();
                let api = Api::all(client.clone());
                api.create(&parameters, &binding).await.unwrap();
            }
            _ => {}
        }
    }
}

/// Returns a client that impersonates the ServiceAccount of the scheduler.
async fn client_of_account(scene: &Scene) -> Client {
    let target = kube_client::Target {
        kubeconfig: Some(scene.bare.kubeconfig()),
        ..kube_client::Target::default()
    };
    let mut config = kube_client::config(&target).await.unwrap();
    config.auth_info.impersonate = Some(ACCOUNT.to_owned());
    kube_client::client(config, Component::Scheduler).unwrap()
}

/// Checks that the condition and the event name the missing right and the manifest that grants it, and that the
/// bindings are placed once the right is granted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_right_to_read_templates_is_reported_with_its_remedy() {
    let mut scene = Scene::with_cores(10).await;
    grant(&scene.bare.client, "rbac.yaml").await;
    let client = client_of_account(&scene).await;
    scene.start_scheduler_with(client, &configuration("gangs"));
    scene.create_template("web", json!({}), json!({})).await;
    scene.bare.bind(&binding("web", 1, json!({}))).await;
    let message = "plugin \"Coscheduling\" refuses the binding at PreEnqueue: its template cannot be read: the scheduler may not list deployments.apps: grant it as deploy/scheduler/optional/templates.yaml does";
    scene.wait_until_unplaced("web", message).await;
    // A later binding gets the same message. The scheduler records one event for each binding.
    scene.bare.bind(&binding("later", 1, json!({}))).await;
    scene.wait_until_unplaced("later", message).await;
    for name in ["web", "later"] {
        scene
            .wait_for_event(name, "ScheduleBindingFailed", message)
            .await;
        let events: Api<Event> = Api::namespaced(scene.bare.client.clone(), "default");
        let all = events.list(&ListParams::default()).await.unwrap().items;
        let about = all.iter().filter(|event| {
            let object = &event.involved_object;
            object.name.as_deref() == Some(name)
                && object.kind.as_deref() == Some("ResourceBinding")
        });
        assert_eq!(about.count(), 1, "{all:?}");
    }
    grant(&scene.bare.client, "optional/templates.yaml").await;
    scene.wait_until_placed("web").await;
    scene.create_template("later", json!({}), json!({})).await;
    scene.wait_until_placed("later").await;
    scene.stop().await;
}
