//! Tests of `berth simulate --against` with a running control plane. The tests predict placements, apply the change,
//! and compare. They also check that the simulation writes nothing.

use berth_test_requirements::needs;
use berth_test_transcripts::{Transcript, assert_snapshot};
use std::collections::BTreeMap;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use berth::up::{ControlPlane, UpArgs};
use berth_api::{Cluster, ResourceBinding};
use k8s_openapi::api::core::v1::Service;
use kube::api::{Api, DeleteParams, ListParams};
use kube::runtime::wait::await_condition;
use serde_json::Value;

use crate::program::{CommandOutput, DYNAMIC, Files, app, deployment, policy, simulate};

const TIMEOUT: Duration = Duration::from_mins(3);
const CONTEXT: &str = "live";

/// The clusters and replicas of each binding, keyed by the name of the binding.
pub(crate) type Placements = BTreeMap<String, Vec<(String, i64)>>;

/// A running control plane with simulated members.
pub(crate) struct Plane {
    pub(crate) server: ControlPlane,
    client: kube::Client,
    files: Files,
}

impl Plane {
    /// Starts a control plane. Tests that call this function need the attribute `#[needs(kubectl)]`.
    pub(crate) async fn start() -> Self {
        Self::start_with(UpArgs::default()).await
    }

    /// Starts a control plane with these arguments on a free port.
    pub(crate) async fn start_with(args: UpArgs) -> Self {
        let server = ControlPlane::start(&UpArgs { port: 0, ..args })
            .await
            .unwrap();
        let client = server.server().client();
        let files = Files::new(&[("kubeconfig", &server.server().kubeconfig(CONTEXT))]);
        let this = Self {
            server,
            client,
            files,
        };
        this.apply("apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n")
            .await;
        this
    }

    pub(crate) async fn apply(&self, text: &str) {
        let kubeconfig = self.files.path("kubeconfig");
        let cache = self.files.path("cache");
        let text = text.to_owned();
        let applied = tokio::task::spawn_blocking(move || {
            let mut child = Command::new("kubectl")
                .args(["--kubeconfig", &kubeconfig, "--cache-dir", &cache])
                .args(["apply", "-f", "-"])
                .stdin(Stdio::piped())
                .stdout(Stdio::null())
                .spawn()
                .unwrap();
            let mut stdin = child.stdin.take().unwrap();
            stdin.write_all(text.as_bytes()).unwrap();
            drop(stdin);
            child.wait().unwrap()
        });
        assert!(applied.await.unwrap().success());
    }

    pub(crate) async fn delete_service(&self, name: &str) {
        let api: Api<Service> = Api::namespaced(self.client.clone(), "karmada-system");
        api.delete(name, &DeleteParams::default()).await.unwrap();
    }

    /// Waits until a binding satisfies the condition and the scheduler has observed the generation of the binding.
    pub(crate) async fn wait_for_binding(
        &self,
        name: &str,
        expected: impl Fn(&ResourceBinding) -> bool + Send + Sync + 'static,
    ) {
        let api: Api<ResourceBinding> = Api::namespaced(self.client.clone(), "shop");
        let condition = move |binding: Option<&ResourceBinding>| {
            binding.is_some_and(|binding| {
                let is_observed = binding.status.as_ref().is_some_and(|status| {
                    status.scheduler_observed_generation == binding.metadata.generation
                        && !status.conditions.is_empty()
                });
                is_observed && expected(binding)
            })
        };
        tokio::time::timeout(TIMEOUT, await_condition(api, name, condition))
            .await
            .unwrap()
            .unwrap();
    }

    /// Waits until the condition `Scheduled` of a binding has a reason.
    pub(crate) async fn wait_for_reason(&self, name: &str, reason: &'static str) {
        let api: Api<ResourceBinding> = Api::namespaced(self.client.clone(), "shop");
        let condition = move |binding: Option<&ResourceBinding>| {
            let status = binding.and_then(|binding| binding.status.as_ref());
            let mut conditions = status.iter().flat_map(|status| &status.conditions);
            conditions.any(|condition| condition.reason == reason)
        };
        tokio::time::timeout(TIMEOUT, await_condition(api, name, condition))
            .await
            .unwrap()
            .unwrap();
    }

    /// Waits until the detector and the scheduler have processed all earlier changes. Applies another Deployment, and
    /// waits until the scheduler has placed it.
    pub(crate) async fn wait_for_marker(&self, name: &str) {
        let name = format!("marker-{name}");
        self.apply(&app(
            &name,
            1,
            "{clusterAffinity: {clusterNames: [member3]}}",
        ))
        .await;
        self.wait_for_binding(&format!("{name}-deployment"), |b| {
            !b.spec.clusters.is_empty()
        })
        .await;
    }

