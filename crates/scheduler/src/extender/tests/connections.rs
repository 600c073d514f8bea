//! Tests of the reuse of connections to extenders, and of the limit of concurrent calls.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::http::StatusCode;
use berth_test_servers::FakeExtender;
use serde_json::json;
use tokio::sync::Semaphore;

use super::fake::config;
use super::harness::{Harness, everywhere, soon};
use crate::extender::Answers;

#[tokio::test]
async fn sequential_calls_share_one_connection() {
    let extender = FakeExtender::responding_with(|verb, _| match verb {
        "filter" => json!({ "clusterNames": ["m1", "m2"] }),
        _ => json!([{ "host": "m1", "score": 5 }]),
    })
    .await;
    let fields = json!({ "filterVerb": "filter", "prioritizeVerb": "prioritize", "weight": 1 });
    let mut harness = Harness::new(&[config(&extender.url, fields)]);
    for _ in 0..5 {
        harness.decide(&everywhere()).await;
    }
    let requests = extender.requests();
    let filters = requests
        .iter()
        .filter(|request| request.verb == "filter")
        .count();
    let connections: BTreeSet<usize> = requests.iter().map(|request| request.connection).collect();
    assert_eq!((requests.len(), filters, connections.len()), (10, 5, 1));
    let expected = format!(
        "scheduler_extender_connections_total{{extender=\"{}\"}} 1",
        extender.url
    );
    assert!(harness.metrics_text().lines().any(|line| line == expected));
}

#[tokio::test]
async fn a_slow_extender_does_not_delay_others() {
    let gate = Arc::new(Semaphore::new(0));
    let open = Arc::clone(&gate);
    let slow = FakeExtender::with_async_script(move |_, _| {
        let gate = Arc::clone(&gate);
        Box::pin(async move {
            let _ = gate.acquire().await;
            (StatusCode::OK, "[]".to_owned())
        })
    })
    .await;
    let quick = FakeExtender::responding_with(|_, _| json!({ "clusterNames": ["m1"] })).await;
    let slow_fields = json!({ "prioritizeVerb": "p", "weight": 1, "httpTimeout": "1m" });
    let mut slow_harness = Harness::new(&[config(&slow.url, slow_fields)]);
    let binding = everywhere();
    let first = slow_harness.first_requests(&binding);
    let calls: Vec<_> = (0..100)
        .map(|_| {
            let snapshot = Arc::clone(&slow_harness.snapshot);
            let call = slow_harness.extenders.call(
                first.clone(),
                Arc::clone(&binding),
                snapshot,
                Answers::default(),
            );
            tokio::spawn(call)
        })
        .collect();
    let mut harness = Harness::new(&[config(&quick.url, json!({ "filterVerb": "filter" }))]);
    assert_eq!(harness.decide(&binding).await.clusters().unwrap(), ["m1"]);
    open.add_permits(100);
    for call in calls {
        assert_eq!(soon(call).await.unwrap().calls(), 1);
    }
    // At most 64 calls run at the same time, so there are at most 64 connections.
    let connections: BTreeSet<usize> = slow
        .requests()
        .iter()
        .map(|request| request.connection)
        .collect();
    assert_eq!(slow.requests().len(), 100);
    assert!(connections.len() <= 64, "{} connections", connections.len());
}
