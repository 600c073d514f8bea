//! Tests of filter calls, prioritize calls and `managedResources`, with one or several extenders.

use std::sync::Arc;

use axum::http::StatusCode;
use berth_test_servers::FakeExtender;
use serde_json::json;
use tokio::sync::Barrier;

use super::fake::{config, sent};
use super::harness::{Harness, everywhere, placed, to_one};

#[tokio::test]
async fn each_filter_receives_the_clusters_that_passed_the_previous_filter() {
    let by_items = FakeExtender::responding_with(|_, body| {
        let items = body["clusters"]["items"].as_array().unwrap();
        let passing: Vec<_> = items.iter().filter(|item| item["metadata"]["labels"]["number"] != "1").collect();
        json!({ "clusters": { "items": passing }, "failedClusters": { "m1": "cluster(s) had number one" } })
    })
    .await;
    let by_names = FakeExtender::responding_with(|_, _| json!({ "clusterNames": ["m3", "m4"], "failedAndUnresolvableClusters": { "m2": "x" } })).await;
    let mut harness = Harness::new(&[
        config(&by_items.url, json!({ "filterVerb": "filter" })),
        config(
            &by_names.url,
            json!({ "filterVerb": "filter", "clusterCacheCapable": true }),
        ),
    ]);
    let decision = harness.decide(&everywhere()).await;
    assert_eq!(decision.clusters().unwrap(), ["m3", "m4"]);
    assert_eq!((decision.runs, decision.calls), (3, 2));

    let first = &by_items.requests()[0].body;
    assert_eq!(sent(first), ["m1", "m2", "m3", "m4"]);
    assert_eq!(first["clusters"]["items"][0]["kind"], "Cluster");
    assert_eq!(first["clusters"]["items"][0]["spec"]["syncMode"], "Push");
    assert_eq!(first["binding"]["kind"], "ResourceBinding");
    assert_eq!(first["binding"]["apiVersion"], "work.karmada.io/v1alpha2");
    assert_eq!(first["binding"]["metadata"]["uid"], "u-1");
    assert_eq!(first["binding"]["spec"]["resource"]["name"], "web");
    assert_eq!(sent(&by_names.requests()[0].body), ["m2", "m3", "m4"]);
}

#[tokio::test]
async fn the_reason_for_each_rejected_cluster_is_shown() {
    let none = FakeExtender::responding_with(|_, _| {
        json!({ "clusterNames": [], "failedClusters": { "m1": "full", "m2": "full" }, "failedAndUnresolvableClusters": { "m3": "no licence" } })
    })
    .await;
    let second = FakeExtender::responding_with(|_, _| json!({})).await;
    let mut harness = Harness::new(&[
        config(
            &none.url,
            json!({ "filterVerb": "filter", "clusterCacheCapable": true }),
        ),
        config(&second.url, json!({ "filterVerb": "filter" })),
    ]);
    let error = harness.decide(&everywhere()).await.clusters().unwrap_err();
    assert_eq!(
        error,
        "0/4 clusters are available: 1 cluster(s) did not pass an extender, 1 no licence, 2 full."
    );
    assert!(
        second.requests().is_empty(),
        "no cluster was left to filter"
    );
}

#[tokio::test]
async fn each_affinity_term_has_its_own_request() {
    let extender = FakeExtender::responding_with(|_, body| json!({ "clusterNames": sent(body).iter().filter(|name| *name == "m4").collect::<Vec<_>>() })).await;
    let mut harness = Harness::new(&[config(
        &extender.url,
        json!({ "filterVerb": "filter", "clusterCacheCapable": true }),
    )]);
    let binding = placed(json!({ "clusterAffinities": [
        { "affinityName": "first", "clusterNames": ["m1", "m2"] },
        { "affinityName": "second", "clusterNames": ["m3", "m4"] },
    ] }));
    let decision = harness.decide(&binding).await;
    assert_eq!(decision.clusters().unwrap(), ["m4"]);
    let requested: Vec<_> = extender
        .requests()
        .iter()
        .map(|request| sent(&request.body))
        .collect();
    assert_eq!(requested, [["m1", "m2"], ["m3", "m4"]]);
}

#[tokio::test]
async fn scores_are_scaled_weighted_and_added() {
    // Each score is multiplied by the weight and by 10. If the second extender has the weight 2, m1 has 10·3·10 = 300
    // and m2 has 4·3·10 + 10·2·10 = 320.
    let one = FakeExtender::responding_with(
        |_, _| json!([{ "host": "m1", "score": 10 }, { "host": "m2", "score": 4 }]),
    )
    .await;
    let other = FakeExtender::responding_with(
        |_, _| json!([{ "host": "m2", "score": 10 }, { "host": "m3", "score": 0 }]),
    )
    .await;
    for (weight, winner) in [(2, "m2"), (1, "m1")] {
        let mut harness = Harness::new(&[
            config(
                &one.url,
                json!({ "prioritizeVerb": "prioritize", "weight": 3 }),
            ),
            config(
                &other.url,
                json!({ "prioritizeVerb": "prioritize", "weight": weight, "clusterCacheCapable": true }),
            ),
        ]);
        let decision = harness.decide(&to_one()).await;
        assert_eq!(decision.clusters().unwrap(), [winner], "weight {weight}");
        assert_eq!((decision.runs, decision.calls), (2, 2));
    }
}

#[tokio::test]
async fn scores_of_several_extenders_are_requested_concurrently() {
    // Each extender responds only after both extenders have received a request.
    let both = Arc::new(Barrier::new(2));
    let start = |both: Arc<Barrier>| {
        FakeExtender::with_async_script(move |_, _| {
            let both = Arc::clone(&both);
            Box::pin(async move {
                both.wait().await;
                (StatusCode::OK, "[]".to_owned())
            })
        })
    };
    let (one, other) = (start(Arc::clone(&both)).await, start(both).await);
    let fields = json!({ "prioritizeVerb": "prioritize", "weight": 1, "httpTimeout": "1m" });
    let mut harness = Harness::new(&[config(&one.url, fields.clone()), config(&other.url, fields)]);
    let decision = harness.decide(&everywhere()).await;
    assert_eq!(decision.clusters().unwrap().len(), 4);
    assert_eq!((one.requests().len(), other.requests().len()), (1, 1));
}

#[tokio::test]
async fn extenders_are_called_for_managed_resources_only() {
    let extender = FakeExtender::responding_with(|_, _| json!({})).await;
    for (managed, called) in [
        (json!([]), true),
        (
            json!([{ "apiVersion": "apps/v1", "kind": "Deployment" }]),
            true,
        ),
        (
            json!([{ "apiVersion": "apps/v1", "kind": "StatefulSet" }, { "apiVersion": "v1", "kind": "Deployment" }]),
            false,
        ),
    ] {
        let before = extender.requests().len();
        let mut harness = Harness::new(&[config(
            &extender.url,
            json!({ "filterVerb": "filter", "managedResources": managed }),
        )]);
        let decision = harness.decide(&everywhere()).await;
        assert_eq!(
            extender.requests().len() - before,
            usize::from(called),
            "{managed}"
        );
        assert_eq!(decision.clusters().is_err(), called);
    }
}
