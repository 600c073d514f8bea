//! What a scheduler that reads templates does without the right to.

use std::path::Path;

use berth_api::component::Component;
use berth_scheduler::connect;
use k8s_openapi::api::core::v1::Event;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::Client;
use kube::api::{Api, ListParams, PostParams};
use serde_json::{Value, json};

use crate::scene::{Scene, binding, configuration};

const ACCOUNT: &str = "system:serviceaccount:karmada-system:berth-scheduler";

/// Grants what a manifest grants in all namespaces.
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
                let given: ClusterRoleBinding = serde_json::from_value(object).unwrap();
                let api = Api::all(client.clone());
                api.create(&parameters, &given).await.unwrap();
            }
            _ => {}
        }
    }
}

/// A client with the rights of the account of the manifests.
async fn client_of_the_account(scene: &Scene) -> Client {
    let target = connect::Target {
        kubeconfig: Some(scene.bare.kubeconfig()),
        ..connect::Target::default()
    };
    let mut config = connect::config(&target).await.unwrap();
    config.auth_info.impersonate = Some(ACCOUNT.to_owned());
    connect::client(config, Component::Scheduler).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_right_to_templates_a_binding_waits_and_says_what_grants_it() {
    let mut scene = Scene::with_cores(10).await;
    grant(&scene.bare.client, "rbac.yaml").await;
    let client = client_of_the_account(&scene).await;
    scene.schedule_with(client, &configuration("gangs"));
    scene.template("web", json!({}), json!({})).await;
    scene.bare.bind(&binding("web", 1, json!({}))).await;
    let said = "plugin \"Coscheduling\" refuses the binding at PreEnqueue: its template cannot be read: the scheduler may not list deployments.apps: grant it as deploy/scheduler/optional/templates.yaml does";
    scene.waits("web", said).await;
    // A binding that comes later is told the same, once, and no other words are found for it.
    scene.bare.bind(&binding("later", 1, json!({}))).await;
    scene.waits("later", said).await;
    for name in ["web", "later"] {
        scene.is_told(name, "ScheduleBindingFailed", said).await;
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
    scene.is_placed("web").await;
    scene.template("later", json!({}), json!({})).await;
    scene.is_placed("later").await;
    scene.stop().await;
}
