//! The verbs `filter`, `prioritize` and `bind` of extenders.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use berth_e2e::SchedulerFixture;
use berth_engine::{CycleState, PluginError};
use berth_scheduler::framework::{Bind, Bound, Decided, Plugin, Registry};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::StatusCode;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use tokio::sync::Barrier;

use crate::fixture::{config_map, start, to_all_clusters, to_best_cluster};
use berth_test_servers::FakeExtender;

/// Checks that the second extender receives only the clusters that passed the first extender. The weighted scores of
/// both extenders are added, and all requests to one extender use one connection.
#[tokio::test(flavor = "multi_thread")]
async fn filters_are_chained_and_scores_are_added() {
    let by_items = FakeExtender::responding_with(|verb, body| {
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
    let by_names = FakeExtender::responding_with(|verb, _| match verb {
        "filter" => json!({ "clusterNames": ["m2", "m3"], "failedClusters": { "m4": "no" } }),
        _ => json!([{ "host": "m3", "score": 10 }]),
    })
    .await;
    // The scores are 10·1 for m2, and 4·1 + 10·2 for m3.
    let fixture = start(json!([
        { "urlPrefix": by_items.url, "filterVerb": "filter", "prioritizeVerb": "prioritize", "weight": 1 },
        { "urlPrefix": by_names.url, "filterVerb": "filter", "prioritizeVerb": "prioritize", "weight": 2,
          "clusterCacheCapable": true },
    ]))
    .await;
    assert_eq!(
        fixture.schedule(&to_all_clusters("all")).await.unwrap(),
        ["m2", "m3"]
    );
    assert_eq!(
        fixture.schedule(&to_best_cluster("one")).await.unwrap(),
        ["m3"]
    );
    let requests = by_names.requests();
    assert_eq!(requests[0].body["clusterNames"], json!(["m2", "m3", "m4"]));
    assert_eq!(requests[0].body["binding"]["metadata"]["name"], "all");
    assert_eq!((requests.len(), by_names.connections()), (4, 1));
    assert_eq!(by_items.connections(), 1);
    fixture.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn extenders_score_concurrently() {
    // Each extender responds only after both extenders have received a request.
    let both = Arc::new(Barrier::new(2));
    let waiting_for_both = |both: Arc<Barrier>| {
        FakeExtender::with_async_script(move |_, _| {
            let both = Arc::clone(&both);
            Box::pin(async move {
                both.wait().await;
                (StatusCode::OK, "[]".to_owned())
            })
        })
    };
    let (one, other) = (
        waiting_for_both(Arc::clone(&both)).await,
        waiting_for_both(both).await,
    );
    let scores = |fake: &FakeExtender| json!({ "urlPrefix": fake.url, "prioritizeVerb": "p", "weight": 1, "httpTimeout": "1m" });
    let fixture = start(json!([scores(&one), scores(&other)])).await;
    assert_eq!(
        fixture
            .schedule(&to_all_clusters("web"))
            .await
            .unwrap()
            .len(),
        4
    );
    fixture.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_extender_is_called_for_its_managed_resources_only() {
    let extender = FakeExtender::responding_with(|_, _| json!({ "clusterNames": ["m4"] })).await;
    let fixture = start(json!([{ "urlPrefix": extender.url, "filterVerb": "filter",
        "managedResources": [{ "apiVersion": "apps/v1", "kind": "Deployment" }] }]))
    .await;
    assert_eq!(
        fixture.schedule(&to_all_clusters("web")).await.unwrap(),
        ["m4"]
    );
    assert_eq!(
        fixture
            .schedule(&config_map("settings"))
            .await
            .unwrap()
            .len(),
        4
    );
    assert_eq!(extender.requests().len(), 1);
    fixture.stop().await;
}

/// Starts an extender that stores decisions with the client that the test sends over the returned channel.
async fn binding_extender() -> (
    FakeExtender,
    tokio::sync::watch::Sender<Option<kube::Client>>,
) {
    let (sender, client) = tokio::sync::watch::channel(None::<kube::Client>);
    let extender = FakeExtender::with_async_script(move |_, body| {
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
async fn an_extender_with_a_bind_verb_stores_the_decision() {
    let (extender, sender) = binding_extender().await;
    let fixture = start(json!([{ "urlPrefix": extender.url, "bindVerb": "bind" }])).await;
    sender.send_replace(Some(fixture.bare.client.clone()));
    let name = "web";
    assert_eq!(
        fixture.schedule(&to_all_clusters(name)).await.unwrap(),
        ["m1", "m2", "m3", "m4"]
    );
    let requests = extender.requests();
    assert_eq!((requests.len(), requests[0].verb.as_str()), (1, "bind"));
    assert_eq!(
        requests[0].body["clusters"][0],
        json!({ "name": "m1", "replicas": 1 })
    );
    fixture.stop().await;
}

/// A Bind plugin that counts its calls and stores no decision.
#[derive(Debug, Default)]
struct CountingBind(AtomicUsize);

impl Bind for CountingBind {
    fn bind<'a>(
        &'a self,
        _: &'a Decided,
        _: &'a mut CycleState,
    ) -> BoxFuture<'a, Result<Bound, PluginError>> {
        self.0.fetch_add(1, Ordering::Relaxed);
        async { Ok(Bound::Skip) }.boxed()
    }
}

/// Checks that an extender with the verb `bind` stores the decision about a resource that it manages, and that the
/// scheduler then calls no Bind plugin. For other resources, the scheduler calls the plugin.
#[tokio::test(flavor = "multi_thread")]
async fn an_extender_with_a_bind_verb_precedes_bind_plugins() {
    let (extender, sender) = binding_extender().await;
    let counting = Arc::new(CountingBind::default());
    let mut registry = Registry::new();
    let bind = Arc::clone(&counting);
    let factory = move |_: &_, _: &_| Ok(Plugin::new("CountingBind").bind(bind.clone()));
    registry.register("CountingBind", factory).unwrap();
    let fixture = SchedulerFixture::start(
        registry,
        json!({
            "extenders": [{ "urlPrefix": extender.url, "bindVerb": "bind",
                "managedResources": [{ "apiVersion": "apps/v1", "kind": "Deployment" }] }],
            "profiles": [{ "plugins": { "bind": { "enabled": [{ "name": "CountingBind" }] } } }],
        }),
    )
    .await;
    sender.send_replace(Some(fixture.bare.client.clone()));
    assert_eq!(
        fixture
            .schedule(&to_all_clusters("web"))
            .await
            .unwrap()
            .len(),
        4
    );
    assert_eq!(
        (
            extender.requests().len(),
            counting.0.load(Ordering::Relaxed)
        ),
        (1, 0)
    );
    assert_eq!(
        fixture
            .schedule(&config_map("settings"))
            .await
            .unwrap()
            .len(),
        4
    );
    assert_eq!(
        (
            extender.requests().len(),
            counting.0.load(Ordering::Relaxed)
        ),
        (1, 1)
    );
    fixture.stop().await;
}
