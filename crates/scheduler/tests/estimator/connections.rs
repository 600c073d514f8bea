//! Tests of the estimator client's connections: how they are opened, reopened and closed.

use std::time::Duration;

use berth_scheduler::estimator::{Answer, EstimatorOptions, NoAnswerKind};
use serde_json::json;
use tokio::net::TcpListener;

use crate::fake::{Behaviour, FakeEstimator};
use crate::fixture::{Fixture, cpu, member, soon};

fn reason(answer: Option<&Answer>) -> String {
    match answer {
        Some(Answer::Missing(reason)) => {
            assert!(matches!(
                reason.kind(),
                NoAnswerKind::NoConnection | NoAnswerKind::UnknownCluster
            ));
            reason.to_string()
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn the_client_reconnects_to_a_restarted_server() {
    let fixture = Fixture::start().await;
    let connections = fixture.client.connections().clone();
    let fake = FakeEstimator::start("m1", Behaviour::Answers(5)).await;
    let address = fake.address;
    fixture.join("m1", address).await;
    assert!(soon(connections.until_up("m1")).await);
    drop(fake);
    assert!(soon(connections.until_not_up("m1")).await);
    let down = reason(fixture.estimate(&cpu("1"), &["m1"]).await.get("m1"));
    assert!(
        down.starts_with("cluster m1 does not exist in estimator cache ("),
        "{down}"
    );
    let _fake = FakeEstimator::start_at("m1", Behaviour::Answers(6), address, None).await;
    assert!(soon(connections.until_up("m1")).await);
    let answers = fixture.estimate(&cpu("1"), &["m1"]).await;
    assert_eq!(answers.get("m1"), Some(&Answer::Fresh(6)));
}

#[tokio::test]
async fn estimates_wait_for_the_first_attempt_to_connect() {
    let fixture = Fixture::start().await;
    let fake = FakeEstimator::start("m1", Behaviour::Answers(5)).await;
    fixture.join("m1", fake.address).await;
    assert!(!fixture.client.connections().is_up("m1"));
    let answers = fixture.estimate(&cpu("1"), &["m1"]).await;
    assert_eq!(answers.get("m1"), Some(&Answer::Fresh(5)));
}

#[tokio::test]
async fn removing_a_cluster_closes_its_connection() {
    let fixture = Fixture::start().await;
    let fake = FakeEstimator::start("m1", Behaviour::Answers(5)).await;
    fixture.join("m1", fake.address).await;
    let mut open = fake.connections();
    soon(open.wait_for(|open| *open == 1)).await.unwrap();
    fixture.estimate(&cpu("1"), &["m1"]).await;
    fixture.client.remove("m1");
    soon(open.wait_for(|open| *open == 0)).await.unwrap();
    let answers = fixture.estimate(&cpu("1"), &["m1"]).await;
    assert_eq!(
        reason(answers.get("m1")),
        "cluster m1 does not exist in estimator cache",
        "the client also removes the last answers of the cluster"
    );
}

#[tokio::test]
async fn clusters_in_pull_mode_can_be_skipped() {
    let options = EstimatorOptions {
        skip_pull_mode: true,
        ..EstimatorOptions::default()
    };
    let fixture = Fixture::with(options).await;
    let fake = FakeEstimator::start("m1", Behaviour::Answers(5)).await;
    fixture.join("m1", fake.address).await;
    let mut open = fake.connections();
    soon(open.wait_for(|open| *open == 1)).await.unwrap();
    fixture.client.apply(&member("m1", "Pull"));
    soon(open.wait_for(|open| *open == 0)).await.unwrap();
    assert_eq!(
        reason(fixture.estimate(&cpu("1"), &["m1"]).await.get("m1")),
        "cluster m1 does not exist in estimator cache"
    );
}

#[tokio::test]
async fn a_service_of_the_wrong_type_is_reported() {
    let fixture = Fixture::start().await;
    let ports = json!([{ "port": 10352, "targetPort": 1 }]);
    let spec = json!({ "type": "ClusterIP", "clusterIP": "10.96.77.1", "ports": ports });
    fixture.service("m1", spec).await;
    fixture.client.apply(&member("m1", "Push"));
    assert_eq!(
        reason(fixture.estimate(&cpu("1"), &["m1"]).await.get("m1")),
        "cluster m1 does not exist in estimator cache (unsupported service type \"ClusterIP\")"
    );
}

#[tokio::test]
async fn in_cluster_names_are_tried_without_a_service() {
    let options = EstimatorOptions {
        timeout: Duration::from_secs(15),
        ..EstimatorOptions::default()
    };
    let fixture = Fixture::with(options).await;
    fixture.client.apply(&member("m1", "Push"));
    let reason = reason(fixture.estimate(&cpu("1"), &["m1"]).await.get("m1"));
    let last = "cannot connect to karmada-scheduler-estimator-m1.karmada-system.svc:10352";
    assert!(reason.contains(last), "{reason}");
}

#[tokio::test]
async fn repeated_timeouts_replace_the_connection() {
    let options = EstimatorOptions {
        timeout: Duration::from_millis(50),
        ..EstimatorOptions::default()
    };
    let fixture = Fixture::with(options).await;
    // The listener accepts connections and never responds.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    fixture.join("m1", listener.local_addr().unwrap()).await;
    let first = soon(listener.accept()).await.unwrap();
    assert!(soon(fixture.client.connections().until_up("m1")).await);
    for _ in 0..3 {
        let answers = fixture.estimate(&cpu("1"), &["m1"]).await;
        assert_eq!(answers.get("m1").unwrap().value(), None);
    }
    let second = soon(listener.accept()).await.unwrap();
    drop((first, second));
}
