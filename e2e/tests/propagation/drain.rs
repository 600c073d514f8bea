//! A test of `berth drain` and `berth uncordon --bring-back`, on `berth up` with simulated workloads.

use std::path::PathBuf;
use std::process::Output;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use berth::up::{ControlPlane, UpArgs};
use berth_api::well_known::EVICTED_FROM;
use berth_api::{Cluster, OverridePolicy, ResourceBinding};
use berth_e2e::eventually;
use berth_e2e::program::{Program, command};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, PostParams};
use kube::core::{ApiResource, NamespaceResourceScope};
use kube::{Client, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::fleet::NAMESPACE;
use crate::manifests::{config_map, deployment, policy, with_spec};

/// A control plane with three members, and a kubeconfig for the commands.
struct Scene {
    plane: ControlPlane,
    client: Client,
    folder: tempfile::TempDir,
}

impl Scene {
    async fn start() -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let arguments = UpArgs {
            port: 0,
            ..UpArgs::default()
        };
        let plane = ControlPlane::start(&arguments).await.unwrap();
        let client = plane.server().client();
        let folder = tempfile::tempdir().unwrap();
        let scene = Self {
            plane,
            client,
            folder,
        };
        std::fs::write(scene.kubeconfig(), scene.plane.kubeconfig()).unwrap();
        scene
    }

    fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("kubeconfig")
    }

    /// Returns a command of `berth`, given with blanks between its words.
    fn command(&self, line: &str) -> std::process::Command {
        let mut command = command(env!("CARGO_BIN_EXE_berth-program"));
        command
            .args(line.split(' '))
            .env("KUBECONFIG", self.kubeconfig());
        command
    }

    /// Runs a command, checks its exit code, and returns its standard output and standard error.
    async fn run(&self, line: &str, code: i32) -> (String, String) {
        let mut command = self.command(line);
        let ran = tokio::task::spawn_blocking(move || command.output().unwrap());
        let Output {
            status,
            stdout,
            stderr,
        } = ran.await.unwrap();
        let [out, err] = [stdout, stderr].map(|bytes| String::from_utf8(bytes).unwrap());
        assert_eq!(status.code(), Some(code), "{line}: {out}{err}");
        (out, err)
    }

    async fn create(&self, manifest: Value) {
        let object: DynamicObject = serde_json::from_value(manifest).unwrap();
        let types = object.types.clone().unwrap();
        let resource = ApiResource::from_gvk(&types.try_into().unwrap());
        let api: Api<DynamicObject> =
            Api::namespaced_with(self.client.clone(), NAMESPACE, &resource);
        api.create(&PostParams::default(), &object).await.unwrap();
    }

    fn bindings(&self) -> Api<ResourceBinding> {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    /// Returns an object of a member.
    async fn in_member<K>(&self, member: usize, name: &str) -> Option<K>
    where
        K: Resource<Scope = NamespaceResourceScope> + Clone + DeserializeOwned + std::fmt::Debug,
        K::DynamicType: Default,
    {
        let client = self.plane.members()[member].server().client();
        let api: Api<K> = Api::namespaced(client, NAMESPACE);
        api.get_opt(name).await.unwrap()
    }

    /// Waits until a Deployment in a member has this number of ready replicas.
    async fn wait_until_ready(&self, member: usize, name: &str, replicas: i32) {
        eventually(
            &format!("{replicas} ready replicas of {name}"),
            async || {
                let found: Option<Deployment> = self.in_member(member, name).await;
                match ready(found.as_ref()) {
                    ready if ready == replicas => Ok(()),
                    ready => Err(ready),
                }
            },
        )
        .await;
    }

    /// Returns the state that a dry run must not change: the specs and annotations of Clusters and bindings.
    async fn written(&self) -> Value {
        let clusters: Api<Cluster> = Api::all(self.client.clone());
        let clusters = clusters.list(&ListParams::default()).await.unwrap();
        let bindings = self.bindings().list(&ListParams::default()).await.unwrap();
        let clusters = clusters.items.iter().map(|cluster| json!(cluster.spec));
        let bindings = bindings.items.iter().map(|binding| {
            json!([
                binding.spec.clusters,
                binding.spec.graceful_eviction_tasks,
                binding.annotations()
            ])
        });
        clusters.chain(bindings).collect()
    }

    /// Checks all the time that the Deployment `web` has two ready replicas in the first two members, until the flag is
    /// set.
    fn watch_replicas(&self, ends: &Arc<AtomicBool>) -> JoinHandle<()> {
        let ends = Arc::clone(ends);
        // The replicas move from the first to the second member. In this order, a moving replica is not missed.
        let members = [0, 1].map(|member| {
            let client = self.plane.members()[member].server().client();
            Api::<Deployment>::namespaced(client, NAMESPACE)
        });
        tokio::spawn(async move {
            while !ends.load(Ordering::Relaxed) {
                let mut sum = 0;
                for member in &members {
                    sum += ready(member.get_opt("web").await.unwrap().as_ref());
                }
                assert!(sum >= 2, "{sum} replicas are ready");
                tokio::task::yield_now().await;
            }
        })
    }
}

