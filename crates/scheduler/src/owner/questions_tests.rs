use std::time::Duration;

use axum::http::StatusCode;
use serde_json::json;
use tokio::sync::Semaphore;

use super::*;
use crate::extender::tests::fake::Fake;
use crate::extender::tests::harness::{Harness, everywhere, soon};

/// Questions about an extender that answers as often as the gate lets it.
struct Scene {
    extender: Fake,
    harness: Harness,
    questions: Questions,
    gate: Arc<Semaphore>,
}

impl Scene {
    async fn start() -> Self {
        let gate = Arc::new(Semaphore::new(0));
        let passes = Arc::clone(&gate);
        let extender = Fake::with_async_reply(move |_, _| {
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
        let harness = Harness::new(&[extender.config(fields)]);
        let questions = Questions {
            extenders: Some(harness.extenders.clone()),
            ..Questions::default()
        };
        Self {
            extender,
            harness,
            questions,
            gate,
        }
    }

    /// Decides once: the clusters, and what is still wanted.
    fn decide(&mut self, binding: &Binding, round: Round) -> (usize, Round, Option<Wanted>) {
        let harness = &mut self.harness;
        self.questions.decide(round, || {
            let placed = harness.decide_once(binding).result;
            placed.map_or(0, |placed| placed.targets.len())
        })
    }

    fn ask(&mut self, binding: &Arc<Binding>) -> Asking {
        let round = Round::first(binding, Instant::now());
        let (_, round, wanted) = self.decide(binding, round);
        let snapshot = Arc::clone(&self.harness.snapshot);
        self.questions
            .ask(binding, &snapshot, wanted.unwrap(), round, None)
    }
}

#[tokio::test]
async fn a_decision_is_made_again_with_the_answer() {
    let mut scene = Scene::start().await;
    let binding = everywhere();
    assert!(matches!(scene.ask(&binding), Asking::Asked));
    scene.gate.add_permits(1);
    let Answered { key, round } = soon(scene.questions.next()).await;
    assert_eq!(key, binding.key);
    let (clusters, round, wanted) = scene.decide(&binding, round.unwrap().for_now(&binding));
    assert!(clusters == 1 && wanted.is_none());

    // What was asked for an older generation does not count.
    let mut newer = Binding::clone(&binding);
    newer.metadata.generation = Some(2);
    let (_, _, wanted) = scene.decide(&newer, round.for_now(&newer));
    assert!(wanted.is_some());
}

#[tokio::test]
async fn when_too_many_wait_for_extenders_others_are_not_held_up() {
    let mut scene = Scene::start().await;
    let binding = everywhere();
    for _ in 0..WAITING {
        assert!(matches!(scene.ask(&binding), Asking::Asked));
    }
    assert!(matches!(scene.ask(&binding), Asking::Later(_)));
    assert!(
        scene.questions.has_room(),
        "decisions without extenders go on"
    );
    scene.gate.add_permits(1);
    soon(scene.questions.next()).await;
    assert!(matches!(scene.ask(&binding), Asking::Asked));
}

#[tokio::test]
async fn answers_of_an_earlier_configuration_do_not_count() {
    let mut scene = Scene::start().await;
    let binding = everywhere();
    scene.gate.add_permits(1);
    assert!(matches!(scene.ask(&binding), Asking::Asked));
    let Answered { round, .. } = soon(scene.questions.next()).await;
    let fields = json!({ "filterVerb": "other" });
    scene.harness = Harness::new(&[scene.extender.config(fields)]);
    scene.questions.extenders = Some(scene.harness.extenders.clone());
    let (_, _, wanted) = scene.decide(&binding, round.unwrap());
    assert!(wanted.is_some());
}

#[tokio::test]
async fn without_anybody_to_ask_nothing_is_wanted() {
    let mut questions = Questions::default();
    let round = Round::first(&everywhere(), Instant::now());
    let (decided, _, wanted) = questions.decide(round, || 7);
    assert!(decided == 7 && wanted.is_none() && questions.has_room());
    let next = tokio::time::timeout(Duration::from_millis(1), questions.next());
    assert!(next.await.is_err(), "there is no next answer");
}
