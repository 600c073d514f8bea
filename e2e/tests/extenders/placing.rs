//! Filter, prioritize and bind.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use berth_core::{CycleState, PluginError};
use berth_scheduler::framework::{Bind, Bound, Decided, Plugin, Registry};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::StatusCode;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use tokio::sync::Barrier;

use crate::fake::Fake;
use crate::scene::{Plane, Scene, config_map, everywhere, to_one};

#[tokio::test(flavor = "multi_thread")]
async fn filters_chain_and_scores_add_up() {
    let by_items = Fake::answering(|verb, body| {
        let items = body["clusters"]["items"].as_array().unwrap();
        match verb {
            "filter" => {
                let passing: Vec<_> = items
                    .iter()
                    .filter(|item| item["metadata"]["labels"]["number"] != "1")
                    .collect();
                json!({ "clusters": { "items": passing } })
            }
            _ => json!([{ "host": "m2", "score": 10 }, { "host": "m3", "score": 4 }]),
        }
    })
    .await;
    let by_names = Fake::answering(|verb, _| match verb {
        "filter" => json!({ "clusterNames": ["m2", "m3"], "failedClusters": { "m4": "no" } }),
        _ => json!([{ "host": "m3", "score": 10 }]),
    })
    .await;
    // m2: 10·1; m3: 4·1 + 10·2.
    let scene = Scene::start(json!([
        { "urlPrefix": by_items.url, "filterVerb": "filter", "prioritizeVerb": "prioritize", "weight": 1 },
        { "urlPrefix": by_names.url, "filterVerb": "filter", "prioritizeVerb": "prioritize", "weight": 2,
          "clusterCacheCapable": true },
    ]))
    .await;
    assert_eq!(scene.place(&everywhere("all")).await.unwrap(), ["m2", "m3"]);
    assert_eq!(scene.place(&to_one("one")).await.unwrap(), ["m3"]);
    let came = by_names.came();
    assert_eq!(came[0].body["clusterNames"], json!(["m2", "m3", "m4"]));
    assert_eq!(came[0].body["binding"]["metadata"]["name"], "all");
    assert_eq!((came.len(), by_names.connections()), (4, 1));
    assert_eq!(by_items.connections(), 1);
    scene.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn scores_are_asked_for_at_the_same_time() {
    // Neither answers before both have been asked.
    let both = Arc::new(Barrier::new(2));
    let meets = |both: Arc<Barrier>| {
        Fake::taking_its_time(move |_, _| {
            let both = Arc::clone(&both);
            Box::pin(async move {
                both.wait().await;
                (StatusCode::OK, "[]".to_owned())
            })
        })
    };
    let (one, other) = (meets(Arc::clone(&both)).await, meets(both).await);
    let scores = |fake: &Fake| json!({ "urlPrefix": fake.url, "prioritizeVerb": "p", "weight": 1, "httpTimeout": "1m" });
    let scene = Scene::start(json!([scores(&one), scores(&other)])).await;
    assert_eq!(scene.place(&everywhere("web")).await.unwrap().len(), 4);
    scene.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_extender_is_asked_about_its_resources_only() {
    let extender = Fake::answering(|_, _| json!({ "clusterNames": ["m4"] })).await;
    let scene = Scene::start(json!([{ "urlPrefix": extender.url, "filterVerb": "filter",
        "managedResources": [{ "apiVersion": "apps/v1", "kind": "Deployment" }] }]))
    .await;
    assert_eq!(scene.place(&everywhere("web")).await.unwrap(), ["m4"]);
    assert_eq!(scene.place(&config_map("settings")).await.unwrap().len(), 4);
    assert_eq!(extender.came().len(), 1);
    scene.stop().await;
}

/// An extender that stores decisions, once it has a client.
async fn storing() -> (Fake, tokio::sync::watch::Sender<Option<kube::Client>>) {
    let (sender, client) = tokio::sync::watch::channel(None::<kube::Client>);
    let extender = Fake::taking_its_time(move |_, body| {
        let mut client = client.clone();
        Box::pin(async move {
            let client = client.wait_for(Option::is_some).await.unwrap().clone().unwrap();
            let namespace = body["bindingNamespace"].as_str().unwrap();
            let api: kube::Api<berth_api::ResourceBinding> = kube::Api::namespaced(client, namespace);
            let patch = json!({ "metadata": { "uid": body["bindingUID"] }, "spec": { "clusters": body["clusters"] } });
            let patch = Patch::Merge(patch);
            let name = body["bindingName"].as_str().unwrap();
            let stored = api.patch(name, &PatchParams::default(), &patch).await;
            let error = stored.err().map(|error| error.to_string());
            (StatusCode::OK, json!({ "error": error }).to_string())
        })
    })
    .await;
    (extender, sender)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_extender_stores_the_decision() {
    let (extender, sender) = storing().await;
    let scene = Scene::start(json!([{ "urlPrefix": extender.url, "bindVerb": "bind" }])).await;
    sender.send_replace(Some(scene.bare.client.clone()));
    let name = "web";
    assert_eq!(
        scene.place(&everywhere(name)).await.unwrap(),
        ["m1", "m2", "m3", "m4"]
    );
    let came = extender.came();
    assert_eq!((came.len(), came[0].verb.as_str()), (1, "bind"));
    assert_eq!(
        came[0].body["clusters"][0],
        json!({ "name": "m1", "replicas": 1 })
    );
    scene.stop().await;
}

/// Counts what it is asked to store, and leaves it to others.
#[derive(Debug, Default)]
struct Counting(AtomicUsize);

impl Bind for Counting {
    fn bind<'a>(
        &'a self,
        _: &'a Decided,
        _: &'a mut CycleState,
    ) -> BoxFuture<'a, Result<Bound, PluginError>> {
        self.0.fetch_add(1, Ordering::Relaxed);
        async { Ok(Bound::Skip) }.boxed()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_extender_that_is_interested_stores_before_any_plugin() {
    let (extender, sender) = storing().await;
    let counting = Arc::new(Counting::default());
    let mut registry = Registry::new();
    let bind = Arc::clone(&counting);
    let factory = move |_: &_, _: &_| Ok(Plugin::new("Counting").bind(bind.clone()));
    registry.register("Counting", factory).unwrap();
    let scene = Plane::start().await.with_plugins(
        registry,
        json!({
            "extenders": [{ "urlPrefix": extender.url, "bindVerb": "bind",
                "managedResources": [{ "apiVersion": "apps/v1", "kind": "Deployment" }] }],
            "profiles": [{ "plugins": { "bind": { "enabled": [{ "name": "Counting" }] } } }],
        }),
    );
    sender.send_replace(Some(scene.bare.client.clone()));
    assert_eq!(scene.place(&everywhere("web")).await.unwrap().len(), 4);
    assert_eq!(
        (extender.came().len(), counting.0.load(Ordering::Relaxed)),
        (1, 0)
    );
    assert_eq!(scene.place(&config_map("settings")).await.unwrap().len(), 4);
    assert_eq!(
        (extender.came().len(), counting.0.load(Ordering::Relaxed)),
        (1, 1)
    );
    scene.stop().await;
}