fn ready(deployment: Option<&Deployment>) -> i32 {
    let status = deployment.and_then(|found| found.status.as_ref());
    status.and_then(|status| status.ready_replicas).unwrap_or(0)
}

/// Creates `web`, which can move from member1 to member2 with its dependency, the ConfigMap `greeting`, `db`, which must
/// stay in member1, and the ConfigMap `settings` in all members. The replicas of `web` are not ready in member2 while the
/// OverridePolicy exists.
async fn create_workloads(scene: &Scene) {
    let (mut web, db, settings) = (
        deployment("web", 2),
        deployment("db", 1),
        config_map("settings"),
    );
    web["spec"]["template"]["spec"]["volumes"] =
        json!([{ "name": "greeting", "configMap": { "name": "greeting" } }]);
    let aggregated = json!({ "propagateDeps": true, "placement": {
        "clusterAffinity": { "clusterNames": ["member1", "member2"] },
        "replicaScheduling": { "replicaSchedulingType": "Divided",
            "replicaDivisionPreference": "Aggregated" } } });
    let slow = json!({ "apiVersion": "policy.karmada.io/v1alpha1", "kind": "OverridePolicy",
        "metadata": { "name": "slow" },
        "spec": {
            "resourceSelectors": [{ "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" }],
            "overrideRules": [{
                "targetCluster": { "clusterNames": ["member2"] },
                "overriders": { "annotationsOverrider": [{ "operator": "add",
                    "value": { "simulation.berth/start-delay": "1h" } }] } }] } });
    scene.run("cordon member2", 0).await;
    for manifest in [
        slow,
        policy(&settings, &["member1", "member2", "member3"]),
        settings,
        policy(&db, &["member1"]),
        db,
        config_map("greeting"),
        with_spec(policy(&web, &[]), aggregated),
        web,
    ] {
        scene.create(manifest).await;
    }
    scene.wait_until_ready(0, "web", 2).await;
    scene.wait_until_ready(0, "db", 1).await;
    scene.run("uncordon member2", 0).await;
    eventually("the replicas in the status of the binding", async || {
        let binding = scene.bindings().get("web-deployment").await.unwrap();
        let items = binding.status.unwrap_or_default().aggregated_status;
        let mut reported = items.iter().filter_map(|item| item.status.as_ref());
        if reported.any(|status| status["readyReplicas"] == 2) {
            Ok(())
        } else {
            Err(format!("{items:?}"))
        }
    })
    .await;
}

/// Checks the preview of `berth drain --dry-run` and of `berth simulate --drain`. Both write nothing.
async fn check_preview(scene: &Scene) {
    let before = scene.written().await;
    let (preview, _) = scene.run("drain member1 --dry-run", 1).await;
    let mut lines = preview.lines();
    let web = lines.find(|line| line.starts_with("default/web-deployment"));
    assert!(web.unwrap().ends_with("2          member2:2"), "{preview}");
    for expected in [
        "\ndefault/db-deployment ",
        "default/db-deployment, which stays, may need it",
        "1 workload can leave member1; 1 dependency follows its workloads; 1 workload and 1 other object stay",
    ] {
        assert!(preview.contains(expected), "{preview}");
    }
    let simulated = "simulate --against berth --drain member1 -o json";
    let (moves, _) = scene.run(simulated, 0).await;
    let moves: Value = serde_json::from_str(&moves).unwrap();
    let mut moves = moves.as_array().unwrap().iter();
    let web = moves.find(|of| of["binding"]["name"] == "web-deployment");
    let expected = json!([{ "name": "member2", "replicas": 2 }]);
    assert_eq!(web.unwrap()["clusters"], expected);
    assert_eq!(scene.written().await, before);
}

