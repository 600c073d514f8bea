use serde_json::json;

use super::*;

fn deployment(image: &str) -> Deployment {
    serde_json::from_value(json!({
        "metadata": {"namespace": "shop", "name": "web", "uid": "d"},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "c", "image": image}], "nodeSelector": {}},
            },
        },
    }))
    .unwrap()
}

fn replica_set(name: &str, image: &str, created: &str) -> ReplicaSet {
    serde_json::from_value(json!({
        "metadata": {
            "namespace": "shop", "name": name, "uid": name, "creationTimestamp": created,
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "d",
                "controller": true}],
        },
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web", "pod-template-hash": name}},
                "spec": {"containers": [{"name": "c", "image": image}]},
            },
        },
    }))
    .unwrap()
}

fn pod(name: &str, set: &str, condition: serde_json::Value) -> Pod {
    serde_json::from_value(json!({
        "metadata": {
            "namespace": "shop", "name": name,
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": set, "uid": set,
                "controller": true}],
        },
        "status": {"conditions": [condition]},
    }))
    .unwrap()
}

fn waiting(since: &str) -> serde_json::Value {
    json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "lastTransitionTime": since})
}

/// Returns a Deployment with an old and a current ReplicaSet, each with an unschedulable pod.
fn workloads() -> Workloads {
    let mut workloads = Workloads::default();
    workloads.apply_deployment(&deployment("v2"));
    workloads.apply_replica_set(&replica_set("old", "v1", "2026-01-01T00:00:00Z"));
    workloads.apply_replica_set(&replica_set("new", "v2", "2026-01-02T00:00:00Z"));
    workloads.apply_pod(&pod("a", "old", waiting("2026-01-03T00:00:00Z")));
    workloads.apply_pod(&pod("b", "new", waiting("2026-01-03T00:00:00Z")));
    workloads
}

/// Returns the number of pods that have been unschedulable for longer than the threshold at 00:01:00.
fn count(workloads: &Workloads, threshold: SignedDuration) -> Result<i32, WorkloadError> {
    let now = "2026-01-03T00:01:00Z".parse().unwrap();
    workloads.unschedulable_replicas("Deployment", "shop", "web", threshold, now)
}

#[test]
fn only_pods_of_the_current_replica_set_count() {
    let mut workloads = workloads();
    assert_eq!(count(&workloads, SignedDuration::ZERO), Ok(1));
    // Back to the first template.
    workloads.apply_deployment(&deployment("v1"));
    workloads.apply_pod(&pod("c", "old", waiting("2026-01-03T00:00:00Z")));
    assert_eq!(count(&workloads, SignedDuration::ZERO), Ok(2));
    // No ReplicaSet has the new template yet.
    workloads.apply_deployment(&deployment("v3"));
    assert_eq!(count(&workloads, SignedDuration::ZERO), Ok(0));
}

#[test]
fn the_oldest_of_several_current_replica_sets_is_used() {
    let mut workloads = workloads();
    workloads.apply_replica_set(&replica_set("older", "v2", "2026-01-01T00:00:00Z"));
    assert_eq!(count(&workloads, SignedDuration::ZERO), Ok(0));
    workloads.remove_replica_set(&replica_set("older", "v2", "2026-01-01T00:00:00Z").metadata);
    assert_eq!(count(&workloads, SignedDuration::ZERO), Ok(1));
}

#[test]
fn pods_count_if_they_have_been_unschedulable_for_longer_than_the_threshold() {
    let workloads = workloads();
    for (seconds, expected) in [(-5, 1), (0, 1), (59, 1), (60, 0), (61, 0)] {
        let threshold = SignedDuration::from_secs(seconds);
        assert_eq!(count(&workloads, threshold), Ok(expected), "{seconds}");
    }
}

#[test]
fn only_the_condition_of_the_scheduler_counts() {
    let since = "2026-01-03T00:00:00Z";
    for (condition, expected) in [
        (waiting(since), 1),
        (
            json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}),
            1,
        ),
        (
            json!({"type": "PodScheduled", "status": "True", "lastTransitionTime": since}),
            0,
        ),
        (
            json!({"type": "PodScheduled", "status": "False", "reason": "SchedulingGated", "lastTransitionTime": since}),
            0,
        ),
        (
            json!({"type": "Ready", "status": "False", "reason": "Unschedulable"}),
            0,
        ),
    ] {
        let mut workloads = workloads();
        workloads.apply_pod(&pod("b", "new", condition.clone()));
        assert_eq!(
            count(&workloads, SignedDuration::ZERO),
            Ok(expected),
            "{condition}"
        );
    }
}

#[test]
fn removed_objects_do_not_count() {
    let mut workloads = workloads();
    workloads.retain_pods(|_, name| name != "b");
    assert_eq!(count(&workloads, SignedDuration::ZERO), Ok(0));
    workloads.retain_deployments(|_, _| false);
    let missing = count(&workloads, SignedDuration::ZERO).unwrap_err();
    let text = "deployments.apps \"shop/web\" not found";
    assert_eq!(missing.to_string(), text);
}

#[test]
fn other_kinds_are_not_supported() {
    let now = Timestamp::UNIX_EPOCH;
    let result =
        workloads().unschedulable_replicas("Job", "shop", "web", SignedDuration::ZERO, now);
    let error = result.unwrap_err().to_string();
    assert_eq!(error, "kind(Job) of workload(shop/web) is not supported");
}
