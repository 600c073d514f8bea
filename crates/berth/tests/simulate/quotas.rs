//! Tests of `berth simulate` with FederatedResourceQuotas. Each replica requests 500m CPU.

use berth::up::UpArgs;
use berth_test_requirements::needs;
use berth_test_transcripts::assert_snapshot;

use crate::live_diff::Plane;
use crate::program::{app, simulated};

const FLEET: &str = "-f examples/fleet.yaml -f - --fail-on-unscheduled";
const JSON: &str = "-f examples/fleet.yaml -f - -o json";
const PLACEMENT: &str = "{clusterAffinity: {clusterNames: [member1]}}";

fn quota(cpu: &str) -> String {
    format!(
        "apiVersion: policy.karmada.io/v1alpha1
kind: FederatedResourceQuota
metadata: {{name: team, namespace: shop}}
spec: {{overall: {{cpu: {cpu}}}}}
"
    )
}

#[test]
fn decisions_respect_the_quotas_of_the_manifests() {
    let apps = format!("{}---\n{}", app("a", 2, PLACEMENT), app("b", 1, PLACEMENT));
    let (small, large) = (quota("1"), quota("1500m"));
    let exceeded = format!("{apps}---\n{small}");
    assert_snapshot!(simulated(&[
        ("a quota for one of two", FLEET, &exceeded),
        ("in JSON", JSON, &exceeded),
        ("a quota for both", FLEET, &format!("{apps}---\n{large}")),
    ]));
}

/// The simulation predicts what a larger quota changes, and the control plane does the same.
#[needs(kubectl)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_raised_quota_places_a_waiting_workload() {
    let plane = Plane::start_with(UpArgs::default()).await;
    plane.apply(&quota("1")).await;
    plane.apply(&app("a", 2, PLACEMENT)).await;
    plane
        .wait_for_binding("a-deployment", |binding| !binding.spec.clusters.is_empty())
        .await;
    plane.apply(&app("b", 1, PLACEMENT)).await;
    plane.wait_for_reason("b-deployment", "QuotaExceeded").await;
    let predicted = plane.predicted_of(&quota("1500m")).await;
    assert_eq!(
        predicted.get("b-deployment"),
        Some(&vec![("member1".to_owned(), 1)])
    );
    plane.apply(&quota("1500m")).await;
    plane.wait_until_placed(predicted, "a raised quota").await;
    plane.server.stop().await;
}
