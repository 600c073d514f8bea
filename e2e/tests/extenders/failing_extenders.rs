//! Extenders that fail, reject clusters, or respond late, and the effect on bindings.

use std::sync::Arc;

use http::StatusCode;
use serde_json::json;
use tokio::sync::Semaphore;

use crate::fixture::{config_map, start, to_all_clusters};
use berth_test_servers::FakeExtender;

/// Checks that a failed call of an extender fails the scheduling of the binding, and that the failure of an ignorable
/// extender has no effect.
#[tokio::test(flavor = "multi_thread")]
async fn a_failed_call_fails_the_binding_unless_the_extender_is_ignorable() {
    for (status, body, error) in [
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
        let extender = FakeExtender::with_async_script(move |_, _| {
            Box::pin(async move {
                match StatusCode::from_u16(status) {
                    Ok(status) => (status, body.to_owned()),
                    Err(_) => std::future::pending().await,
                }
            })
        })
        .await;
        for ignorable in [false, true] {
            let fixture = start(json!([{ "urlPrefix": extender.url, "filterVerb": "filter",
                "httpTimeout": "100ms", "ignorable": ignorable }]))
            .await;
            let outcome = fixture.schedule(&to_all_clusters("web")).await;
            if ignorable {
                assert_eq!(outcome.unwrap().len(), 4, "{error}");
            } else {
                let (reason, message) = outcome.unwrap_err();
                assert_eq!(reason, "SchedulerError", "{message}");
                let expected = format!(
                    "plugin \"extender {}\" failed at Filter: {error}",
                    extender.url
                );
                assert!(message.starts_with(&expected), "{message}");
            }
            fixture.stop().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rejection_reasons_of_extenders_appear_in_the_condition() {
    let extender = FakeExtender::responding_with(|_, _| {
        json!({ "failedClusters": { "m1": "full", "m2": "full" }, "failedAndUnresolvableClusters": { "m3": "never" } })
    })
    .await;
    let fixture = start(json!([{ "urlPrefix": extender.url, "filterVerb": "filter" }])).await;
    let (reason, message) = fixture.schedule(&to_all_clusters("web")).await.unwrap_err();
    assert_eq!(reason, "NoClusterFit");
    assert_eq!(
        message,
        "0/4 clusters are available: 1 cluster(s) did not pass an extender, 1 never, 2 full."
    );
    fixture.stop().await;
}

/// Checks that a ConfigMap is scheduled at once while an extender that manages only Deployments delays 300 bindings.
#[tokio::test(flavor = "multi_thread")]
async fn a_slow_extender_delays_only_the_bindings_it_manages() {
    let gate = Arc::new(Semaphore::new(0));
    let passes = Arc::clone(&gate);
    let slow = FakeExtender::with_async_script(move |_, _| {
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
    let fixture = start(
        json!([{ "urlPrefix": slow.url, "filterVerb": "filter", "httpTimeout": "5m",
        "managedResources": [{ "apiVersion": "apps/v1", "kind": "Deployment" }] }]),
    )
    .await;
    // The number of these bindings exceeds the number of bindings that can wait for extenders at the same time.
    let delayed: Vec<_> = (0..300)
        .map(|number| to_all_clusters(&format!("delayed-{number}")))
        .collect();
    fixture.bare.bind_all(&delayed).await;
    assert_eq!(
        fixture
            .schedule(&config_map("settings"))
            .await
            .unwrap()
            .len(),
        4
    );
    gate.add_permits(10_000);
    for number in [0, 150, 299] {
        assert_eq!(
            fixture.outcome(&format!("delayed-{number}")).await.unwrap(),
            ["m1"]
        );
    }
    fixture.stop().await;
}
