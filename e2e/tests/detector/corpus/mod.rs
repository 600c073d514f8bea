//! Replays the measured cases of Karmada's webhooks and detector on a running control plane.
//!
//! Held equal: which objects are accepted, the fields that a refusal names, the stored spec, label keys and
//! finalizers of policies, the bindings, and the marks on the template.

mod case;
mod compare;
mod settle;

use case::{Case, Outcome};

use crate::plane::Plane;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_measured_cases_come_out_as_measured() {
    let plane = Plane::start().await;
    let cases = case::all();
    let outcomes = replay(&plane.client, &cases).await;
    let mut differences = Vec::new();
    for (case, outcome) in cases.iter().zip(&outcomes) {
        compare::admission(case, outcome, &mut differences);
    }
    compare::settled(&plane.client, &cases, &mut differences).await;
    plane.stop().await;
    assert!(
        differences.is_empty(),
        "{} differences:\n{}",
        differences.len(),
        differences.join("\n")
    );
}

/// Where no webhook answers, as on a real API server by itself: what Karmada accepts is bound all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_webhooks_the_bindings_of_the_accepted_cases_come_out_as_measured() {
    let plane = Plane::bare().await;
    let mut cases = case::all();
    cases.retain(|case| {
        case.admitted
            .iter()
            .all(|admitted| admitted["accepted"] == true)
    });
    assert!(cases.len() > 50, "{} cases are accepted whole", cases.len());
    let outcomes = replay(&plane.client, &cases).await;
    let mut differences = Vec::new();
    for (case, outcomes) in cases.iter().zip(&outcomes) {
        for error in outcomes.iter().filter_map(|outcome| outcome.as_ref().err()) {
            differences.push(format!("{}: refused: {error}", case.id));
        }
    }
    compare::bindings(&plane.client, &cases, &mut differences).await;
    plane.stop().await;
    assert!(
        differences.is_empty(),
        "{} differences:\n{}",
        differences.len(),
        differences.join("\n")
    );
}

/// Creates the objects of all cases: the first of each, then the second of each, and so on. In between the
/// detector sees everything, as it does where a user types.
async fn replay(client: &kube::Client, cases: &[Case]) -> Vec<Vec<Outcome>> {
    for case in cases {
        case.create_namespace(client).await;
    }
    settle::prepare(client).await;
    let mut outcomes: Vec<Vec<Outcome>> = cases.iter().map(|_| Vec::new()).collect();
    let rounds = cases.iter().map(|case| case.objects.len()).max();
    for round in 0..rounds.unwrap_or(0) {
        for (case, outcomes) in cases.iter().zip(&mut outcomes) {
            if let Some(object) = case.objects.get(round) {
                outcomes.push(case::create(client, object).await);
            }
        }
        settle::until_seen(client, cases, &format!("round-{round}")).await;
    }
    outcomes
}
