//! Losing and tainting clusters, on files.

use crate::program::{app, simulate, simulate_with_input};

const FLEET: [&str; 4] = ["-f", "examples/fleet.yaml", "-f", "-"];

/// A binding that is placed already.
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
fn a_lost_cluster_moves_what_it_holds() {
    let answer = simulate(&[
        "-f",
        "examples/fleet.yaml",
        "-f",
        "examples/nginx.yaml",
        "--without",
        "member1",
    ]);
    assert_eq!(
        answer.answer(),
        "\
NAMESPACE   NAME               FROM                   TO
default     nginx-deployment   member1:1, member2:1   member2:2

1 binding looked at, 1 would move, 0 would become unschedulable
"
    );
    let arguments = [&FLEET[..], &["--without=member1", "-o", "json"]].concat();
    let answer = simulate_with_input(&arguments, PLACED).json();
    assert_eq!(answer[0]["from"][0]["name"], "member1");
    assert_eq!(answer[0]["clusters"][0]["name"], "member2");
    assert_eq!(answer[0]["explanation"]["member1"]["stage"], "deleting");
}

#[test]
fn losing_every_cluster_leaves_nothing() {
    let answer = simulate(&[
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
        answer.answer(),
        "\
NAMESPACE   NAME               FROM                   TO   REASON
default     nginx-deployment   member1:1, member2:1   -    0/3 clusters are available: 1 cluster(s) did not match the placement cluster affinity constraint.

1 binding looked at, 0 would move, 1 would become unschedulable
"
    );
}

#[test]
fn a_lost_cluster_that_holds_nothing_moves_nothing() {
    let answer = simulate(&[
        "-f",
        "examples/fleet.yaml",
        "-f",
        "examples/nginx.yaml",
        "--without",
        "member3",
    ]);
    assert_eq!(
        answer.answer(),
        "1 binding looked at, 0 would move, 0 would become unschedulable\n"
    );
}

#[test]
fn a_taint_keeps_out_what_is_new_and_leaves_what_is_placed() {
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
                "note: a taint keeps out what is not placed yet, and moves nothing that is placed"
            ),
        "{placed}"
    );
}
