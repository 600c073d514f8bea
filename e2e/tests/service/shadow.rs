//! Tests of the shadow mode, in which a scheduler compares its decisions with those of another scheduler, and writes
//! nothing.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use berth_api::{FederatedResourceQuota, ResourceBinding};
use berth_e2e::{BareControlPlane, Program, RunningScheduler, eventually};
use berth_scheduler::Options;
use berth_scheduler::config::QuotaEnforcement;
use berth_test_requirements::needs;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Event;
use kube::ResourceExt as _;
use kube::api::{Api, ListParams, PostParams};
use serde_json::{Value, json};

use crate::assertions::{events, scheduled};
use crate::objects::{binding, cluster, on_cluster};
use crate::process;
use crate::recorded_writes::Recording;

const ARGUMENTS: [&str; 3] = [
    "--shadow",
    "--metrics-bind-address=127.0.0.1:0",
    "--health-probe-bind-address=0",
];

/// A scheduler in shadow mode.
struct Shadow {
    program: Program,
    metrics: String,
}

impl Shadow {
    /// Starts the scheduler, and waits until it has listed all objects.
    async fn start(bare: &BareControlPlane) -> Self {
        Self::start_with(bare, &[]).await
    }

    async fn start_with(bare: &BareControlPlane, more: &[&str]) -> Self {
        let arguments = [&ARGUMENTS, more].concat();
        let program = process::start(bare.folder(), &bare.kubeconfig(), &arguments);
        let address = program.wait_for_log("serving health and metrics").await;
        let metrics = address.trim().strip_prefix("address=").unwrap().to_owned();
        program.wait_for_log("caches are filled").await;
        Self { program, metrics }
    }

    /// Returns the body of the response to a GET request.
    async fn get(&self, path: &str) -> String {
        let config = kube::Config::new(format!("http://{}", self.metrics).parse().unwrap());
        let client = kube::Client::try_from(config).unwrap();
        let request = http::Request::get(path).body(Vec::new()).unwrap();
        client.request_text(request).await.unwrap()
    }

    /// Returns the samples of the metrics with the prefix `berth_shadow_`, keyed by their name without this prefix.
    async fn samples(&self) -> BTreeMap<String, f64> {
        let text = self.get("/metrics").await;
        text.lines()
            .filter_map(|line| line.strip_prefix("berth_shadow_")?.rsplit_once(' '))
            .map(|(name, value)| (name.to_owned(), value.parse().unwrap()))
            .collect()
    }

    /// Waits until at least `count` decisions are compared, and no binding waits for the decision of the other
    /// scheduler.
    async fn wait_for_comparisons(&self, count: f64) -> BTreeMap<String, f64> {
        eventually("all comparisons", async || {
            let samples = self.samples().await;
            let all = samples["comparisons_total{result=\"equal\"}"]
                + samples["comparisons_total{result=\"different\"}"];
            if all >= count && samples["waiting_bindings"] < 0.5 {
                Ok(samples)
            } else {
                Err(format!("{all}: {samples:?}"))
            }
        })
        .await
    }
}

/// Returns `count` variations of the recorded bindings, with different names and replicas. The UIDs of the templates
/// differ too, because the scheduler breaks ties by the UID of the template.
fn variations(recording: &Recording, count: usize) -> Vec<ResourceBinding> {
    let recorded = &recording.bindings;
    let number = |index: usize| i32::try_from(index / recorded.len()).unwrap();
    (0..count)
        .map(|index| {
            let mut binding = recorded[index % recorded.len()].clone();
            binding.metadata.name = Some(format!("{}-{index}", binding.name_any()));
            binding.spec.resource.name = format!("{}-{index}", binding.spec.resource.name);
            binding.spec.resource.uid = Some(format!("uid-{index}"));
            if binding.spec.replicas > 0 {
                binding.spec.replicas += number(index) * 3;
            }
            binding
        })
        .collect()
}

