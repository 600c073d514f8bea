//! Scores that expressions read: a change or an expiry of a score requeues the bindings that wait, and a replay of the
//! decision log repeats all decisions.

use std::time::Duration;

use berth_api::ClusterScore;
use berth_e2e::{BareControlPlane, RunningScheduler, eventually, sample};
use berth_scheduler::Options;
use berth_scheduler::decision_log::DecisionLogOptions;
use berth_scheduler::decision_log::reader::files_of;
use berth_scheduler::replay::{ReplayOptions, replay};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::jiff::Timestamp;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};

use crate::{binding, options, outcome};

/// A filter by carbon intensity, in which a cluster without a valid score does not pass, and a filter by maintenance,
/// in which it does.
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

/// A configuration that reads no scores, and whose filter rejects every cluster.
const CLOSED: &str = "apiVersion: scheduler.config.berth/v1alpha1
kind: SchedulerConfiguration
profiles:
- plugins: {multiPoint: {enabled: [{name: Expression}]}}
  pluginConfig: [{name: Expression, args: {filter: [{expression: 'false', message: closed}]}}]
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reload_with_an_expression_that_reads_scores_starts_the_watch() {
    let bare = BareControlPlane::start(&[sample::cluster("m1", json!({}))]).await;
    bare.add_namespaces(&["web".to_owned()]).await;
    report(&bare, "carbon-m1", json!({ "carbon": 120 }), None).await;
    let config_maps: Api<ConfigMap> = Api::namespaced(bare.client.clone(), "web");
    let configure = async |text: &str| {
        let object = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "config" },
            "data": { "config.yaml": text } });
        let patch = Patch::Apply(object);
        let parameters = PatchParams::apply("test");
        let applied = config_maps.patch("config", &parameters, &patch).await;
        applied.unwrap();
    };
    configure(CLOSED).await;
    let options = Options {
        config_map: Some("web/config".parse().unwrap()),
        ..Options::embedded()
    };
    let scheduler = RunningScheduler::start(options, bare.client.clone());
    bare.bind(&binding("web", "web")).await;
    wait_for_refusal(&bare, "1 closed").await;
    configure(CONFIGURATION).await;
    eventually("the binding to be placed", async || {
        outcome(&bare, "web").await.map(drop)
    })
    .await;
    scheduler.stop().await.unwrap();
    bare.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_definition_scores_are_absent() {
    let bare = BareControlPlane::start(&[sample::cluster("m1", json!({}))]).await;
    bare.add_namespaces(&["web".to_owned()]).await;
    let definitions: Api<CustomResourceDefinition> = Api::all(bare.client.clone());
    let name = "clusterscores.scheduling.berth";
    let parameters = DeleteParams::default();
    definitions.delete(name, &parameters).await.unwrap();
    eventually("the definition to be deleted", async || {
        match definitions.get_opt(name).await {
            Ok(None) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    let scheduler = RunningScheduler::start(options(CONFIGURATION), bare.client.clone());
    bare.bind(&binding("web", "web")).await;
    wait_for_refusal(&bare, "1 cluster(s) emitted too much carbon").await;
    scheduler.stop().await.unwrap();
    bare.stop().await;
}