/// Drains while the new replicas are not ready, once until the timeout and once until Ctrl-C.
async fn end_early(scene: &Scene) {
    let (out, err) = scene.run("drain member1 --timeout 1", 1).await;
    assert!(out.contains("default/web-deployment waits: "), "{out}");
    let expected = "error: 0 of 2 have left member1 after 1 s; run the same command to continue";
    assert!(err.starts_with(expected), "{err}");
    let log = scene.folder.path().join("drain.log");
    let mut drain = Program::start(&mut scene.command("drain member1"), &log);
    drain.wait_for_log("cluster/member1 already cordoned").await;
    drain.signal("INT");
    assert_eq!(drain.wait_for_exit().await.code(), Some(1));
    let printed = drain.log();
    assert!(printed.contains("error: interrupted: 0 of "), "{printed}");
}

/// Lets the new replicas become ready, and waits for the evictions of the earlier runs.
async fn continue_drain(scene: &Scene) {
    let policies: Api<OverridePolicy> = Api::namespaced(scene.client.clone(), NAMESPACE);
    let deleted = policies.delete("slow", &DeleteParams::default()).await;
    assert!(deleted.is_ok());
    let (out, _) = scene.run("drain member1", 1).await;
    for expected in [
        "default/web-deployment has left member1",
        "default/greeting-configmap has left member1",
        "member1 is not drained: 2 bindings have left member1",
    ] {
        assert!(out.contains(expected), "{out}");
    }
    assert!(scene.in_member::<Deployment>(0, "web").await.is_none());
    assert!(scene.in_member::<ConfigMap>(0, "greeting").await.is_none());
    scene.wait_until_ready(1, "web", 2).await;
    scene.wait_until_ready(0, "db", 1).await;
}

/// Deletes the workload that stays, and drains the rest.
async fn drain_the_rest(scene: &Scene) {
    let templates: Api<Deployment> = Api::namespaced(scene.client.clone(), NAMESPACE);
    let deleted = templates.delete("db", &DeleteParams::default()).await;
    assert!(deleted.is_ok());
    eventually("the end of db", async || {
        let found = scene.bindings().get_opt("db-deployment").await.unwrap();
        found.map_or(Ok(()), |_| Err("the binding exists"))
    })
    .await;
    let (out, _) = scene.run("drain member1 --budget 100/s", 0).await;
    let expected = "member1 is drained: 1 binding has left member1";
    assert!(out.contains(expected), "{out}");
    assert!(scene.in_member::<ConfigMap>(0, "settings").await.is_none());
}

async fn bring_back(scene: &Scene) {
    let (out, _) = scene.run("uncordon member1", 0).await;
    let hint = "note: 2 bindings were drained from member1; run `berth uncordon --bring-back";
    assert!(out.contains(hint), "{out}");
    let (out, _) = scene.run("uncordon --bring-back member1", 0).await;
    let expected = "default/settings-configmap rescheduled";
    assert!(out.contains(expected), "{out}");
    eventually("the ConfigMap to be back", async || {
        let found = scene.in_member::<ConfigMap>(0, "settings").await;
        found.map(|_| ()).ok_or("it does not exist")
    })
    .await;
    let web = scene.bindings().get("web-deployment").await.unwrap();
    assert_eq!(web.annotations().get(EVICTED_FROM), None);
    assert!(web.spec.reschedule_triggered_at.is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drain_moves_what_fits_elsewhere_and_can_be_continued_and_reversed() {
    let scene = Scene::start().await;
    create_workloads(&scene).await;
    check_preview(&scene).await;
    let ends = Arc::new(AtomicBool::new(false));
    let watching = scene.watch_replicas(&ends);
    end_early(&scene).await;
    continue_drain(&scene).await;
    ends.store(true, Ordering::Relaxed);
    watching.await.unwrap();
    drain_the_rest(&scene).await;
    bring_back(&scene).await;
    scene.plane.stop().await;
}
