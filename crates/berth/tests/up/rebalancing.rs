//! Tests of moves in a whole control plane: replicas that no node of a member can run move to another member, and the last
//! copy stays.

use berth_test_requirements::needs;

use crate::program::{Up, berth, until};

/// The scheduler knows no nodes, so that it does not see that the selector fits in one member only.
const WEB: &str = "
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: web, namespace: default}
spec:
  resourceSelectors: [{apiVersion: apps/v1, kind: Deployment, name: web}]
  placement:
    clusterAffinity: {clusterNames: [member1, member2]}
    replicaScheduling: {replicaSchedulingType: Divided, replicaDivisionPreference: Aggregated}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: default, annotations: {simulation.berth/start-delay: 0s}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      nodeSelector: {disk: ssd}
      containers: [{name: c, image: nginx, resources: {requests: {cpu: 100m}}}]
";

#[needs(kubectl)]
#[test]
fn replicas_that_no_node_can_run_move_to_another_member() {
    // With estimators or node pools, the workload would have no first placement.
    let up = Up::start(&[
        "--members=2",
        "--rebalance",
        "--unschedulable-threshold=1s",
        "--without=estimators",
        "--feature-gates=NodePoolEstimate=false",
    ]);
    let file = up.home.path().join("web.yaml");
    std::fs::write(&file, WEB).unwrap();
    up.kubectl(&["apply", "-f", file.to_str().unwrap()]);
    let first = until("a placement", || {
        let path = "-o=jsonpath={.items[*].spec.clusters[*].name}";
        let found = up.kubectl(&["get", "resourcebindings", path]);
        if found.is_empty() {
            Err(found)
        } else {
            Ok(found)
        }
    });
    let other = if first == "member1" {
        "member2"
    } else {
        "member1"
    };
    let context = format!("--context={other}");
    up.kubectl(&[&context, "label", "nodes", "--all", "disk=ssd"]);
    until("two ready replicas in the other member", || {
        let path = "-o=jsonpath={.items[*].status.readyReplicas}";
        match up.kubectl(&[&context, "get", "deployments", path]) {
            found if found == "2" => Ok(()),
            found => Err(found),
        }
    });
    let events = up.kubectl(&["get", "events", "-o=jsonpath={.items[*].message}"]);
    let expected = format!("scheduled again: 2 replica(s) in {first} that no node can run");
    assert!(events.contains(&expected), "{events}");
}

/// Checks that a NoExecute taint of the only cluster that fits deletes no healthy copy, also after the grace period.
#[needs(kubectl)]
#[test]
fn an_eviction_from_the_only_cluster_that_fits_keeps_the_last_copy() {
    let up = Up::start(&["--members=2", "--graceful-eviction-timeout=1s"]);
    let file = up.home.path().join("web.yaml");
    let web = WEB
        .replace("[member1, member2]", "[member1]")
        .replace("      nodeSelector: {disk: ssd}\n", "");
    std::fs::write(&file, web).unwrap();
    up.kubectl(&["apply", "-f", file.to_str().unwrap()]);
    let ready = || {
        let path = "-o=jsonpath={.items[*].status.readyReplicas}";
        up.kubectl(&["--context=member1", "get", "deployments", path])
    };
    let is_ready = || match ready() {
        found if found == "2" => Ok(()),
        found => Err(found),
    };
    let taint = |taint: &str| {
        let output = berth(up.home.path(), &["taint", "member1", taint]).output();
        assert!(output.unwrap().status.success(), "{taint}");
    };
    until("two ready replicas", is_ready);
    taint("broken:NoExecute");
    until("the message about the last copy", || {
        let path = r#"-o=jsonpath={.items[*].status.conditions[?(@.type=="Migrating")].reason}"#;
        match up.kubectl(&["get", "resourcebindings", path]) {
            found if found == "LastHealthyCopy" => Ok(()),
            found => Err(found),
        }
    });
    assert_eq!(ready(), "2");
    taint("broken-");
    until("the end of the migration", || {
        let path = "-o=jsonpath={.items[*].spec.clusters[*].name}";
        match up.kubectl(&["get", "resourcebindings", path]) {
            found if found == "member1" => Ok(()),
            found => Err(found),
        }
    });
    assert_eq!(ready(), "2");
}
