//! Tests of `berth join --resources`, which limits the rights of the control plane in the member.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use berth_api::Work;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Node, Pod, Secret};
use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::api::{Api, ListParams, PostParams};
use serde_json::{Value, json};

use crate::test_servers::{TestServers, entry};

const JOIN: &str = "join member1 --cluster-kubeconfig member1.kubeconfig";
const TIMEOUT: Duration = Duration::from_mins(1);

/// A running `berth controllers` process. Dropping it kills the process.
struct Controllers(Child);

impl Drop for Controllers {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Controllers {
    fn start(servers: &TestServers) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_berth"));
        command
            .args(["controllers", "--leader-elect=false"])
            .args(["--metrics-bind-address=0", "--health-probe-bind-address=0"])
            .args([
                "--cluster-status-update-frequency=200ms",
                "--cluster-success-threshold=0s",
            ])
            .current_dir(servers.home())
            .env("HOME", servers.home())
            .env("KUBECONFIG", "control-plane.kubeconfig")
            .stdin(Stdio::null())
            .stderr(Stdio::null());
        Self(command.spawn().unwrap())
    }
}

async fn until<T>(what: &str, mut check: impl AsyncFnMut() -> Result<T, String>) -> T {
    let end = Instant::now() + TIMEOUT;
    loop {
        match check().await {
            Ok(value) => return value,
            Err(reason) => assert!(
                Instant::now() < end,
                "timed out waiting for {what}: {reason}"
            ),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn deployment() -> Value {
    json!({ "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": { "name": "web", "namespace": "default" },
        "spec": { "selector": { "matchLabels": { "app": "web" } }, "template": {
            "metadata": { "labels": { "app": "web" } },
            "spec": { "containers": [{ "name": "c", "image": "i" }] } } } })
}

fn config_map() -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": "settings", "namespace": "default" } })
}

fn work(name: &str, manifest: &Value) -> Work {
    serde_json::from_value(json!({
        "apiVersion": "work.karmada.io/v1alpha1", "kind": "Work",
        "metadata": { "name": name, "finalizers": ["karmada.io/execution-controller"] },
        "spec": { "workload": { "manifests": [manifest] } },
    }))
    .unwrap()
}

/// Returns the status and the message of the condition `Applied` of a Work.
async fn applied(works: &Api<Work>, name: &str) -> Result<(String, String), String> {
    let work = works.get(name).await.map_err(|error| error.to_string())?;
    let status = serde_json::to_value(&work.status).unwrap();
    let conditions = status["conditions"].as_array().into_iter().flatten();
    let mut applied = conditions.filter(|condition| condition["type"] == "Applied");
    let condition = applied.next().ok_or_else(|| status.to_string())?;
    let text = |field: &str| condition[field].as_str().unwrap_or_default().to_owned();
    Ok((text("status"), text("message")))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_account_can_write_the_named_resource_and_cannot_read_secrets_or_config_maps() {
    let servers = TestServers::start().await;
    servers
        .run(&format!("{JOIN} --resources deployments.apps"))
        .await;
    let secret = servers.secrets().get("member1").await.unwrap();
    let client = TestServers::with_token(&servers.member1, &entry(&secret, "token")).await;
    let all = ListParams::default();
    let nodes: Api<Node> = Api::all(client.clone());
    let pods: Api<Pod> = Api::all(client.clone());
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let deployments: Api<Deployment> = Api::default_namespaced(client.clone());
    let secrets: Api<Secret> = Api::all(client.clone());
    let config_maps: Api<ConfigMap> = Api::default_namespaced(client);
    nodes.list(&all).await.unwrap();
    pods.list(&all).await.unwrap();
    namespaces.list(&all).await.unwrap();
    let deployment = serde_json::from_value(deployment()).unwrap();
    deployments
        .create(&PostParams::default(), &deployment)
        .await
        .unwrap();
    let refusals = [
        secrets.list(&all).await.map(drop).unwrap_err(),
        config_maps.list(&all).await.map(drop).unwrap_err(),
    ];
    for refusal in refusals {
        assert!(
            matches!(&refusal, kube::Error::Api(status) if status.code == 403),
            "{refusal}"
        );
    }
    servers.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn controllers_apply_allowed_resources_and_report_denied_resources() {
    let servers = TestServers::start().await;
    servers
        .run(&format!("{JOIN} --resources deployments.apps"))
        .await;
    let _controllers = Controllers::start(&servers);
    until("the member to be ready", async || {
        let cluster = servers.clusters().get("member1").await.unwrap();
        let status = serde_json::to_value(&cluster.status).unwrap();
        let conditions = status["conditions"].as_array().into_iter().flatten();
        let mut ready = conditions.filter(|condition| condition["type"] == "Ready");
        if ready.any(|condition| condition["status"] == "True") {
            Ok(())
        } else {
            Err(status.to_string())
        }
    })
    .await;
    let works: Api<Work> = Api::namespaced(servers.control_plane.client(), "karmada-es-member1");
    let create = async |name: &str, manifest: Value| {
        let work = work(name, &manifest);
        works.create(&PostParams::default(), &work).await.unwrap();
    };
    create("web", deployment()).await;
    create("settings", config_map()).await;
    until("the Deployment to be applied", async || {
        match applied(&works, "web").await? {
            (status, _) if status == "True" => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    let message = until("the ConfigMap to be refused", async || {
        match applied(&works, "settings").await? {
            (status, message) if status == "False" => Ok(message),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    assert!(message.contains("configmaps"), "{message}");
    // The controllers use the additional rights without a restart.
    servers
        .run(&format!("{JOIN} --resources deployments.apps,configmaps"))
        .await;
    until("the ConfigMap to be applied", async || {
        match applied(&works, "settings").await? {
            (status, _) if status == "True" => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    servers.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_whose_rights_were_limited_later_can_be_unjoined() {
    let servers = TestServers::start().await;
    servers.run(JOIN).await;
    let controllers = Controllers::start(&servers);
    let roles: Api<ClusterRole> = Api::all(servers.member1.client());
    let exists = async || {
        roles
            .get_opt("karmada-impersonator")
            .await
            .unwrap()
            .is_some()
    };
    until("the impersonator's role", async || {
        if exists().await {
            Ok(())
        } else {
            Err("it does not exist".to_owned())
        }
    })
    .await;
    let stdout = servers
        .run(&format!("{JOIN} --resources deployments.apps"))
        .await;
    assert!(
        stdout.contains("Secret member1-impersonator deleted"),
        "{stdout}"
    );
    let cluster = servers.clusters().get("member1").await.unwrap();
    assert!(cluster.spec.impersonator_secret_ref.is_none());
    until("the removal of the impersonator's role", async || {
        if exists().await {
            Err("it exists".to_owned())
        } else {
            Ok(())
        }
    })
    .await;
    let unjoin = "unjoin member1 --cluster-kubeconfig member1.kubeconfig";
    let stdout = servers.run(unjoin).await;
    assert!(
        stdout.ends_with("member1 is no longer a member\n"),
        "{stdout}"
    );
    drop(controllers);
    servers.stop().await;
}

/// Something else than `berth join` took rights from the account.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unjoining_names_the_right_that_the_removal_of_an_object_needs() {
    let servers = TestServers::start().await;
    servers.run(JOIN).await;
    let controllers = Controllers::start(&servers);
    let works: Api<Work> = Api::namespaced(servers.control_plane.client(), "karmada-es-member1");
    until("the execution namespace", async || {
        let work = work("settings", &config_map());
        let created = works.create(&PostParams::default(), &work).await;
        created.map(drop).map_err(|error| error.to_string())
    })
    .await;
    until("the ConfigMap", async || {
        match applied(&works, "settings").await? {
            (status, _) if status == "True" => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    servers
        .run(&format!("{JOIN} --resources deployments.apps"))
        .await;
    let result = until("the reason", async || {
        let result = servers.berth("unjoin member1 --wait 1").await;
        if result.err.contains("cannot delete the objects: ") {
            Ok(result)
        } else {
            Err(result.err)
        }
    })
    .await;
    assert_eq!(result.code, Some(1));
    assert!(
        result.err.contains("; settings: cannot delete"),
        "{}",
        result.err
    );
    assert!(result.err.contains("configmaps"), "{}", result.err);
    drop(controllers);
    servers.stop().await;
}
