//! What an application takes along when it leaves a cluster: on `berth up`, with simulated workloads and failover.

use berth::up::{ControlPlane, UpArgs};
use berth_e2e::eventually;
use berth_scheduler::gates;
use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::ApiResource;
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};

use crate::fleet::NAMESPACE;
use crate::manifests::{deployment, policy, with_spec};

/// The tasks stay, and the labels with them: nobody drains.
const GATES: &str = "StatefulFailoverInjection=true,GracefulEviction=false";

async fn create(client: &Client, manifest: Value) {
    let object: DynamicObject = serde_json::from_value(manifest).unwrap();
    let types = object.types.clone().unwrap();
    let resource = ApiResource::from_gvk(&types.try_into().unwrap());
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), NAMESPACE, &resource);
    api.create(&PostParams::default(), &object).await.unwrap();
}

/// Waits until the Deployment is in one of the members, and on none of the others; where it is.
async fn settled(plane: &ControlPlane, wanted: impl Fn(&str, &Deployment) -> bool) -> String {
    eventually("the deployment to settle", async || {
        let mut there = Vec::new();
        for member in plane.members() {
            let api: Api<Deployment> = Api::namespaced(member.server().client(), NAMESPACE);
            if let Some(found) = api.get_opt("web").await.unwrap() {
                there.push((member.name().to_owned(), found));
            }
        }
        match &there[..] {
            [(name, found)] if wanted(name, found) => Ok(name.clone()),
            _ => Err(format!("{there:?}")),
        }
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_state_that_a_policy_names_comes_along_as_labels() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let arguments = UpArgs {
        port: 0,
        members: 2,
        feature_gates: gates::parse(GATES).unwrap(),
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
    let old = settled(&plane, |_, _| true).await;
    let templates: Api<Deployment> = Api::namespaced(client.clone(), NAMESPACE);
    eventually("the status to come back", async || {
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
    settled(&plane, |name, found| {
        let brought = found.labels().get("replicas-before");
        name != old && brought.map(String::as_str) == Some("2")
    })
    .await;
    plane.stop().await;
}