/// The other scheduler is Berth with the same configuration. All 120 decisions are equal.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn decisions_of_an_equal_scheduler_agree() {
    let recording = Recording::read();
    let bare = BareControlPlane::start(&recording.clusters).await;
    let shadow = Shadow::start(&bare).await;
    let other = RunningScheduler::start(Options::embedded(), bare.remote_client().await);
    let bindings = variations(&recording, 120);
    bare.bind_all(&bindings).await;
    let samples = shadow.wait_for_comparisons(120.0).await;
    let different = samples["comparisons_total{result=\"different\"}"];
    assert!(different < 0.5, "{}", shadow.program.log());
    assert!(
        samples["other_scheduling_duration_seconds_count"] >= 120.0,
        "{samples:?}"
    );
    other.stop().await.unwrap();
    bare.stop().await;
}

/// The other scheduler lacks two plugins. The log and `/debug/shadow` list each difference, and name the plugin that
/// rejects a cluster.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_different_decision_is_counted_and_explained() {
    let recording = Recording::read();
    let bare = BareControlPlane::start(&recording.clusters).await;
    let shadow = Shadow::start(&bare).await;
    // The other scheduler ignores taints and affinities, so it places bindings in all clusters.
    let mut options = Options::embedded();
    options.declared = berth_scheduler::config::DeclaredProfiles::from_flags(
        berth_scheduler::config::ProfileFlags {
            scheduler_name: None,
            plugins: Some(vec![
                "*".to_owned(),
                "-TaintToleration".to_owned(),
                "-ClusterAffinity".to_owned(),
            ]),
        },
    );
    let other = RunningScheduler::start(options, bare.remote_client().await);
    bare.bind_all(&variations(&recording, 30)).await;
    let samples = shadow.wait_for_comparisons(30.0).await;
    assert!(
        samples["comparisons_total{result=\"different\"}"] >= 1.0,
        "{samples:?}"
    );
    let log = shadow.program.log();
    assert!(
        log.contains("decisions differ") && log.contains("ClusterAffinity: "),
        "{log}"
    );
    let listed: Value = serde_json::from_str(&shadow.get("/debug/shadow").await).unwrap();
    let differences = listed["differences"].as_array().unwrap();
    let counted = samples["comparisons_total{result=\"different\"}"];
    assert_eq!(
        format!("{}", differences.len()),
        format!("{counted}"),
        "{listed}"
    );
    for difference in differences {
        assert_ne!(difference["own"], difference["other"], "{difference}");
        let binding = difference["binding"].as_str().unwrap();
        assert!(log.contains(&format!("binding={binding} ")), "{difference}");
    }
    let reasons = |difference: &Value| difference["missing"].as_array().unwrap().clone();
    let refused = differences.iter().flat_map(reasons);
    assert!(
        refused
            .map(|cluster| cluster["plugin"].clone())
            .any(|plugin| plugin == "ClusterAffinity"),
        "{listed}"
    );
    other.stop().await.unwrap();
    bare.stop().await;
}

