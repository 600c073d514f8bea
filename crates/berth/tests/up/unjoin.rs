//! A test of `berth unjoin` with a member that runs workloads: the workloads move to the other member first.

use crate::program::{Up, berth, root, until};
use berth_test_requirements::needs;

#[needs(kubectl)]
#[test]
fn unjoining_a_member_moves_its_workloads_to_the_other_member() {
    let up = Up::start(&["--members=2"]);
    let example = root().join("examples/nginx.yaml").display().to_string();
    up.kubectl(&["apply", "-f", &example]);
    let works = |space: &str| {
        let namespace = format!("--namespace={space}");
        up.kubectl(&["get", "works", "-o", "name", &namespace])
    };
    let deployed = |member: &str| {
        let context = format!("--context={member}");
        up.kubectl(&["get", "deployments", "-o", "name", &context])
    };
    until("the workload in both members", || {
        let deployments = [deployed("member1"), deployed("member2")];
        let all = deployments
            .iter()
            .all(|one| one == "deployment.apps/nginx\n");
        if all {
            Ok(())
        } else {
            Err(format!("{deployments:?}"))
        }
    });
    let kubeconfig = up.kubeconfig().display().to_string();
    let access = [
        "--cluster-kubeconfig",
        &kubeconfig,
        "--cluster-context",
        "member2",
    ];
    let output = berth(
        up.home.path(),
        &[&["unjoin", "member2"][..], &access].concat(),
    )
    .output()
    .unwrap();
    assert!(output.status.success(), "{output:?}");
    let message = String::from_utf8(output.stdout).unwrap();
    // Further lines depend on whether `berth unjoin` or the cluster controller deletes the execution namespace.
    let begin = "control plane: Cluster member2 deleted\n";
    assert!(message.starts_with(begin), "{message}");
    assert!(
        message.ends_with("member2 is no longer a member\n"),
        "{message}"
    );
    assert_eq!(works("karmada-es-member2"), "");
    assert_eq!(deployed("member2"), "");
    let clusters = [
        "get",
        "resourcebinding",
        "nginx-deployment",
        "-o",
        "jsonpath={.spec.clusters[*].name}",
    ];
    until("the binding in the other member", || {
        let names = up.kubectl(&clusters);
        if names == "member1" {
            Ok(())
        } else {
            Err(names)
        }
    });
}
