//! Tests of `berth simulate --without` and `--taint`, which change clusters, with a fleet from manifests.

use crate::program::{app, simulate, simulate_with_input};

const FLEET: [&str; 4] = ["-f", "examples/fleet.yaml", "-f", "-"];

/// A binding that is placed in member1.
const PLACED: &str = "apiVersion: work.karmada.io/v1alpha2
kind: ResourceBinding
metadata: {name: web-deployment, namespace: shop}
spec:
  resource: {apiVersion: apps/v1, kind: Deployment, namespace: shop, name: web, uid: u}
  replicas: 4
  clusters: [{name: member1, replicas: 4}]
  placement: {clusterAffinity: {clusterNames: [member1, member2]}, replicaScheduling: {replicaSchedulingType: Divided,
    replicaDivisionPreference: Aggregated}}
";

#[test]
fn losing_a_cluster_moves_its_bindings() {
    let output = simulate(&[
        "-f",
        "examples/fleet.yaml",
        "-f",
        "examples/nginx.yaml",
        "--without",
        "member1",
    ]);
    assert_eq!(
        output.without_note(),
        "\
NAMESPACE   NAME               FROM                   TO
default     nginx-deployment   member1:1, member2:1   member2:2

1 binding looked at, 1 would move, 0 would become unschedulable
"
    );
    let arguments = [&FLEET[..], &["--without=member1", "-o", "json"]].concat();
    let output = simulate_with_input(&arguments, PLACED).json();
    assert_eq!(output[0]["from"][0]["name"], "member1");
    assert_eq!(output[0]["clusters"][0]["name"], "member2");
    assert_eq!(output[0]["explanation"]["member1"]["stage"], "deleting");
}

#[test]
fn losing_every_candidate_makes_a_binding_unschedulable() {
    let output = simulate(&[
        "-f",
        "examples/fleet.yaml",
        "-f",
        "examples/nginx.yaml",
        "--without",
        "member1",
        "--without",
        "member2",
    ]);
    assert_eq!(
        output.without_note(),
        "\
NAMESPACE   NAME               FROM                   TO   REASON
default     nginx-deployment   member1:1, member2:1   -    0/3 clusters are available: 1 cluster(s) did not match the placement cluster affinity constraint.

1 binding looked at, 0 would move, 1 would become unschedulable
"
    );
}

/// A binding without another cluster stays recorded in its clusters, but nothing runs in a lost cluster.
#[test]
fn a_lost_cluster_is_no_target() {
    let tight = PLACED.replace(
        "replicas: 4\n",
        "replicas: 4\n  replicaRequirements: {resourceRequest: {cpu: 900}}\n",
    );
    let lost = [
        &FLEET[..],
        &["--without", "member1", "--without", "member3"],
    ]
    .concat();
    let output = simulate_with_input(&lost, &tight).out();
    assert!(
        output.contains("member1:4   -    failed to scale up: Clusters available replicas 0 are not enough to schedule.")
            || output.contains("member1:4   -    "),
        "{output}"
    );
}

#[test]
fn losing_an_empty_cluster_moves_nothing() {
    let output = simulate(&[
        "-f",
        "examples/fleet.yaml",
        "-f",
        "examples/nginx.yaml",
        "--without",
        "member3",
    ]);
    assert_eq!(
        output.without_note(),
        "1 binding looked at, 0 would move, 0 would become unschedulable\n"
    );
}

#[test]
fn a_taint_affects_only_new_placements() {
    let tainted = [&FLEET[..], &["--taint", "member1=dedicated=db:NoSchedule"]].concat();
    let placement = "{clusterAffinity: {clusterNames: [member1, member2]}}";
    let new = simulate_with_input(&tainted, &app("web", 2, placement)).out();
    assert!(
        new.contains("web-deployment   member1:2, member2:2   member2:2"),
        "{new}"
    );
    let placed = simulate_with_input(&tainted, PLACED).out();
    assert!(
        placed.starts_with("1 binding looked at, 0 would move")
            && placed.contains(
                "note: a taint keeps new workloads out of the cluster; only a taint with the effect NoExecute"
            ),
        "{placed}"
    );
}
