//! Tests of predictions about policies that claim templates. The tests apply the manifests, and compare the result with
//! the prediction. The last test checks notes instead.

use berth::up::UpArgs;
use berth_api::feature_gates;
use berth_test_requirements::needs;
use berth_test_transcripts::{Transcript, assert_snapshot};

use crate::live_diff::Plane;
use crate::program::{Files, deployment};

/// Returns a PropagationPolicy that places a Deployment in one cluster. `more` contains further fields of the spec, in
/// YAML block style.
fn policy(name: &str, deployment: &str, cluster: &str, more: &str) -> String {
    format!(
        "apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {{name: {name}, namespace: shop}}
spec:
  resourceSelectors:
  - {{apiVersion: apps/v1, kind: Deployment, name: {deployment}}}
  placement: {{clusterAffinity: {{clusterNames: [{cluster}]}}}}
{more}"
    )
}

fn with(deployment: &str, policy: &str) -> String {
    format!("{deployment}---\n{policy}")
}

#[needs(kubectl)]
#[tokio::test(flavor = "multi_thread")]
async fn the_claiming_policy_is_used_although_another_policy_selects_the_template() {
    let plane = Plane::start().await;
    let w1 = deployment("w1", 2);
    plane
        .apply(&with(&w1, &policy("w1-propagation", "w1", "member1", "")))
        .await;
    plane
        .wait_for_binding("w1-deployment", |b| !b.spec.clusters.is_empty())
        .await;
    plane.apply(&policy("aaa", "w1", "member2", "")).await;
    plane.wait_for_marker("aaa").await;

    // The claiming policy no longer selects the template, or no cluster satisfies its placement.
    let released = policy("w1-propagation", "other", "member1", "");
    let edited = with(&w1, &policy("w1-propagation", "w1", "nowhere", ""));
    let files = Files::new(&[("released.yaml", &released), ("edited.yaml", &edited)]);
    let mut transcript = Transcript::new();
    for (about, file, flag) in [
        (
            "the other policy claims the template",
            "released.yaml",
            &[][..],
        ),
        ("a failure", "edited.yaml", &["--fail-on-unscheduled"]),
    ] {
        let file = files.path(file);
        let arguments = [&["-f", &file], flag].concat();
        transcript.about(about);
        plane
            .simulate(&arguments)
            .await
            .record(&mut transcript, &arguments);
    }
    assert_snapshot!(transcript);
    let predicted = plane.predicted_of(&edited).await;
    assert!(predicted["w1-deployment"].is_empty(), "{predicted:?}");
    plane.apply(&edited).await;
    plane.wait_until_placed(predicted, "edited").await;
    plane.server.stop().await;
}

/// A case: a description, the existing manifests, the applied manifests, and the member that runs the Deployment
/// afterwards. [`manifests`] explains the notation of a manifest.
type Case = (
    &'static str,
    &'static [&'static str],
    &'static [&'static str],
    &'static str,
);

const CLAIMS: &[Case] = &[
    (
        "a higher priority does not take over a claimed template",
        &["web", "p member1"],
        &["q member2 priority: 9"],
        "member1",
    ),
    (
        "a lazy policy waits for the next change",
        &["p member1 activationPreference: Lazy", "web"],
        &["p member2 activationPreference: Lazy"],
        "member1",
    ),
    (
        "an unchanged template does not trigger a lazy policy",
        &["p member1 activationPreference: Lazy", "web"],
        &["web", "p member2 activationPreference: Lazy"],
        "member1",
    ),
    (
        "a template that changes before its lazy policy uses the old policy",
        &["p member1 activationPreference: Lazy", "web"],
        &["scaled", "p member2 activationPreference: Lazy"],
        "member1",
    ),
    (
        "a template that changes after its lazy policy uses the new policy",
        &["p member1 activationPreference: Lazy", "web"],
        &["p member2 activationPreference: Lazy", "scaled"],
        "member2",
    ),
    (
        "a policy that no longer selects a template releases it to another policy",
        &["web", "p member1", "q member2"],
        &["other member3"],
        "member2",
    ),
];

const PREEMPTION: &[Case] = &[
    (
        "a policy of higher priority preempts",
        &["web", "p member1 priority: 1"],
        &["q member2 {priority: 2, preemption: Always}"],
        "member2",
    ),
    (
        "a lazy policy that preempts does not change the binding",
        &["web", "p member1 priority: 1"],
        &["q member2 {priority: 2, preemption: Always, activationPreference: Lazy}"],
        "member1",
    ),
    (
        "a policy of equal priority does not preempt",
        &["web", "p member1 priority: 1"],
        &["q member2 {priority: 1, preemption: Always}"],
        "member1",
    ),
    (
        "a policy whose priority falls below another one loses its template",
        &[
            "web",
            "p member1 {priority: 5, preemption: Always}",
            "q member2 {priority: 3, preemption: Always}",
        ],
        &["p member1 {priority: 2, preemption: Always}"],
        "member2",
    ),
];

