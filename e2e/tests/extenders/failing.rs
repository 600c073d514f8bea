//! Extenders that fail, and who does not suffer from it.

use std::sync::Arc;

use http::StatusCode;
use serde_json::json;
use tokio::sync::Semaphore;

use crate::fake::Fake;
use crate::scene::{Scene, config_map, everywhere};

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_used_fails_the_binding_unless_ignorable() {
    for (status, body, said) in [
        (
            500,
            "{}",
            "the response status is 500 Internal Server Error",
        ),
        (200, "{\"clusterNames\": [", "malformed response: "),
        (
            200,
            "{\"clusterNames\": [\"m9\"]}",
            "the response names cluster \"m9\", which was not sent",
        ),
        (200, "{\"error\": \"no database\"}", "no database"),
        (0, "", "no response within 100ms"),
    ] {
        let extender = Fake::taking_its_time(move |_, _| {
            Box::pin(async move {
                match StatusCode::from_u16(status) {
                    Ok(status) => (status, body.to_owned()),
                    Err(_) => std::future::pending().await,
                }
            })
        })
        .await;
        for ignorable in [false, true] {
            let scene = Scene::start(json!([{ "urlPrefix": extender.url, "filterVerb": "filter",
                "httpTimeout": "100ms", "ignorable": ignorable }]))
            .await;
            let outcome = scene.place(&everywhere("web")).await;
            if ignorable {
                assert_eq!(outcome.unwrap().len(), 4, "{said}");
            } else {
                let (reason, message) = outcome.unwrap_err();
                assert_eq!(reason, "SchedulerError", "{message}");
                let expected = format!(
                    "plugin \"extender {}\" failed at Filter: {said}",
                    extender.url
                );
                assert!(message.starts_with(&expected), "{message}");
            }
            scene.stop().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn reasons_of_extenders_are_in_the_condition() {
    let extender = Fake::answering(|_, _| {
        json!({ "failedClusters": { "m1": "full", "m2": "full" }, "failedAndUnresolvableClusters": { "m3": "never" } })
    })
    .await;
    let scene = Scene::start(json!([{ "urlPrefix": extender.url, "filterVerb": "filter" }])).await;
    let (reason, message) = scene.place(&everywhere("web")).await.unwrap_err();
    assert_eq!(reason, "NoClusterFit");
    assert_eq!(
        message,
        "0/4 clusters are available: 1 cluster(s) did not pass an extender, 1 never, 2 full."
    );
    scene.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_extender_holds_up_its_own_bindings_only() {
    let gate = Arc::new(Semaphore::new(0));
    let passes = Arc::clone(&gate);
    let slow = Fake::taking_its_time(move |_, _| {
        let gate = Arc::clone(&passes);
        Box::pin(async move {
            let _ = gate.acquire().await;
            (
                StatusCode::OK,
                json!({ "clusterNames": ["m1"] }).to_string(),
            )
        })
    })
    .await;
    let scene = Scene::start(
        json!([{ "urlPrefix": slow.url, "filterVerb": "filter", "httpTimeout": "5m",
        "managedResources": [{ "apiVersion": "apps/v1", "kind": "Deployment" }] }]),
    )
    .await;
    // More than may wait for extenders at the same time.
    let held: Vec<_> = (0..300)
        .map(|number| everywhere(&format!("held-{number}")))
        .collect();
    scene.bare.bind_all(&held).await;
    assert_eq!(scene.place(&config_map("settings")).await.unwrap().len(), 4);
    gate.add_permits(10_000);
    for number in [0, 150, 299] {
        assert_eq!(
            scene.outcome(&format!("held-{number}")).await.unwrap(),
            ["m1"]
        );
    }
    scene.stop().await;
}
