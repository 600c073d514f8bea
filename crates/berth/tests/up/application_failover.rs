//! Tests of application failover: a workload moves to another member when a simulated member cannot pull its image.

use berth_test_requirements::needs;
use serde_json::Value;

use crate::program::{Up, until};

fn get(up: &Up, resource: &str, path: &str) -> String {
    up.kubectl(&["get", resource, "-o", &format!("jsonpath={path}")])
}

/// Applies a manifest with kubectl. `name` is the name of the file that contains the manifest.
fn apply(up: &Up, name: &str, manifest: &str) {
    let file = up.home.path().join(name);
    std::fs::write(&file, manifest).unwrap();
    up.kubectl(&["apply", "-f", file.to_str().unwrap()]);
}

const NGINX: &str = include_str!("manifests/failing_nginx.yaml");

#[needs(kubectl)]
#[test]
fn a_workload_with_an_unpullable_image_moves_to_another_member() {
    let up = Up::start(&[
        "--members=2",
        r"--unpullable=^fake\.registry/",
        "--cluster-status-update-frequency=1s",
    ]);
    apply(&up, "nginx.yaml", NGINX);
    let old = until("the placement", || {
        let clusters = get(&up, "rb/nginx-deployment", "{.spec.clusters[*].name}");
        let healthy = get(
            &up,
            "rb/nginx-deployment",
            "{.status.aggregatedStatus[*].health}",
        );
        if healthy == "Healthy" {
            Ok(clusters)
        } else {
            Err(format!("{clusters}: {healthy}"))
        }
    });
    let new = if old == "member1" {
        "member2"
    } else {
        "member1"
    };
    let overriding = format!(
        "apiVersion: policy.karmada.io/v1alpha1
kind: OverridePolicy
metadata: {{name: nginx}}
spec:
  resourceSelectors: [{{apiVersion: apps/v1, kind: Deployment, name: nginx}}]
  overrideRules:
    - targetCluster: {{clusterNames: [{old}]}}
      overriders: {{imageOverrider: [{{component: Registry, operator: add, value: fake.registry}}]}}
"
    );
    apply(&up, "override.yaml", &overriding);

    // The old member reports an unhealthy workload, with the same event messages as a kubelet.
    until("the events of the pods", || {
        let events = up.in_member(&old, &["get", "events"]);
        let expected = [
            "Failed to pull image \"fake.registry/nginx:1.19.0\"",
            "Error: ErrImagePull",
            "Back-off pulling image \"fake.registry/nginx:1.19.0\"",
            "Error: ImagePullBackOff",
        ];
        match expected.iter().find(|words| !events.contains(**words)) {
            None => Ok(()),
            Some(words) => Err(format!("{words} is not in {events}")),
        }
    });
    let shown = up.in_member(&old, &["get", "pods"]);
    assert!(shown.contains("ImagePullBackOff"), "{shown}");
    until("the unhealthy status", || {
        let text = up.kubectl(&["get", "rb/nginx-deployment", "-o", "json"]);
        let binding: Value = serde_json::from_str(&text).unwrap();
        let items = binding["status"]["aggregatedStatus"].as_array().unwrap();
        let item = items.iter().find(|item| item["clusterName"] == *old);
        let moved = binding["spec"]["clusters"][0]["name"] == new;
        let item = item.unwrap_or(&Value::Null);
        let waits = item["health"] == "Unhealthy" && item["status"]["unavailableReplicas"] == 1;
        if waits || moved {
            Ok(())
        } else {
            Err(item.to_string())
        }
    });

    // The workload moves. The old member deletes its Deployment when the Deployment in the new member is healthy.
    until("the move", || {
        let clusters = get(&up, "rb/nginx-deployment", "{.spec.clusters[*].name}");
        let tasks = get(
            &up,
            "rb/nginx-deployment",
            "{.spec.gracefulEvictionTasks[*].fromCluster}",
        );
        let ready = get(&up, "deployment/nginx", "{.status.readyReplicas}");
        let left = up.in_member(&old, &["get", "deployments", "-o", "name"]);
        if clusters == new && tasks.is_empty() && ready == "3" && left.is_empty() {
            Ok(())
        } else {
            Err(format!("{clusters}, {tasks}, {ready} ready, left: {left}"))
        }
    });
    let events = up.kubectl(&["get", "events"]);
    assert!(
        events.contains("EvictWorkloadFromClusterSucceed"),
        "{events}"
    );
}
