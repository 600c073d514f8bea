//! Filters in a chain, scores that are added, and whom they concern.

use std::sync::Arc;

use axum::http::StatusCode;
use serde_json::json;
use tokio::sync::Barrier;

use super::fake::{Fake, sent};
use super::rounds::{Rounds, everywhere, placed, to_one};

#[tokio::test]
async fn each_filter_gets_what_the_one_before_it_left() {
    let by_items = Fake::answering(|_, body| {
        let items = body["clusters"]["items"].as_array().unwrap();
        let passing: Vec<_> = items.iter().filter(|item| item["metadata"]["labels"]["number"] != "1").collect();
        json!({ "clusters": { "items": passing }, "failedClusters": { "m1": "cluster(s) had number one" } })
    })
    .await;
    let by_names = Fake::answering(|_, _| json!({ "clusterNames": ["m3", "m4"], "failedAndUnresolvableClusters": { "m2": "x" } })).await;
    let mut rounds = Rounds::new(&[
        by_items.config(json!({ "filterVerb": "filter" })),
        by_names.config(json!({ "filterVerb": "filter", "clusterCacheCapable": true })),
    ]);
    let ended = rounds.decide(&everywhere()).await;
    assert_eq!(ended.clusters().unwrap(), ["m3", "m4"]);
    assert_eq!((ended.rounds, ended.calls), (3, 2));

    let first = &by_items.came()[0].body;
    assert_eq!(sent(first), ["m1", "m2", "m3", "m4"]);
    assert_eq!(first["clusters"]["items"][0]["kind"], "Cluster");
    assert_eq!(first["clusters"]["items"][0]["spec"]["syncMode"], "Push");
    assert_eq!(first["binding"]["kind"], "ResourceBinding");
    assert_eq!(first["binding"]["apiVersion"], "work.karmada.io/v1alpha2");
    assert_eq!(first["binding"]["metadata"]["uid"], "u-1");
    assert_eq!(first["binding"]["spec"]["resource"]["name"], "web");
    assert_eq!(sent(&by_names.came()[0].body), ["m2", "m3", "m4"]);
}

#[tokio::test]
async fn reasons_of_extenders_are_shown_by_cluster() {
    let none = Fake::answering(|_, _| {
        json!({ "clusterNames": [], "failedClusters": { "m1": "full", "m2": "full" }, "failedAndUnresolvableClusters": { "m3": "no licence" } })
    })
    .await;
    let never = Fake::answering(|_, _| json!({})).await;
    let mut rounds = Rounds::new(&[
        none.config(json!({ "filterVerb": "filter", "clusterCacheCapable": true })),
        never.config(json!({ "filterVerb": "filter" })),
    ]);
    let error = rounds.decide(&everywhere()).await.clusters().unwrap_err();
    assert_eq!(
        error,
        "0/4 clusters are available: 1 cluster(s) did not pass an extender, 1 no licence, 2 full."
    );
    assert!(never.came().is_empty(), "nothing was left to ask about");
}

#[tokio::test]
async fn each_affinity_term_is_a_question_of_its_own() {
    let extender = Fake::answering(|_, body| json!({ "clusterNames": sent(body).iter().filter(|name| *name == "m4").collect::<Vec<_>>() })).await;
    let mut rounds = Rounds::new(&[
        extender.config(json!({ "filterVerb": "filter", "clusterCacheCapable": true }))
    ]);
    let binding = placed(json!({ "clusterAffinities": [
        { "affinityName": "first", "clusterNames": ["m1", "m2"] },
        { "affinityName": "second", "clusterNames": ["m3", "m4"] },
    ] }));
    let ended = rounds.decide(&binding).await;
    assert_eq!(ended.clusters().unwrap(), ["m4"]);
    let asked: Vec<_> = extender
        .came()
        .iter()
        .map(|came| sent(&came.body))
        .collect();
    assert_eq!(asked, [["m1", "m2"], ["m3", "m4"]]);
}

#[tokio::test]
async fn scores_are_scaled_weighted_and_added() {
    // m1: 10·3·10 = 300; m2: 4·3·10 + 10·2·10 = 320.
    let one = Fake::answering(
        |_, _| json!([{ "host": "m1", "score": 10 }, { "host": "m2", "score": 4 }]),
    )
    .await;
    let other = Fake::answering(
        |_, _| json!([{ "host": "m2", "score": 10 }, { "host": "m3", "score": 0 }]),
    )
    .await;
    for (weight, winner) in [(2, "m2"), (1, "m1")] {
        let mut rounds = Rounds::new(&[
            one.config(json!({ "prioritizeVerb": "prioritize", "weight": 3 })),
            other.config(json!({ "prioritizeVerb": "prioritize", "weight": weight, "clusterCacheCapable": true })),
        ]);
        let ended = rounds.decide(&to_one()).await;
        assert_eq!(ended.clusters().unwrap(), [winner], "weight {weight}");
        assert_eq!((ended.rounds, ended.calls), (2, 2));
    }
}

#[tokio::test]
async fn independent_extenders_are_asked_for_scores_at_the_same_time() {
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
    let fields = json!({ "prioritizeVerb": "prioritize", "weight": 1, "httpTimeout": "1m" });
    let mut rounds = Rounds::new(&[one.config(fields.clone()), other.config(fields)]);
    let ended = rounds.decide(&everywhere()).await;
    assert_eq!(ended.clusters().unwrap().len(), 4);
    assert_eq!((one.came().len(), other.came().len()), (1, 1));
}

#[tokio::test]
async fn an_extender_is_asked_about_its_resources_only() {
    let extender = Fake::answering(|_, _| json!({})).await;
    for (managed, asked) in [
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
        let before = extender.came().len();
        let mut rounds = Rounds::new(&[
            extender.config(json!({ "filterVerb": "filter", "managedResources": managed }))
        ]);
        let ended = rounds.decide(&everywhere()).await;
        assert_eq!(
            extender.came().len() - before,
            usize::from(asked),
            "{managed}"
        );
        assert_eq!(ended.clusters().is_err(), asked);
    }
}
