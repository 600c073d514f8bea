//! Scores that expressions read: a change or an expiry of a score requeues the bindings that wait, and a replay of the
//! decision log repeats all decisions.

use std::time::Duration;

use berth_api::ClusterScore;
use berth_e2e::{BareControlPlane, RunningScheduler, eventually, sample};
use berth_scheduler::Options;
use berth_scheduler::decision_log::DecisionLogOptions;
use berth_scheduler::decision_log::reader::files_of;
use berth_scheduler::replay::{ReplayOptions, replay};
use k8s_openapi::jiff::Timestamp;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::{binding, options, outcome};

/// A filter by carbon intensity, in which a cluster without a valid score does not pass, and a filter by maintenance, in
/// which it does.
const CONFIGURATION: &str = "apiVersion: scheduler.config.berth/v1alpha1
kind: SchedulerConfiguration
profiles:
- plugins: {multiPoint: {enabled: [{name: Expression}]}}
  pluginConfig:
  - name: Expression
    args:
      filter:
      - expression: cluster.scores.?carbon.value.orValue(500.0) < 300.0
        message: cluster(s) emitted too much carbon
      - expression: '!has(cluster.scores.maintenance)'
        message: cluster(s) were in maintenance
";

/// Applies a ClusterScore about m1.
async fn report(
    bare: &BareControlPlane,
    name: &str,
    scores: Value,
    valid_until: Option<Timestamp>,
) {
    let mut object = json!({
        "apiVersion": "scheduling.berth/v1alpha1", "kind": "ClusterScore", "metadata": { "name": name },
        "spec": { "clusterName": "m1", "scores": scores },
    });
    if let Some(until) = valid_until {
        object["spec"]["validUntil"] = json!(until.to_string());
    }
    let api: Api<ClusterScore> = Api::all(bare.client.clone());
    api.patch(name, &PatchParams::apply("test"), &Patch::Apply(object))
        .await
        .unwrap();
}

/// Waits until the outcome of the binding `web` is a failure that contains a text.
async fn wait_for_refusal(bare: &BareControlPlane, text: &str) {
    eventually(text, async || match outcome(bare, "web").await {
        Err(message) if message.contains(text) => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_and_expiries_of_scores_requeue_bindings_and_replays_repeat_them() {
    let bare = BareControlPlane::start(&[sample::cluster("m1", json!({}))]).await;
    bare.add_namespaces(&["web".to_owned()]).await;
    let folder = bare.folder().join("log");
    let options = Options {
        decision_log: Some(DecisionLogOptions {
            folder: folder.clone(),
            max_bytes: 1 << 20,
            max_files: 2,
        }),
        ..options(CONFIGURATION)
    };
    let scheduler = RunningScheduler::start(options, bare.client.clone());
    bare.bind(&binding("web", "web")).await;
    wait_for_refusal(&bare, "1 cluster(s) emitted too much carbon").await;
    let until = Timestamp::now() + Duration::from_secs(3);
    report(
        &bare,
        "maintenance-m1",
        json!({ "maintenance": 1 }),
        Some(until),
    )
    .await;
    // A change of a score requeues the binding. Without the change, it would wait for minutes.
    report(&bare, "carbon-m1", json!({ "carbon": 120 }), None).await;
    wait_for_refusal(&bare, "1 cluster(s) were in maintenance").await;
    // The expiry requeues the binding without a write.
    eventually("the binding to be placed", async || {
        match outcome(&bare, "web").await {
            Ok(cluster) if cluster == "m1" => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    assert!(Timestamp::now().as_second() >= until.as_second());
    scheduler.stop().await.unwrap();

    let files = files_of(&[folder]).unwrap();
    let options = ReplayOptions {
        differences: 10,
        ..ReplayOptions::default()
    };
    let repeated = tokio::task::spawn_blocking(move || replay(&files, &options).unwrap());
    let repeated = serde_json::to_value(repeated.await.unwrap()).unwrap();
    assert_eq!(
        repeated["differences"].as_array().map_or(0, Vec::len),
        0,
        "{repeated}"
    );
    assert!(
        repeated["counts"]["decisions"].as_u64() >= Some(3),
        "{repeated}"
    );
    bare.stop().await;
}
