//! How connections come, go and come back.

use std::time::Duration;

use berth_scheduler::estimator::{Answer, EstimatorOptions, MissingKind};
use serde_json::json;
use tokio::net::TcpListener;

use crate::fake::{Behaviour, FakeEstimator};
use crate::fixture::{Fixture, cpu, member, soon};

fn reason(answer: Option<&Answer>) -> String {
    match answer {
        Some(Answer::Missing(reason)) => {
            assert!(matches!(
                reason.kind(),
                MissingKind::NoConnection | MissingKind::NotFollowed
            ));
            reason.to_string()
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_server_that_comes_back_is_connected_again() {
    let fixture = Fixture::start().await;
    let connections = fixture.client.connections().clone();
    let fake = FakeEstimator::start("m1", Behaviour::Answers(5)).await;
    let address = fake.address;
    fixture.join("m1", address).await;
    assert!(soon(connections.until("m1", true)).await);
    drop(fake);
    assert!(soon(connections.until("m1", false)).await);
    let down = reason(fixture.ask(&cpu("1"), &["m1"]).await.get("m1"));
    assert!(
        down.starts_with("cluster m1 does not exist in estimator cache ("),
        "{down}"
    );
    let _fake = FakeEstimator::start_at("m1", Behaviour::Answers(6), address, None).await;
    assert!(soon(connections.until("m1", true)).await);
    let answers = fixture.ask(&cpu("1"), &["m1"]).await;
    assert_eq!(answers.get("m1"), Some(&Answer::Fresh(6)));
}

#[tokio::test]
async fn the_first_attempt_to_connect_is_waited_for() {
    let fixture = Fixture::start().await;
    let fake = FakeEstimator::start("m1", Behaviour::Answers(5)).await;
    fixture.join("m1", fake.address).await;
    assert!(!fixture.client.connections().is_up("m1"));
    let answers = fixture.ask(&cpu("1"), &["m1"]).await;
    assert_eq!(answers.get("m1"), Some(&Answer::Fresh(5)));
}

#[tokio::test]
async fn the_connection_of_a_deleted_cluster_is_closed() {
    let fixture = Fixture::start().await;
    let fake = FakeEstimator::start("m1", Behaviour::Answers(5)).await;
    fixture.join("m1", fake.address).await;
    let mut open = fake.connections();
    soon(open.wait_for(|open| *open == 1)).await.unwrap();
    fixture.ask(&cpu("1"), &["m1"]).await;
    fixture.client.forget("m1");
    soon(open.wait_for(|open| *open == 0)).await.unwrap();
    let answers = fixture.ask(&cpu("1"), &["m1"]).await;
    assert_eq!(
        reason(answers.get("m1")),
        "cluster m1 does not exist in estimator cache",
        "and its answers are forgotten"
    );
}

#[tokio::test]
async fn clusters_in_pull_mode_can_be_left_out() {
    let options = EstimatorOptions {
        skip_pull_mode: true,
        ..EstimatorOptions::default()
    };
    let fixture = Fixture::with(options).await;
    let fake = FakeEstimator::start("m1", Behaviour::Answers(5)).await;
    fixture.join("m1", fake.address).await;
    let mut open = fake.connections();
    soon(open.wait_for(|open| *open == 1)).await.unwrap();
    // It changes its mode.
    fixture.client.follow(&member("m1", "Pull"));
    soon(open.wait_for(|open| *open == 0)).await.unwrap();
    assert_eq!(
        reason(fixture.ask(&cpu("1"), &["m1"]).await.get("m1")),
        "cluster m1 does not exist in estimator cache"
    );
}

#[tokio::test]
async fn a_service_that_leads_nowhere_is_the_reason() {
    let fixture = Fixture::start().await;
    let ports = json!([{ "port": 10352, "targetPort": 1 }]);
    let spec = json!({ "type": "ClusterIP", "clusterIP": "10.96.77.1", "ports": ports });
    fixture.service("m1", spec).await;
    fixture.client.follow(&member("m1", "Push"));
    assert_eq!(
        reason(fixture.ask(&cpu("1"), &["m1"]).await.get("m1")),
        "cluster m1 does not exist in estimator cache (unsupported service type \"ClusterIP\")"
    );
}

#[tokio::test]
async fn without_a_service_the_names_of_the_host_cluster_are_tried() {
    let options = EstimatorOptions {
        timeout: Duration::from_secs(15),
        ..EstimatorOptions::default()
    };
    let fixture = Fixture::with(options).await;
    fixture.client.follow(&member("m1", "Push"));
    let reason = reason(fixture.ask(&cpu("1"), &["m1"]).await.get("m1"));
    let last = "cannot connect to karmada-scheduler-estimator-m1.karmada-system.svc:10352";
    assert!(reason.contains(last), "{reason}");
}

#[tokio::test]
async fn a_connection_from_which_nothing_comes_back_is_made_anew() {
    let options = EstimatorOptions {
        timeout: Duration::from_millis(50),
        ..EstimatorOptions::default()
    };
    let fixture = Fixture::with(options).await;
    // It takes connections and says nothing.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    fixture.join("m1", listener.local_addr().unwrap()).await;
    let first = soon(listener.accept()).await.unwrap();
    assert!(soon(fixture.client.connections().until("m1", true)).await);
    for _ in 0..3 {
        let answers = fixture.ask(&cpu("1"), &["m1"]).await;
        assert_eq!(answers.get("m1").unwrap().value(), None);
    }
    let second = soon(listener.accept()).await.unwrap();
    drop((first, second));
}
