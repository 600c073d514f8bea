//! Tests of the estimator client with fresh, stale and missing answers. A stale answer is an estimator's last answer to
//! an equal request. The client uses a stale answer if the estimator fails.

use std::time::{Duration, Instant};

use berth_engine::estimate::Unit;
use berth_metrics::Format;
use berth_scheduler::estimator::{Answer, EstimateRequest, EstimatorOptions, NoAnswerKind};
use serde_json::json;
use tonic::Status;

use crate::fake::{Behaviour, FakeEstimator};
use crate::fixture::{Fixture, cpu, deployment, soon};

fn with_timeout(timeout: u64) -> EstimatorOptions {
    EstimatorOptions {
        timeout: Duration::from_millis(timeout),
        ..EstimatorOptions::default()
    }
}

fn missing(answer: Option<&Answer>) -> (NoAnswerKind, String) {
    match answer {
        Some(Answer::Missing(reason)) => (reason.kind(), reason.to_string()),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_failing_cluster_does_not_affect_the_others() {
    let fixture = Fixture::start().await;
    let m1 = FakeEstimator::start("m1", Behaviour::Answers(5)).await;
    let m2 =
        FakeEstimator::start("m2", Behaviour::Fails(Status::internal("no nodes lister"))).await;
    let m3 = FakeEstimator::start("m3", Behaviour::Answers(7)).await;
    for (name, fake) in [("m1", &m1), ("m2", &m2), ("m3", &m3)] {
        fixture.join(name, fake.address).await;
    }
    let answers = fixture.estimate(&cpu("1"), &["m1", "m2", "m3", "m4"]).await;
    assert_eq!(answers.unit(), Some(Unit::Replicas));
    assert_eq!(answers.get("m1"), Some(&Answer::Fresh(5)));
    assert_eq!(answers.get("m3"), Some(&Answer::Fresh(7)));
    let failed = "gRPC request cluster(m2) estimator error when calling MaxAvailableReplicas: \
                  rpc error: code = Internal desc = no nodes lister";
    assert_eq!(
        missing(answers.get("m2")),
        (NoAnswerKind::Failed, failed.into())
    );
    let unknown = "cluster m4 does not exist in estimator cache";
    assert_eq!(
        missing(answers.get("m4")),
        (NoAnswerKind::UnknownCluster, unknown.into())
    );
    assert_eq!(
        answers.failures(),
        Some(format!("m2: missing: {failed}; m4: missing: {unknown}"))
    );
    let client = &fixture.client;
    let text = Format::Text.render(|registry| client.register_metrics(registry));
    for expected in [
        "berth_scheduler_estimator_answers_total{result=\"fresh\"} 2",
        "berth_scheduler_estimator_answers_total{result=\"missing\"} 2",
        "berth_scheduler_estimator_failures_total{reason=\"failed\"} 1",
        "berth_scheduler_estimator_connections{state=\"up\"} 3",
        "berth_scheduler_estimator_call_duration_seconds_count 3",
    ] {
        assert!(
            text.lines().any(|line| line == expected),
            "{expected}\n{text}"
        );
    }
}

#[tokio::test]
async fn all_clusters_share_one_deadline() {
    let fixture = Fixture::with(with_timeout(300)).await;
    let mut fakes = Vec::new();
    for name in ["m1", "m2", "m3", "m4", "m5", "m6"] {
        let fake = FakeEstimator::start(name, Behaviour::Hangs).await;
        fixture.join(name, fake.address).await;
        assert!(soon(fixture.client.connections().until_up(name)).await);
        fakes.push(fake);
    }
    fakes[3].behave(Behaviour::Answers(2));
    let began = Instant::now();
    let names = ["m1", "m2", "m3", "m4", "m5", "m6"];
    let answers = fixture.estimate(&cpu("1"), &names).await;
    let took = began.elapsed();
    assert!(
        (300..900).contains(&took.as_millis()),
        "five hanging clusters take one timeout together: {took:?}"
    );
    assert_eq!(answers.get("m4"), Some(&Answer::Fresh(2)));
    assert_eq!(
        missing(answers.get("m1")),
        (
            NoAnswerKind::Timeout,
            "gRPC request cluster(m1) estimator error when calling MaxAvailableReplicas: \
             rpc error: code = DeadlineExceeded desc = context deadline exceeded"
                .into()
        )
    );
}

#[tokio::test]
async fn a_failing_estimator_has_a_stale_answer_to_an_equal_request() {
    let fixture = Fixture::start().await;
    let fake = FakeEstimator::start("m1", Behaviour::Answers(5)).await;
    fixture.join("m1", fake.address).await;
    assert_eq!(
        fixture.estimate(&cpu("1"), &["m1"]).await.get("m1"),
        Some(&Answer::Fresh(5))
    );
    fake.behave(Behaviour::Fails(Status::unavailable("restarting")));
    let answers = fixture.estimate(&cpu("1"), &["m1"]).await;
    match answers.get("m1") {
        Some(Answer::Stale {
            value: 5, reason, ..
        }) => {
            assert_eq!(reason.kind(), NoAnswerKind::Failed);
        }
        other => panic!("{other:?}"),
    }
    let other = fixture.estimate(&cpu("2"), &["m1"]).await;
    assert_eq!(
        other.get("m1").unwrap().value(),
        None,
        "the estimator has answered no request for 2 CPUs"
    );
}

#[tokio::test]
async fn a_maximum_age_of_zero_disables_stale_answers() {
    let options = EstimatorOptions {
        answers_max_age: Duration::ZERO,
        ..EstimatorOptions::default()
    };
    let fixture = Fixture::with(options).await;
    let fake = FakeEstimator::start("m1", Behaviour::Answers(5)).await;
    fixture.join("m1", fake.address).await;
    fixture.estimate(&cpu("1"), &["m1"]).await;
    fake.behave(Behaviour::Fails(Status::unavailable("restarting")));
    let answers = fixture.estimate(&cpu("1"), &["m1"]).await;
    assert_eq!(missing(answers.get("m1")).0, NoAnswerKind::Failed);
}

#[tokio::test]
async fn servers_reject_requests_for_another_cluster() {
    let fixture = Fixture::start().await;
    let fake = FakeEstimator::start("m2", Behaviour::Answers(5)).await;
    fixture.join("m1", fake.address).await;
    let answers = fixture.estimate(&cpu("1"), &["m1"]).await;
    assert_eq!(
        missing(answers.get("m1")).1,
        "gRPC request cluster(m1) estimator error when calling MaxAvailableReplicas: \
         rpc error: code = Unknown desc = cluster name does not match, got: m1, desire: m2"
    );
}

#[tokio::test]
async fn unimplemented_methods_and_negative_estimates_are_no_answers() {
    let fixture = Fixture::start().await;
    let unimplemented = Status::unimplemented("unknown method MaxAvailableComponentSets");
    let old = FakeEstimator::start("m1", Behaviour::Fails(unimplemented)).await;
    let without_estimate = FakeEstimator::start("m2", Behaviour::Answers(-1)).await;
    fixture.join("m1", old.address).await;
    fixture.join("m2", without_estimate.address).await;
    let request = EstimateRequest::new(&deployment(json!({})), Unit::ComponentSets).unwrap();
    let answers = fixture.estimate(&request, &["m1", "m2"]).await;
    assert_eq!(missing(answers.get("m1")).0, NoAnswerKind::Unimplemented);
    assert_eq!(missing(answers.get("m2")).0, NoAnswerKind::NoEstimate);
}

#[tokio::test]
async fn dropping_the_estimate_cancels_its_calls() {
    let fixture = Fixture::start().await;
    let fake = FakeEstimator::start("m1", Behaviour::Hangs).await;
    fixture.join("m1", fake.address).await;
    let mut pending = fake.pending();
    let request = cpu("1");
    {
        let estimate = fixture.client.estimate(&request, ["m1".into()]);
        tokio::select! {
            answers = estimate => panic!("{answers:?}"),
            arrived = pending.wait_for(|pending| *pending == 1) => drop(arrived.unwrap()),
        }
    }
    soon(pending.wait_for(|pending| *pending == 0))
        .await
        .unwrap();
}
