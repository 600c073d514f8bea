//! Replay of cases that were recorded with Karmada's webhooks and detector. A case consists of a template and policies,
//! and of the results on a Karmada control plane.
//!
//! The tests compare the results with the results of Berth: which objects are accepted, the fields that refusals name,
//! the spec, label keys and finalizers of stored policies, the bindings, and the labels and annotations of templates.

mod compare;
mod markers;

use berth_e2e::detector_cases::{self, Case, Outcome};
use berth_test_requirements::needs;

use crate::fixture::Fixture;

/// Checks the results on the embedded API server, which has Karmada's admission rules built in.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn recorded_cases_give_the_recorded_results() {
    let fixture = Fixture::start().await;
    let cases = detector_cases::all();
    let outcomes = replay(&fixture.client, &cases).await;
    let mut differences = Vec::new();
    for (case, outcome) in cases.iter().zip(&outcomes) {
        compare::compare_admission(case, outcome, &mut differences);
    }
    compare::compare_results(&fixture.client, &cases, &mut differences).await;
    fixture.stop().await;
    assert!(
        differences.is_empty(),
        "{} differences:\n{}",
        differences.len(),
        differences.join("\n")
    );
}

/// Checks the results on kube-apiserver with `berth webhook`.
#[needs(apiserver, kubectl)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn recorded_cases_give_the_recorded_results_through_the_webhook() {
    let fixture = Fixture::with_webhook().await;
    let cases = detector_cases::all();
    let outcomes = replay(&fixture.client, &cases).await;
    let mut differences = Vec::new();
    let mut refused_by_webhook = 0;
    for (case, outcome) in cases.iter().zip(&outcomes) {
        compare::compare_admission(case, outcome, &mut differences);
        let refusals = outcome.iter().filter_map(|outcome| outcome.as_ref().err());
        refused_by_webhook += refusals
            .filter(|error| error.contains("admission webhook"))
            .count();
    }
    compare::compare_results(&fixture.client, &cases, &mut differences).await;
    fixture.stop().await;
    println!("{refused_by_webhook} refusals by the webhook");
    assert!(refused_by_webhook > 0);
    assert!(
        differences.is_empty(),
        "{} differences:\n{}",
        differences.len(),
        differences.join("\n")
    );
}

/// Checks that, on a server without webhooks, the detector creates the recorded bindings of the cases whose objects
/// Karmada accepted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn accepted_cases_give_the_recorded_bindings_without_webhooks() {
    let fixture = Fixture::without_webhooks().await;
    let mut cases = detector_cases::all();
    cases.retain(|case| {
        case.admitted
            .iter()
            .all(|admitted| admitted["accepted"] == true)
    });
    assert!(
        cases.len() > 50,
        "{} cases have only accepted objects",
        cases.len()
    );
    let outcomes = replay(&fixture.client, &cases).await;
    let mut differences = Vec::new();
    for (case, outcomes) in cases.iter().zip(&outcomes) {
        for error in outcomes.iter().filter_map(|outcome| outcome.as_ref().err()) {
            differences.push(format!("{}: refused: {error}", case.id));
        }
    }
    compare::compare_bindings_only(&fixture.client, &cases, &mut differences).await;
    fixture.stop().await;
    assert!(
        differences.is_empty(),
        "{} differences:\n{}",
        differences.len(),
        differences.join("\n")
    );
}

/// Creates the objects of all cases in rounds: the first object of each case, then the second, and so on. After each
/// round, waits until the detector has handled all objects.
async fn replay(client: &kube::Client, cases: &[Case]) -> Vec<Vec<Outcome>> {
    for case in cases {
        case.create_namespace(client).await;
    }
    markers::prepare(client).await;
    let mut outcomes: Vec<Vec<Outcome>> = cases.iter().map(|_| Vec::new()).collect();
    let rounds = cases.iter().map(|case| case.objects.len()).max();
    for round in 0..rounds.unwrap_or(0) {
        for (case, outcomes) in cases.iter().zip(&mut outcomes) {
            if let Some(object) = case.objects.get(round) {
                outcomes.push(detector_cases::create(client, object).await);
            }
        }
        markers::wait_until_handled(client, cases, &format!("round-{round}")).await;
    }
    outcomes
}
