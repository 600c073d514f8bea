//! Tests of the estimators of `berth up`, which count the replicas that fit on the nodes of the members.

use berth_test_requirements::needs;
use serde_json::{Value, json};

use crate::program::{Up, berth, until};

/// A Deployment that selects nodes with a label that no node has, and a policy that divides its replicas.
const WEB: &str = "
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: web, namespace: default}
spec:
  resourceSelectors: [{apiVersion: apps/v1, kind: Deployment, name: web}]
  placement:
    replicaScheduling: {replicaSchedulingType: Divided, replicaDivisionPreference: Aggregated}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: default}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      nodeSelector: {disk: ssd}
      containers: [{name: c, image: shop, resources: {requests: {cpu: 100m}}}]
";

/// Returns the binding of the Deployment.
fn binding(up: &Up) -> Value {
    let found = up.run_kubectl(&["get", "resourcebinding/web-deployment", "-o", "json"]);
    serde_json::from_slice(&found.stdout).unwrap_or_default()
}

fn apply_web(up: &Up) {
    let file = up.home.path().join("web.yaml");
    std::fs::write(&file, WEB).unwrap();
    up.kubectl(&["apply", "-f", file.to_str().unwrap()]);
}

/// Waits until the binding of the Deployment is unschedulable.
fn wait_for_no_room(up: &Up) {
    until("the condition", || {
        let found = binding(up);
        let condition = &found["status"]["conditions"][0];
        let message = condition["message"].as_str().unwrap_or_default();
        let is_unschedulable = condition["status"] == "False"
            && condition["reason"] == "Unschedulable"
            && message.contains("available replicas 0 are not enough");
        is_unschedulable
            .then_some(())
            .ok_or_else(|| found.to_string())
    });
}

/// Waits until both replicas of the Deployment are on this cluster.
fn wait_for_placement(up: &Up, cluster: &str) {
    until("the placement", || {
        let found = binding(up);
        let target = json!([{"name": cluster, "replicas": 2}]);
        (found["spec"]["clusters"] == target)
            .then_some(())
            .ok_or_else(|| found.to_string())
    });
}

/// Returns the output of `berth explain` about the Deployment.
fn explain(up: &Up) -> String {
    let explained = berth(up.home.path(), &["explain", "deployment/web"]).output();
    String::from_utf8(explained.unwrap().stdout).unwrap()
}

#[needs(kubectl)]
#[test]
fn a_workload_that_fits_on_no_node_is_placed_after_a_node_gets_the_label() {
    let up = Up::start(&["--members=2"]);
    let path = "-o=jsonpath={.items[*].spec.externalName}";
    let services = ["-n", "karmada-system", "get", "services", path];
    assert_eq!(up.kubectl(&services), "127.0.0.1 127.0.0.1");
    apply_web(&up);
    wait_for_no_room(&up);
    // The controllers report the node pools soon after the start.
    until("the cause in the first lines", || {
        let explained = explain(&up);
        let cause = "no node of member1 has the label disk=ssd";
        let first_lines: Vec<&str> = explained.lines().take(2).collect();
        let names_cause = first_lines.iter().any(|line| line.contains(cause));
        names_cause.then_some(()).ok_or(explained)
    });
    // No object of the control plane changes.
    up.in_member("member2", &["label", "node/member2-node-1", "disk=ssd"]);
    wait_for_placement(&up, "member2");
    until("the pods", || {
        let path = "-o=jsonpath={.items[*].spec.nodeName}";
        let nodes = up.in_member("member2", &["get", "pods", "-l", "app=web", path]);
        (nodes == "member2-node-1 member2-node-1")
            .then_some(())
            .ok_or(nodes)
    });
}

#[needs(kubectl)]
#[test]
fn without_estimators_and_node_pools_the_free_resources_of_the_cluster_count() {
    let up = Up::start(&[
        "--members=1",
        "--without=estimators",
        "--feature-gates=NodePoolEstimate=false",
    ]);
    let services = ["-n", "karmada-system", "get", "services", "-o", "name"];
    assert_eq!(up.kubectl(&services), "");
    apply_web(&up);
    wait_for_placement(&up, "member1");
}

#[needs(kubectl)]
#[test]
fn without_estimators_the_node_pools_in_the_cluster_count() {
    let up = Up::start(&["--members=1", "--without=estimators"]);
    apply_web(&up);
    wait_for_no_room(&up);
    let explained = explain(&up);
    let reason = "0 available replicas (general-estimator: 0 of 4 nodes satisfy the node selector";
    assert!(explained.contains(reason), "{explained}");
    up.in_member("member1", &["label", "node/member1-node-1", "disk=ssd"]);
    wait_for_placement(&up, "member1");
}
