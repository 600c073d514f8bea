use std::time::Duration;

use axum::http::StatusCode;
use berth_test_servers::FakeExtender;
use serde_json::json;
use tokio::sync::Semaphore;

use super::*;
use crate::extender::tests::fake::config;
use crate::extender::tests::harness::{Harness, everywhere, soon};

/// An [`ExternalAnswers`] with one extender, which waits for a permit of `gate` before each response.
struct Fixture {
    extender: FakeExtender,
    harness: Harness,
    answers: ExternalAnswers,
    extenders: Extenders,
    gate: Arc<Semaphore>,
}

impl Fixture {
    async fn start() -> Self {
        let gate = Arc::new(Semaphore::new(0));
        let passes = Arc::clone(&gate);
        let extender = FakeExtender::with_async_script(move |_, _| {
            let gate = Arc::clone(&passes);
            Box::pin(async move {
                if let Ok(permit) = gate.acquire().await {
                    permit.forget();
                }
                (
                    StatusCode::OK,
                    json!({ "clusterNames": ["m2"] }).to_string(),
                )
            })
        })
        .await;
        let fields = json!({ "filterVerb": "filter", "httpTimeout": "1m" });
        let harness = Harness::new(&[config(&extender.url, fields)]);
        let extenders = harness.extenders.clone();
        Self {
            extender,
            harness,
            answers: ExternalAnswers::default(),
            extenders,
            gate,
        }
    }

    /// Decides once. Returns the number of clusters, the round and the missing answers.
    fn decide(
        &mut self,
        binding: &Binding,
        round: Round,
    ) -> (usize, Round, Option<MissingAnswers>) {
        let harness = &mut self.harness;
        self.answers.decide(Some(&self.extenders), round, || {
            let placed = harness.decide_once(binding).result;
            placed.map_or(0, |placed| placed.targets.len())
        })
    }

    fn request(&mut self, binding: &Arc<Binding>) -> RequestOutcome {
        let round = Round::first(binding, Instant::now());
        let (_, round, missing) = self.decide(binding, round);
        let snapshot = Arc::clone(&self.harness.snapshot);
        self.answers.request(
            Some(&self.extenders),
            binding,
            &snapshot,
            missing.unwrap(),
            round,
            &CapacityBook::default(),
        )
    }
}

#[tokio::test]
async fn a_decision_is_repeated_with_the_answer() {
    let mut fixture = Fixture::start().await;
    let binding = everywhere();
    assert!(matches!(
        fixture.request(&binding),
        RequestOutcome::Requested
    ));
    fixture.gate.add_permits(1);
    let Answered { key, round } = soon(fixture.answers.next()).await;
    assert_eq!(key, binding.key);
    let (clusters, round, missing) =
        fixture.decide(&binding, round.unwrap().for_generation_of(&binding));
    assert!(clusters == 1 && missing.is_none());

    // The answers for an older generation are not used.
    let mut newer = Binding::clone(&binding);
    newer.metadata.generation = Some(2);
    let (_, _, missing) = fixture.decide(&newer, round.for_generation_of(&newer));
    assert!(missing.is_some());
}

#[tokio::test]
async fn the_limit_of_waiting_decisions_does_not_block_others() {
    let mut fixture = Fixture::start().await;
    let binding = everywhere();
    for _ in 0..MAX_WAITING {
        assert!(matches!(
            fixture.request(&binding),
            RequestOutcome::Requested
        ));
    }
    assert!(matches!(
        fixture.request(&binding),
        RequestOutcome::Later(_)
    ));
    assert!(
        fixture.answers.has_capacity(),
        "decisions without extenders continue"
    );
    fixture.gate.add_permits(1);
    soon(fixture.answers.next()).await;
    assert!(matches!(
        fixture.request(&binding),
        RequestOutcome::Requested
    ));
}

#[tokio::test]
async fn answers_of_an_earlier_configuration_are_ignored() {
    let mut fixture = Fixture::start().await;
    let binding = everywhere();
    fixture.gate.add_permits(1);
    assert!(matches!(
        fixture.request(&binding),
        RequestOutcome::Requested
    ));
    let Answered { round, .. } = soon(fixture.answers.next()).await;
    let fields = json!({ "filterVerb": "other" });
    fixture.harness = Harness::new(&[config(&fixture.extender.url, fields)]);
    fixture.extenders = fixture.harness.extenders.clone();
    let (_, _, missing) = fixture.decide(&binding, round.unwrap());
    assert!(missing.is_some());
}

#[tokio::test]
async fn without_estimators_and_extenders_no_answers_are_missing() {
    let mut answers = ExternalAnswers::default();
    let round = Round::first(&everywhere(), Instant::now());
    let (decided, _, missing) = answers.decide(None, round, || 7);
    assert!(decided == 7 && missing.is_none() && answers.has_capacity());
    let next = tokio::time::timeout(Duration::from_millis(1), answers.next());
    assert!(next.await.is_err(), "no round is pending");
}
