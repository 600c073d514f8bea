//! Test of the RBAC rules in `deploy/`: they grant the scheduler's service account all rights that it needs, and no
//! more.

use std::path::Path;
use std::time::Duration;

use berth_api::{Cluster, ResourceBinding};
use berth_component_base::leader_election::LeaseOptions;
use berth_e2e::{BareControlPlane, RunningScheduler, eventually};
use berth_scheduler::Options;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Event;
use kube::Client;
use kube::api::{Api, ListParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};

use crate::harness::content_type::JSON;
use crate::harness::server::{ApiResponse, raw};

fn cluster(name: &str) -> Cluster {
    let condition = |kind: &str| {
        json!({"type": kind, "status": "True", "reason": "Ok", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z"})
    };
    serde_json::from_value(json!({
        "metadata": {"name": name}, "spec": {"syncMode": "Push"},
        "status": {
            "apiEnablements": [{"groupVersion": "apps/v1",
                "resources": [{"name": "deployments", "kind": "Deployment"}]}],
            "conditions": [condition("Ready"), condition("CompleteAPIEnablements")],
        },
    }))
    .unwrap()
}

fn binding(name: &str) -> ResourceBinding {
    serde_json::from_value(json!({
        "metadata": {"name": name, "namespace": "default",
            "labels": {"propagationpolicy.karmada.io/permanent-id": "p"}},
        "spec": {
            "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "default", "name": name, "uid": "u"},
            "replicas": 1, "schedulerName": "default-scheduler",
            "placement": {"clusterAffinity": {"clusterNames": ["m1"]}},
        },
    }))
    .unwrap()
}

/// Creates the objects in a file of `deploy/` as the administrator.
async fn apply(bare: &BareControlPlane, file: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../deploy")
        .join(file);
    let text = std::fs::read_to_string(path).unwrap();
    let documents: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
    assert!(!documents.is_empty(), "{file}");
    for document in documents {
        let group = match document["apiVersion"].as_str().unwrap() {
            "v1" => "/api/v1".to_owned(),
            other => format!("/apis/{other}"),
        };
        let namespace_path = document["metadata"]["namespace"]
            .as_str()
            .map_or_else(String::new, |n| format!("/namespaces/{n}"));
        let kind = document["kind"].as_str().unwrap().to_lowercase();
        let path = format!("{group}{namespace_path}/{kind}s");
        let response = raw(&bare.client, "POST", &path, &[JSON], document.to_string()).await;
        assert!(
            matches!(response.code, 201 | 409),
            "{path}: {}",
            response.text
        );
    }
}

/// Returns a client that connects over TLS with a token of this service account in `karmada-system`.
async fn client(bare: &BareControlPlane, account: &str) -> Client {
    let path = format!("/api/v1/namespaces/karmada-system/serviceaccounts/{account}/token");
    let response = raw(&bare.client, "POST", &path, &[JSON], "{}").await;
    let token = response.json["status"]["token"]
        .as_str()
        .unwrap()
        .to_owned();
    let kubeconfig = Kubeconfig::read_from(bare.kubeconfig()).unwrap();
    let mut config =
        kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
            .await
            .unwrap();
    config.auth_info.token = Some(token.into());
    Client::try_from(config).unwrap()
}

async fn request(client: &Client, method: &str, path: &str) -> ApiResponse {
    raw(client, method, path, &[], "").await
}

/// Checks that a scheduler with the service account in `deploy/scheduler/rbac.yaml` places a binding, records an event
/// and acquires its Lease. Requests of this account that a scheduler does not need get 403.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_scheduler_account_has_exactly_the_rights_it_needs() {
    let bare = BareControlPlane::start(&[cluster("m1")]).await;
    apply(&bare, "scheduler/rbac.yaml").await;
    let scheduler = client(&bare, "berth-scheduler").await;
    bare.bind(&binding("nginx")).await;
    let options = Options {
        lease: Some(LeaseOptions {
            namespace: "karmada-system".to_owned(),
            name: "karmada-scheduler".to_owned(),
            identity: LeaseOptions::new_identity(),
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
        }),
        ..Options::embedded()
    };
    let running = RunningScheduler::start(options, scheduler.clone());

    let bindings = bare.bindings("default");
    eventually("the binding to be placed", async || {
        let binding = bindings.get("nginx").await.map_err(|e| e.to_string())?;
        let placed = binding.spec.clusters.iter().any(|c| c.name == "m1");
        let reported = binding
            .status
            .as_ref()
            .is_some_and(|s| !s.conditions.is_empty());
        if placed && reported {
            Ok(())
        } else {
            Err(format!("{binding:?}"))
        }
    })
    .await;
    let events: Api<Event> = Api::namespaced(bare.client.clone(), "default");
    eventually("an event", async || {
        let list = events.list(&ListParams::default()).await;
        let list = list.map_err(|e| e.to_string())?;
        let ours = |e: &Event| e.involved_object.name.as_deref() == Some("nginx");
        if list.items.iter().any(ours) {
            Ok(())
        } else {
            Err(format!("{} events", list.items.len()))
        }
    })
    .await;
    let leases: Api<Lease> = Api::namespaced(bare.client.clone(), "karmada-system");
    let lease = leases.get("karmada-scheduler").await.unwrap();
    assert!(
        lease
            .spec
            .unwrap()
            .holder_identity
            .is_some_and(|h| !h.is_empty())
    );

    let works = "/apis/work.karmada.io/v1alpha2";
    for (method, path) in [
        (
            "DELETE",
            format!("{works}/namespaces/default/resourcebindings/nginx"),
        ),
        (
            "DELETE",
            format!("{works}/namespaces/default/resourcebindings"),
        ),
        (
            "POST",
            format!("{works}/namespaces/default/resourcebindings"),
        ),
        ("GET", "/api/v1/secrets".to_owned()),
        (
            "GET",
            "/api/v1/namespaces/karmada-system/secrets".to_owned(),
        ),
        (
            "GET",
            "/api/v1/namespaces/karmada-system/configmaps".to_owned(),
        ),
        (
            "DELETE",
            "/apis/cluster.karmada.io/v1alpha1/clusters/m1".to_owned(),
        ),
        (
            "GET",
            "/apis/coordination.k8s.io/v1/namespaces/karmada-system/leases/other".to_owned(),
        ),
        (
            "GET",
            "/apis/coordination.k8s.io/v1/namespaces/default/leases/karmada-scheduler".to_owned(),
        ),
    ] {
        let response = request(&scheduler, method, &path).await;
        assert_eq!(response.code, 403, "{method} {path}: {}", response.text);
    }
    running.stop().await.unwrap();
    bare.stop().await;
}