/// Both schedulers enforce quotas. The quota of the namespace has room for two of three bindings, so one of the decisions
/// is a refusal.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refusals_by_quotas_agree() {
    let bare = BareControlPlane::start(&[cluster("m1", 100)]).await;
    let quotas: Api<FederatedResourceQuota> = Api::namespaced(bare.client.clone(), "default");
    let quota = json!({ "metadata": { "name": "team" }, "spec": { "overall": { "cpu": "2" } } });
    let quota = serde_json::from_value(quota).unwrap();
    quotas.create(&PostParams::default(), &quota).await.unwrap();
    let enforcing = ["--feature-gates=FederatedQuotaEnforcement=true"];
    let shadow = Shadow::start_with(&bare, &enforcing).await;
    let options = Options {
        quotas: QuotaEnforcement::On,
        ..Options::embedded()
    };
    let other = RunningScheduler::start(options, bare.remote_client().await);
    let small = |name| binding(name, 1, on_cluster("m1"));
    bare.bind_all(&["a", "b"].map(small)).await;
    shadow.wait_for_comparisons(2.0).await;
    // The refusal could otherwise be stored before the placements that it counts.
    bare.bind_all(&["c"].map(small)).await;
    let samples = shadow.wait_for_comparisons(3.0).await;
    let different = samples["comparisons_total{result=\"different\"}"];
    assert!(different < 0.5, "{}", shadow.program.log());
    let refused = bare.all_bindings().await;
    let refused = refused.iter().filter_map(|binding| scheduled(binding));
    let refused = refused.filter(|condition| condition.reason == "QuotaExceeded");
    assert_eq!(refused.count(), 1);
    other.stop().await.unwrap();
    bare.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shadow_mode_writes_nothing() {
    let recording = Recording::read();
    let bare = BareControlPlane::start(&recording.clusters).await;
    let shadow = Shadow::start(&bare).await;
    bare.bind_all(&variations(&recording, 90)).await;
    let versions = async || {
        let all = bare.all_bindings().await;
        let versions = all
            .iter()
            .map(|binding| (binding.name_any(), binding.resource_version()));
        versions.collect::<BTreeMap<_, _>>()
    };
    let before = versions().await;
    eventually("the decisions", async || {
        let samples = shadow.samples().await;
        if samples["decision_duration_seconds_count"] >= 90.0 {
            Ok(())
        } else {
            Err(format!("{samples:?}"))
        }
    })
    .await;
    // A write would follow its decision. The scheduler completes its writes before it exits, so none is pending
    // afterwards.
    shadow.program.signal("TERM");
    let mut program = shadow.program;
    assert!(program.wait_for_exit().await.success());
    assert_eq!(before, versions().await);
    // A kube-apiserver also writes a lease and events about its Services. Only a scheduler records events about
    // bindings and templates.
    let of_bindings = |event: &Event| {
        let kind = event.involved_object.kind.as_deref();
        matches!(kind, Some("ResourceBinding" | "Deployment"))
    };
    let written: Vec<Event> = events(&bare)
        .await
        .into_iter()
        .filter(of_bindings)
        .collect();
    assert!(written.is_empty(), "{written:?}");
    let leases: Api<Lease> = Api::namespaced(bare.client.clone(), "karmada-system");
    let existing = leases.list(&ListParams::default()).await.unwrap().items;
    assert!(existing.is_empty(), "{existing:?}");
    bare.stop().await;
}

/// A process of Karmada's scheduler, which is killed when this value is dropped.
struct KarmadaScheduler(Child);

impl Drop for KarmadaScheduler {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The other scheduler is Karmada's scheduler. All 600 decisions are equal.
#[needs(karmada)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn decisions_of_karmadas_scheduler_agree() {
    let recording = Recording::read();
    let bare = BareControlPlane::start(&recording.clusters).await;
    let shadow = Shadow::start(&bare).await;
    let folder = PathBuf::from(std::env::var_os("BERTH_E2E_KARMADA").unwrap());
    let log = std::fs::File::create(bare.folder().join("karmada-scheduler.log")).unwrap();
    let started = Command::new(folder.join("karmada-scheduler"))
        .arg(format!("--kubeconfig={}", bare.kubeconfig().display()))
        .args([
            "--leader-elect=false",
            "--health-probe-bind-address=0",
            "--metrics-bind-address=0",
            "--kube-api-qps=1000",
            "--kube-api-burst=2000",
        ])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .spawn();
    let _other = KarmadaScheduler(started.unwrap());
    bare.bind_all(&variations(&recording, 600)).await;
    let samples = shadow.wait_for_comparisons(600.0).await;
    let different = samples["comparisons_total{result=\"different\"}"];
    assert!(different < 0.5, "{}", shadow.program.log());
    bare.stop().await;
}
