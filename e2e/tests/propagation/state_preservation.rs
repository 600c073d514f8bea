//! A test of state preservation at failover, on `berth up` with simulated workloads.

use berth::up::{ControlPlane, UpArgs};
use berth_api::feature_gates;
use berth_e2e::eventually;
use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::ApiResource;
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};

use crate::fleet::NAMESPACE;
use crate::manifests::{deployment, policy, with_spec};

/// Feature gates of the control plane. The controller that removes finished eviction tasks is off. Thus the last task
/// stays, and the binding controller keeps the labels from that task on the Deployment.
const GATES: &str = "StatefulFailoverInjection=true,GracefulEviction=false";

async fn create(client: &Client, manifest: Value) {
    let object: DynamicObject = serde_json::from_value(manifest).unwrap();
    let types = object.types.clone().unwrap();
    let resource = ApiResource::from_gvk(&types.try_into().unwrap());
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), NAMESPACE, &resource);
    api.create(&PostParams::default(), &object).await.unwrap();
}

/// Waits until exactly one member has the Deployment, and `wanted` accepts the member's name and the Deployment.
/// Returns the name of the member.
async fn wait_until_in_one_member(
    plane: &ControlPlane,
    wanted: impl Fn(&str, &Deployment) -> bool,
) -> String {
    eventually("the deployment to be in one member", async || {
        let mut found_in = Vec::new();
        for member in plane.members() {
            let api: Api<Deployment> = Api::namespaced(member.server().client(), NAMESPACE);
            if let Some(found) = api.get_opt("web").await.unwrap() {
                found_in.push((member.name().to_owned(), found));
            }
        }
        match &found_in[..] {
            [(name, found)] if wanted(name, found) => Ok(name.clone()),
            _ => Err(format!("{found_in:?}")),
        }
    })
    .await
}

/// A NoExecute taint moves the Deployment to another cluster. In this cluster, the Deployment has a label with a field
/// of its old status.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn preserved_state_is_injected_as_labels_in_the_new_cluster() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let arguments = UpArgs {
        port: 0,
        members: 2,
        feature_gates: feature_gates::parse(GATES).unwrap(),
        ..UpArgs::default()
    };
    let plane = ControlPlane::start(&arguments).await.unwrap();
    let client = plane.server().client();
    let web = deployment("web", 2);
    let one_cluster = json!({ "placement": {
            "spreadConstraints": [{ "spreadByField": "cluster", "minGroups": 1, "maxGroups": 1 }] },
        "failover": { "cluster": { "purgeMode": "Directly", "statePreservation": { "rules": [
            { "aliasLabelName": "replicas-before", "jsonPath": "{.replicas}" }] } } } });
    create(&client, with_spec(policy(&web, &[]), one_cluster)).await;
    create(&client, web).await;
    let old = wait_until_in_one_member(&plane, |_, _| true).await;
    let templates: Api<Deployment> = Api::namespaced(client.clone(), NAMESPACE);
    eventually("the aggregated status", async || {
        let status = templates.get("web").await.unwrap().status;
        let replicas = status.and_then(|status| status.replicas);
        if replicas == Some(2) {
            Ok(())
        } else {
            Err(format!("{replicas:?}"))
        }
    })
    .await;

    let clusters: Api<berth_api::Cluster> = Api::all(client);
    let taint = json!({ "spec": { "taints": [{ "key": "fail-test", "effect": "NoExecute" }] } });
    clusters
        .patch(&old, &PatchParams::default(), &Patch::Merge(taint))
        .await
        .unwrap();
    wait_until_in_one_member(&plane, |name, found| {
        let preserved = found.labels().get("replicas-before");
        name != old && preserved.map(String::as_str) == Some("2")
    })
    .await;
    plane.stop().await;
}
