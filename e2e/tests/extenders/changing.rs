//! Extenders that change while the scheduler runs.

use berth_e2e::{Running, eventually};
use berth_scheduler::Options;
use k8s_openapi::api::core::v1::{ConfigMap, Event};
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::fake::Fake;
use crate::scene::{Plane, Scene, everywhere};

/// An extender that lets one cluster pass.
async fn letting_pass(cluster: &'static str) -> Fake {
    Fake::answering(move |_, _| json!({ "clusterNames": [cluster] })).await
}

fn config(extender: &Fake) -> Value {
    let text = json!({
        "apiVersion": "scheduler.config.berth/v1alpha1", "kind": "SchedulerConfiguration",
        "extenders": [{ "urlPrefix": extender.url, "filterVerb": "filter", "clusterCacheCapable": true }],
    });
    json!({ "metadata": { "name": "extenders" }, "data": { "config.yaml": text.to_string() } })
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_decision_asks_the_extender_that_the_config_map_names_now() {
    let (old, new) = (letting_pass("m1").await, letting_pass("m2").await);
    let Plane { bare } = Plane::start().await;
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
    let scheduler = Running::start(options, bare.client.clone());
    let scene = Scene { bare, scheduler };
    assert_eq!(scene.place(&everywhere("first")).await.unwrap(), ["m1"]);

    let change = Patch::Merge(config(&new));
    config_maps
        .patch("extenders", &PatchParams::default(), &change)
        .await
        .unwrap();
    // The event is recorded when the next decision is made by the new configuration.
    let events: Api<Event> = Api::namespaced(scene.bare.client.clone(), "default");
    eventually("the reload", async || {
        let all = events.list(&ListParams::default()).await.unwrap();
        let mut reasons = all.items.into_iter().filter_map(|event| event.reason);
        reasons
            .find(|reason| reason == "ConfigurationReloaded")
            .ok_or("not yet")
    })
    .await;
    let asked_before = old.came().len();
    assert_eq!(scene.place(&everywhere("second")).await.unwrap(), ["m2"]);
    assert_eq!(
        old.came().len(),
        asked_before,
        "the former extender is asked no more"
    );
    let agents: Vec<String> = new.came().into_iter().map(|came| came.agent).collect();
    assert!(
        agents
            .iter()
            .all(|agent| agent.starts_with("berth-scheduler/")),
        "{agents:?}"
    );
    assert!(!agents.is_empty());
    scene.stop().await;
}
