//! Connections: kept, and no more of them than calls at the same time.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::http::StatusCode;
use serde_json::json;
use tokio::sync::Semaphore;

use super::fake::Fake;
use super::rounds::{Rounds, everywhere, soon};
use crate::extender::Answers;

#[tokio::test]
async fn one_connection_serves_calls_that_follow_each_other() {
    let extender = Fake::answering(|verb, _| match verb {
        "filter" => json!({ "clusterNames": ["m1", "m2"] }),
        _ => json!([{ "host": "m1", "score": 5 }]),
    })
    .await;
    let fields = json!({ "filterVerb": "filter", "prioritizeVerb": "prioritize", "weight": 1 });
    let mut rounds = Rounds::new(&[extender.config(fields)]);
    for _ in 0..5 {
        rounds.decide(&everywhere()).await;
    }
    let came = extender.came();
    let verbs = came.iter().filter(|came| came.verb == "filter").count();
    let connections: BTreeSet<u16> = came.iter().map(|came| came.peer).collect();
    assert_eq!((came.len(), verbs, connections.len()), (10, 5, 1));
    let counted = format!(
        "scheduler_extender_connections_total{{extender=\"{}\"}} 1",
        extender.url()
    );
    assert!(rounds.metrics.text().lines().any(|line| line == counted));
}

#[tokio::test]
async fn a_slow_extender_does_not_hold_up_another_one() {
    let gate = Arc::new(Semaphore::new(0));
    let open = Arc::clone(&gate);
    let slow = Fake::taking_its_time(move |_, _| {
        let gate = Arc::clone(&gate);
        Box::pin(async move {
            let _ = gate.acquire().await;
            (StatusCode::OK, "[]".to_owned())
        })
    })
    .await;
    let quick = Fake::answering(|_, _| json!({ "clusterNames": ["m1"] })).await;
    let slow_fields = json!({ "prioritizeVerb": "p", "weight": 1, "httpTimeout": "1m" });
    let mut held = Rounds::new(&[slow.config(slow_fields)]);
    let binding = everywhere();
    let first = held.wants(&binding);
    let asked: Vec<_> = (0..100)
        .map(|_| {
            let snapshot = Arc::clone(&held.snapshot);
            let ask = held.extenders.ask(
                first.clone(),
                Arc::clone(&binding),
                snapshot,
                Answers::default(),
            );
            tokio::spawn(ask)
        })
        .collect();
    let mut rounds = Rounds::new(&[quick.config(json!({ "filterVerb": "filter" }))]);
    assert_eq!(rounds.decide(&binding).await.clusters().unwrap(), ["m1"]);
    open.add_permits(100);
    for ask in asked {
        assert_eq!(soon(ask).await.unwrap().calls(), 1);
    }
    // As many at the same time as there are turns.
    let connections: BTreeSet<u16> = slow.came().iter().map(|came| came.peer).collect();
    assert_eq!(slow.came().len(), 100);
    assert!(connections.len() <= 64, "{} connections", connections.len());
}
