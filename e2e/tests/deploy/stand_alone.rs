//! Tests of a stand-alone installation, which needs no component of Karmada. The chart or the overlay `stand-alone`
//! installs the scheduler, the controllers and the webhook, which must propagate a workload with the rights of their
//! ServiceAccounts.

use std::path::Path;

use berth::join::{self, Endpoint};
use berth::up::{DisabledComponent, UpArgs};
use berth_e2e::program::free_port;
use berth_e2e::{Program, eventually};
use berth_test_requirements::needs;
use k8s_openapi::api::apps::v1::Deployment;
use kube::Api;
use serde_json::{Value, json};

use crate::chart::{chart, kustomize, objects};
use crate::component;
use crate::control_plane::ControlPlane;
use crate::rights;

/// Changes the objects so that kube-apiserver reaches the webhook at a local port.
fn lead_webhooks_to(port: u16, objects: &mut [Value]) {
    for object in objects {
        if object["kind"] == "Service" && object["metadata"]["name"] == "karmada-webhook" {
            object["spec"] = json!({ "type": "ExternalName", "externalName": "localhost" });
        }
        for argument in arguments_of(object) {
            if *argument == "--secure-port=8443" {
                *argument = json!(format!("--secure-port={port}"));
            }
        }
        let webhooks = object.get_mut("webhooks").and_then(Value::as_array_mut);
        for webhook in webhooks.into_iter().flatten() {
            webhook["clientConfig"]["service"]["port"] = json!(port);
        }
    }
}

/// Returns the arguments of a Deployment. Returns an empty iterator for an object of another kind.
fn arguments_of(object: &mut Value) -> impl Iterator<Item = &mut Value> {
    let command = object.pointer_mut("/spec/template/spec/containers/0/command");
    command.and_then(Value::as_array_mut).into_iter().flatten()
}

/// Starts the command of a Deployment with a token of its ServiceAccount and the additional arguments `more`.
async fn start(plane: &ControlPlane, name: &str, more: &[&str]) -> Program {
    let path = "jsonpath={.spec.template.spec.serviceAccountName}";
    let resource = format!("deployment/{name}");
    let account = plane.kubectl(&["get", &resource, "-n", "karmada-system", "-o", path]);
    let kubeconfig = plane.kubeconfig_of(&account);
    let flag = format!("--kubeconfig={}", kubeconfig.display());
    let all = [&[flag.as_str()], more].concat();
    component::start(plane, name, Path::new(""), &all).await
}

/// Applies objects from a temporary file with this name.
fn apply(plane: &ControlPlane, name: &str, objects: &[Value]) -> String {
    let file = plane.folder().join(name);
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": objects });
    std::fs::write(&file, list.to_string()).unwrap();
    let file = file.display().to_string();
    plane.kubectl(&["apply", "--server-side", "--validate=strict", "-f", &file])
}

/// Returns a Deployment, and a policy that divides its replicas among the members.
fn workload() -> [Value; 2] {
    [
        json!({ "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": { "name": "web", "namespace": "default" },
            "spec": { "replicas": 4, "selector": { "matchLabels": { "app": "web" } },
                "template": { "metadata": { "labels": { "app": "web" } },
                    "spec": { "containers": [{ "name": "web", "image": "nginx" }] } } } }),
        json!({ "apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
            "metadata": { "name": "web", "namespace": "default" },
            "spec": { "resourceSelectors": [
                    { "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" }],
                "placement": { "replicaScheduling": { "replicaSchedulingType": "Divided",
                    "replicaDivisionPreference": "Weighted" } } } }),
    ]
}

#[needs(apiserver, helm, kubectl)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_chart_propagates_a_deployment_with_the_rights_that_it_grants() {
    let values = json!({ "controlPlane": { "inCluster": true },
        "controllers": { "enabled": true }, "webhook": { "enabled": true } });
    let deployments = ["berth-webhook", "berth-controllers", "berth-scheduler"];
    Box::pin(check_propagation(chart(&values), deployments)).await;
}

#[needs(apiserver, kubectl)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_overlay_propagates_a_deployment_with_the_rights_that_it_grants() {
    let objects = objects(&kustomize("overlays/stand-alone"));
    let deployments = ["karmada-webhook", "berth-controllers", "karmada-scheduler"];
    Box::pin(check_propagation(objects, deployments)).await;
}

/// Applies objects, starts the processes of their Deployments, and checks that the processes propagate a workload to
/// two members.
async fn check_propagation(mut objects: Vec<Value>, deployments: [&str; 3]) {
    let [webhook, controllers, scheduler] = deployments;
    let plane = ControlPlane::start(&[]).await;
    let port = free_port();
    lead_webhooks_to(port, &mut objects);
    apply(&plane, "components.json", &objects);
    let _webhook = start(&plane, webhook, &["--bind-address=127.0.0.1"]).await;
    let _controllers = start(&plane, controllers, &[]).await;

    let fleet = berth::up::ControlPlane::start(&UpArgs {
        port: 0,
        members: 2,
        without: vec![DisabledComponent::Scheduler, DisabledComponent::Controllers],
        ..UpArgs::default()
    })
    .await
    .unwrap();
    for (member, cluster) in fleet.members().iter().zip(berth_up::fleet::generate(2)) {
        let endpoint = Endpoint {
            url: member.server().url(),
            ca_pem: member.server().ca_pem().to_owned(),
        };
        let inside = member.server().client();
        // Retry: kube-apiserver refuses to write a Cluster until the webhook for Clusters has a certificate.
        eventually("the cluster to join", async || {
            join::join(&plane.client, &inside, &endpoint, &cluster).await
        })
        .await;
    }
    let ready = ["--for=condition=Ready", "--timeout=60s", "cluster", "--all"];
    plane.kubectl(&[&["wait"][..], &ready].concat());
    let _scheduler = start(&plane, scheduler, &[]).await;
    apply(&plane, "workload.json", &workload());

    for member in fleet.members() {
        let inside: Api<Deployment> = Api::default_namespaced(member.server().client());
        eventually("the Deployment in a member", async || {
            let found = inside.get("web").await.map_err(|error| error.to_string())?;
            let replicas = found.spec.and_then(|spec| spec.replicas);
            if replicas == Some(2) {
                Ok(())
            } else {
                Err(format!("{replicas:?}"))
            }
        })
        .await;
    }
    let templates: Api<Deployment> = Api::default_namespaced(plane.client.clone());
    eventually("the status of the template", async || {
        let found = templates.get("web").await.unwrap().status;
        let ready = found.and_then(|status| status.ready_replicas);
        if ready == Some(4) {
            Ok(())
        } else {
            Err(format!("{ready:?}"))
        }
    })
    .await;
    let id = "jsonpath={.metadata.labels.propagationpolicy\\.karmada\\.io/permanent-id}";
    let id = plane.kubectl(&["get", "propagationpolicy", "web", "-o", id]);
    assert_eq!(
        id.len(),
        36,
        "the webhook must set the permanent id: {id:?}"
    );
    rights::assert_none_is_forbidden(&plane.audit.requests());
    fleet.stop().await;
}
