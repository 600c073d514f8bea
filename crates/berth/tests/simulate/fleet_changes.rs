//! Tests of `berth simulate --without`, `--drain` and `--taint`, which change clusters, with a fleet from manifests.

use berth_test_transcripts::assert_snapshot;

use crate::program::{app, simulated};

/// A binding that is placed in member1.
const PLACED: &str = include_str!("manifests/placed_binding.yaml");

/// A simulation with the example of a Deployment, which is placed in member1 and member2.
const NGINX: &str = "-f examples/fleet.yaml -f examples/nginx.yaml";
const FLEET: &str = "-f examples/fleet.yaml -f -";

#[test]
fn a_lost_cluster_is_no_target() {
    // The binding stays recorded in its cluster, because no other cluster has the capacity. Nothing runs there.
    let tight = PLACED.replace(
        "replicas: 4\n",
        "replicas: 4\n  replicaRequirements: {resourceRequest: {cpu: 900}}\n",
    );
    let without = |arguments: &str, lost: &[&str]| {
        let flags = lost.iter().map(|name| format!(" --without {name}"));
        arguments.to_owned() + &flags.collect::<String>()
    };
    assert_snapshot!(simulated(&[
        ("the binding moves", &without(NGINX, &["member1"]), ""),
        (
            "the clusters before and after, and why the lost cluster is left out",
            &without(&format!("{FLEET} -o json"), &["member1"]),
            PLACED,
        ),
        (
            "every candidate is lost",
            &without(NGINX, &["member1", "member2"]),
            "",
        ),
        (
            "the other candidate is too small",
            &without(FLEET, &["member1", "member3"]),
            &tight,
        ),
        ("an empty cluster", &without(NGINX, &["member3"]), ""),
        ("no such cluster", &without(NGINX, &["member9"]), ""),
    ]));
}

#[test]
fn a_drained_cluster_loses_its_bindings() {
    let drained = format!("{FLEET} --drain member1");
    let pinned = PLACED.replace("[member1, member2]", "[member1]");
    assert_snapshot!(simulated(&[
        ("a new binding", &format!("{NGINX} --drain member1"), ""),
        ("a binding in the cluster", &drained, PLACED),
        ("a binding that fits nowhere else", &drained, &pinned),
        ("no such cluster", &format!("{NGINX} --drain member9"), ""),
    ]));
}

#[test]
fn a_taint_affects_only_new_placements() {
    let tainted = format!("{FLEET} --taint member1=dedicated=db:NoSchedule");
    let placement = "{clusterAffinity: {clusterNames: [member1, member2]}}";
    assert_snapshot!(simulated(&[
        ("a new binding", &tainted, &app("web", 2, placement)),
        ("a binding in the tainted cluster", &tainted, PLACED),
    ]));
}