/// Returns the manifests of a [`Case`], for the Deployment `name`.
///
/// `web` is the Deployment with 2 replicas, and `scaled` has 3 replicas. All other entries are policies, such as
/// `p member1 priority: 1`: the name of the policy, its cluster, and further fields.
fn manifests(lines: &[&str], name: &str) -> String {
    let manifests = lines.iter().map(|line| match line.split_once(' ') {
        None if *line == "web" => deployment(name, 2),
        None => deployment(name, 3),
        Some((policy_name, rest)) => {
            let (cluster, fields) = rest.split_once(' ').unwrap_or((rest, ""));
            let fields = fields.trim_matches(['{', '}']).split(", ");
            let more: String = fields
                .filter(|field| !field.is_empty())
                .flat_map(|field| ["  ", field, "\n"])
                .collect();
            let (policy_name, selected) = match policy_name {
                // `other` is policy `p` after a change: it selects another Deployment.
                "other" => ("p", "elsewhere"),
                _ => (policy_name, name),
            };
            policy(&format!("{policy_name}-{name}"), selected, cluster, &more)
        }
    });
    manifests.collect::<Vec<_>>().join("---\n")
}

/// Starts a plane whose policies preempt, and checks the prediction of each case. The Deployment of the first case is
/// `web0`.
async fn check_predictions(cases: &[Case]) -> Plane {
    let started = Plane::start_with(UpArgs {
        feature_gates: feature_gates::parse("PropagationPolicyPreemption=true").unwrap(),
        ..UpArgs::default()
    });
    let plane = started.await;
    let gates = ["--feature-gates", "PropagationPolicyPreemption=true"];
    for (number, (description, before, change, expected)) in cases.iter().enumerate() {
        let name = format!("web{number}");
        let binding = format!("{name}-deployment");
        plane.apply(&manifests(before, &name)).await;
        plane
            .wait_for_binding(&binding, |binding| {
                let clusters = &binding.spec.clusters;
                clusters.iter().any(|cluster| cluster.name == "member1")
            })
            .await;
        plane.wait_for_marker(&format!("{name}-before")).await;
        let change = manifests(change, &name);
        let files = Files::new(&[("change.yaml", &change)]);
        let file = files.path("change.yaml");
        let predicted = plane
            .predicted(&[&["-f", &file][..], &gates].concat())
            .await;
        let clusters: Vec<&str> = predicted[&binding]
            .iter()
            .map(|(cluster, _)| cluster.as_str())
            .collect();
        assert_eq!(clusters, [*expected], "{description}");
        // The manifests are applied one at a time, because the detector may process several changes together.
        for (step, manifest) in change.split("---\n").enumerate() {
            plane.apply(manifest).await;
            plane.wait_for_marker(&format!("{name}-after{step}")).await;
        }
        plane.wait_until_placed(predicted, description).await;
    }
    plane
}

#[needs(kubectl)]
#[tokio::test(flavor = "multi_thread")]
async fn predictions_about_priorities_and_lazy_policies_come_true() {
    let plane = Box::pin(check_predictions(CLAIMS)).await;
    plane.server.stop().await;
}

#[needs(kubectl)]
#[tokio::test(flavor = "multi_thread")]
async fn predictions_about_preemption_come_true() {
    let plane = Box::pin(check_predictions(PREEMPTION)).await;
    // Without the feature gate, no policy preempts, and a note contains the reason.
    let preempts = policy(
        "r-web0",
        "web0",
        "member3",
        "  priority: 20\n  preemption: Always\n",
    );
    let files = Files::new(&[("change.yaml", &preempts)]);
    let arguments = ["-f", &files.path("change.yaml")];
    let mut transcript = Transcript::new();
    plane
        .simulate(&arguments)
        .await
        .record(&mut transcript, &arguments);
    assert_snapshot!(transcript);
    plane.server.stop().await;
}

#[needs(kubectl)]
#[tokio::test(flavor = "multi_thread")]
async fn ignored_configuration_and_idle_policies_are_noted() {
    let plane = Plane::start().await;
    plane
        .apply(
            "apiVersion: v1
kind: ConfigMap
metadata: {name: scheduler, namespace: karmada-system}
data:
  config.yaml: |
    apiVersion: scheduler.config.berth/v1alpha1
    kind: SchedulerConfiguration
",
        )
        .await;
    plane.apply(&deployment("web", 2)).await;
    let typo = policy("web", "web", "member1", "").replace("kind: Deployment,", "kind: Deploymnt,");
    let absent = policy("absent", "wbe", "member1", "");
    let files = Files::new(&[("change.yaml", &format!("{typo}---\n{absent}"))]);
    let arguments = ["-f", &files.path("change.yaml"), "--fail-on-unscheduled"];
    let mut transcript = Transcript::new();
    plane
        .simulate(&arguments)
        .await
        .record(&mut transcript, &arguments);
    assert_snapshot!(transcript);
    plane.server.stop().await;
}
