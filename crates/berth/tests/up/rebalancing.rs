//! A test of `berth up --rebalance`: replicas that no node of a member can run move to another member.

use berth_test_requirements::needs;

use crate::program::{Up, until};

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
    let up = Up::start(&["--members=2", "--rebalance", "--unschedulable-threshold=1s"]);
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