    /// Waits until every binding in `predicted` is placed in the predicted clusters.
    pub(crate) async fn wait_until_placed(&self, predicted: Placements, what: &str) {
        let until = tokio::time::Instant::now() + TIMEOUT;
        loop {
            let mut placements = self.placements().await;
            placements.retain(|name, _| predicted.contains_key(name));
            if placements == predicted {
                return;
            }
            assert!(
                tokio::time::Instant::now() < until,
                "{what}: {placements:?} instead of {predicted:?}"
            );
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    async fn placements(&self) -> Placements {
        let api: Api<ResourceBinding> = Api::all(self.client.clone());
        let bindings = api.list(&ListParams::default()).await.unwrap();
        let bindings = bindings.items.into_iter().map(|binding| {
            let mut clusters: Vec<_> = binding
                .spec
                .clusters
                .iter()
                .map(|target| (target.name.clone(), i64::from(target.replicas)))
                .collect();
            clusters.sort();
            (binding.metadata.name.unwrap(), clusters)
        });
        bindings.collect()
    }

    /// Returns the current resourceVersion of the API server, which every write changes.
    async fn version(&self) -> String {
        let api: Api<Cluster> = Api::all(self.client.clone());
        let list = api.list(&ListParams::default()).await.unwrap();
        list.metadata.resource_version.unwrap()
    }

    pub(crate) async fn simulate(&self, arguments: &[&str]) -> CommandOutput {
        let kubeconfig = self.files.path("kubeconfig");
        let mut all: Vec<String> = ["--against", CONTEXT, "--kubeconfig", &kubeconfig]
            .map(str::to_owned)
            .into();
        all.extend(arguments.iter().map(|&argument| argument.to_owned()));
        tokio::task::spawn_blocking(move || {
            simulate(&all.iter().map(String::as_str).collect::<Vec<_>>())
        })
        .await
        .unwrap()
    }

    /// Runs a simulation, and repeats it until the resourceVersion is the same before and after a run. This shows that
    /// the simulation writes nothing. Writes by other clients cause the repetitions.
    async fn simulate_unwritten(&self, arguments: &[&str]) -> CommandOutput {
        let mut tries = 0..20;
        loop {
            assert!(
                tries.next().is_some(),
                "the resourceVersion changed during every simulation"
            );
            let before = self.version().await;
            let output = self.simulate(arguments).await;
            if self.version().await == before {
                return output;
            }
        }
    }

    /// Returns the placements that the simulation predicts for these arguments.
    pub(crate) async fn predicted(&self, arguments: &[&str]) -> Placements {
        let arguments = [arguments, &["-o", "json"]].concat();
        let output = self.simulate_unwritten(&arguments).await.json();
        let mut placements = self.placements().await;
        for one in output.as_array().unwrap() {
            let name = one["binding"]["name"].as_str().unwrap().to_owned();
            let from = shares(&one["from"]);
            assert_eq!(placements.get(&name).cloned().unwrap_or_default(), from);
            placements.insert(name, shares(&one["clusters"]));
        }
        placements
    }

    pub(crate) async fn predicted_of(&self, text: &str) -> Placements {
        let files = Files::new(&[("change.yaml", text)]);
        self.predicted(&["-f", &files.path("change.yaml")]).await
    }
}

fn shares(clusters: &Value) -> Vec<(String, i64)> {
    let clusters = clusters.as_array().unwrap().iter();
    clusters
        .map(|cluster| {
            (
                cluster["name"].as_str().unwrap().to_owned(),
                cluster["replicas"].as_i64().unwrap(),
            )
        })
        .collect()
}

#[needs(kubectl)]
#[tokio::test(flavor = "multi_thread")]
async fn predictions_equal_the_placements_after_the_change() {
    let plane = Plane::start().await;
    for (name, replicas, placement) in [
        ("web", 6, DYNAMIC),
        (
            "copied",
            2,
            "{clusterAffinity: {clusterNames: [member1, member3]}}",
        ),
        ("other", 3, "{clusterAffinity: {clusterNames: [member3]}}"),
    ] {
        plane.apply(&app(name, replicas, placement)).await;
        plane
            .wait_for_binding(&format!("{name}-deployment"), |binding| {
                !binding.spec.clusters.is_empty()
            })
            .await;
    }

    // A scheduler that becomes the leader would move no binding.
    let mut transcript = Transcript::new();
    let takeover = plane.simulate_unwritten(&[]).await;
    takeover.record(&mut transcript, &["--against live"]);

    // A Deployment gets more replicas.
    let change = deployment("web", 11);
    let predicted = plane.predicted_of(&change).await;
    plane.apply(&change).await;
    plane
        .wait_for_binding("web-deployment", |binding| binding.spec.replicas == 11)
        .await;
    assert_eq!(plane.placements().await, predicted, "more replicas");

    // A policy gets another placement.
    let narrow = DYNAMIC.replacen('{', "{clusterAffinity: {clusterNames: [member2]}, ", 1);
    let change = policy("web", &narrow);
    let predicted = plane.predicted_of(&change).await;
    assert_eq!(predicted["web-deployment"], [("member2".to_owned(), 11)]);
    plane.apply(&change).await;
    plane
        .wait_for_binding("web-deployment", |binding| binding.spec.clusters.len() == 1)
        .await;
    assert_eq!(plane.placements().await, predicted, "a new placement");

    // A Deployment and its policy are created.
    let change = app(
        "new",
        4,
        "{clusterAffinity: {clusterNames: [member1, member2]}}",
    );
    let predicted = plane.predicted_of(&change).await;
    assert_eq!(predicted["new-deployment"].len(), 2);
    plane.apply(&change).await;
    plane
        .wait_for_binding("new-deployment", |binding| {
            !binding.spec.clusters.is_empty()
        })
        .await;
    assert_eq!(plane.placements().await, predicted, "a new Deployment");

    // Applying the same manifests again moves no binding.
    let files = Files::new(&[("same.yaml", &change)]);
    let same = plane
        .simulate_unwritten(&["-f", &files.path("same.yaml")])
        .await;
    same.record(&mut transcript, &["--against live -f same.yaml"]);
    assert_snapshot!(transcript);

    // A policy gets a placement that selects clusters by label.
    let change = policy(
        "other",
        "{clusterAffinity: {labelSelector: {matchLabels: {size: small}}}}",
    );
    let predicted = plane.predicted_of(&change).await;
    assert_eq!(predicted["other-deployment"], [("member1".to_owned(), 3)]);
    plane.apply(&change).await;
    plane
        .wait_for_binding("other-deployment", |binding| {
            binding
                .spec
                .clusters
                .first()
                .is_some_and(|c| c.name == "member1")
        })
        .await;
    assert_eq!(plane.placements().await, predicted, "a label selector");

    // A cluster is lost.
    let predicted = plane.predicted(&["--without", "member1"]).await;
    let clusters: Api<Cluster> = Api::all(plane.client.clone());
    clusters
        .delete("member1", &DeleteParams::default())
        .await
        .unwrap();
    for name in ["copied-deployment", "new-deployment", "other-deployment"] {
        let api: Api<ResourceBinding> = Api::namespaced(plane.client.clone(), "shop");
        let moved = |binding: Option<&ResourceBinding>| {
            binding.is_some_and(|b| b.spec.clusters.iter().all(|c| c.name != "member1"))
        };
        tokio::time::timeout(TIMEOUT, await_condition(api, name, moved))
            .await
            .unwrap()
            .unwrap();
    }
    assert_eq!(plane.placements().await, predicted, "a lost cluster");
    plane.server.stop().await;
}

#[needs(kubectl)]
#[tokio::test(flavor = "multi_thread")]
async fn a_taint_does_not_move_existing_placements() {
    let plane = Plane::start().await;
    plane.apply(&app("web", 6, DYNAMIC)).await;
    plane
        .wait_for_binding("web-deployment", |b| !b.spec.clusters.is_empty())
        .await;
    let arguments = ["--taint", "member1=maintenance:NoSchedule"];
    let mut transcript = Transcript::new();
    let output = plane.simulate_unwritten(&arguments).await;
    output.record(&mut transcript, &arguments);
    assert_snapshot!(transcript);
    plane.server.stop().await;
}

#[needs(kubectl)]
#[tokio::test(flavor = "multi_thread")]
async fn manifests_that_the_control_plane_would_refuse_are_refused() {
    let plane = Plane::start().await;
    plane.apply(&app("web", 1, "{}")).await;
    let files = Files::new(&[(
        "bad.yaml",
        &policy(
            "web",
            "{clusterAffinity: {}, clusterAffinities: [{affinityName: a}]}",
        ),
    )]);
    let mut transcript = Transcript::new();
    for arguments in [["-f", &files.path("bad.yaml")], ["--without", "member9"]] {
        let output = plane.simulate(&arguments).await;
        output.record(&mut transcript, &arguments);
    }
    let kubeconfig = plane.files.path("kubeconfig");
    let arguments = ["--against", "nowhere", "--kubeconfig", &kubeconfig];
    simulate(&arguments).record(&mut transcript, &arguments);
    assert_snapshot!(transcript);
    plane.server.stop().await;
}
