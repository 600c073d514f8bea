//! A member that leaves while it has work: its workloads go elsewhere first.

use crate::program::{Up, berth, root, until};
use berth_test_requirements::needs;

#[needs(kubectl)]
#[test]
fn workloads_leave_a_member_before_it_leaves() {
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
        let there = [deployed("member1"), deployed("member2")];
        let all = there.iter().all(|one| one == "deployment.apps/nginx\n");
        if all {
            Ok(())
        } else {
            Err(format!("{there:?}"))
        }
    });
    let kubeconfig = up.kubeconfig().display().to_string();
    let way = [
        "--cluster-kubeconfig",
        &kubeconfig,
        "--cluster-context",
        "member2",
    ];
    let output = berth(up.home.path(), &[&["unjoin", "member2"][..], &way].concat())
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8(output.stdout).unwrap();
    // The namespace of its Works goes as well; the cluster controller may be there first.
    let begin = "control plane: Cluster member2 deleted\n";
    assert!(said.starts_with(begin), "{said}");
    assert!(said.ends_with("member2 is no member any more\n"), "{said}");
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
