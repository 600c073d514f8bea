//! A change of the extenders in the scheduler's ConfigMap while the scheduler runs.

use berth_e2e::SchedulerFixture;
use berth_e2e::events::{self, Wanted};
use berth_e2e::scheduler_fixture::four_clusters;
use berth_scheduler::Options;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::fixture::to_all_clusters;
use berth_test_servers::FakeExtender;

/// Starts an extender whose filter accepts only this cluster.
async fn accepting_only(cluster: &'static str) -> FakeExtender {
    FakeExtender::responding_with(move |_, _| json!({ "clusterNames": [cluster] })).await
}

/// Returns a ConfigMap with a scheduler configuration that names this extender.
fn config(extender: &FakeExtender) -> Value {
    let text = json!({
        "apiVersion": "scheduler.config.berth/v1alpha1", "kind": "SchedulerConfiguration",
        "extenders": [{ "urlPrefix": extender.url, "filterVerb": "filter", "clusterCacheCapable": true }],
    });
    json!({ "metadata": { "name": "extenders" }, "data": { "config.yaml": text.to_string() } })
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_decision_calls_the_extender_of_the_updated_config_map() {
    let (old, new) = (accepting_only("m1").await, accepting_only("m2").await);
    let bare = four_clusters().await;
    let config_maps: Api<ConfigMap> = Api::namespaced(bare.client.clone(), "default");
    let object = serde_json::from_value(config(&old)).unwrap();
    config_maps
        .create(&PostParams::default(), &object)
        .await
        .unwrap();
    let options = Options {
        config_map: Some("default/extenders".parse().unwrap()),
        ..Options::embedded()
    };
    let fixture = SchedulerFixture::start_with_options(bare, options);
    assert_eq!(
        fixture.schedule(&to_all_clusters("first")).await.unwrap(),
        ["m1"]
    );

    let change = Patch::Merge(config(&new));
    config_maps
        .patch("extenders", &PatchParams::default(), &change)
        .await
        .unwrap();
    // The scheduler records the event `ConfigurationReloaded` after it has applied the new configuration. From then on,
    // decisions use this configuration.
    let reloaded = Wanted {
        reason: "ConfigurationReloaded",
        ..Wanted::default()
    };
    events::wait_for(&fixture.bare.client, "default", reloaded).await;
    let calls_before = old.requests().len();
    assert_eq!(
        fixture.schedule(&to_all_clusters("second")).await.unwrap(),
        ["m2"]
    );
    assert_eq!(
        old.requests().len(),
        calls_before,
        "the scheduler must not call the previous extender"
    );
    let agents: Vec<String> = new
        .requests()
        .into_iter()
        .map(|request| request.agent)
        .collect();
    assert!(
        agents
            .iter()
            .all(|agent| agent.starts_with("berth-scheduler/")),
        "{agents:?}"
    );
    assert!(!agents.is_empty());
    fixture.stop().await;
}
