//! Tests of HorizontalPodAutoscalers and of the workloads that they scale.

use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscalerStatus;
use serde_json::{Value, json};

use super::{Cluster, default_key, deployment, edit_deployment, from};

fn autoscaler(cluster: &mut Cluster, min: i32, max: i32, metrics: &Value) {
    let metadata = cluster.metadata("web");
    cluster.cache.autoscalers.put(from(json!({
        "metadata": metadata,
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "minReplicas": min, "maxReplicas": max, "metrics": metrics,
        },
    })));
}

fn cpu(target: i32) -> Value {
    json!([{"type": "Resource", "resource": {
        "name": "cpu", "target": {"type": "Utilization", "averageUtilization": target}}}])
}

fn set_load(cluster: &mut Cluster, load: &str) {
    edit_deployment(cluster, "web", |d| {
        d["metadata"]["annotations"] = json!({"simulation.berth/cpu-load": load});
    });
    cluster.advance_until_idle();
}

fn replicas(cluster: &Cluster) -> i32 {
    let deployment = cluster.cache.deployments.get(&default_key("web")).unwrap();
    deployment.spec.as_ref().unwrap().replicas.unwrap()
}

fn status(cluster: &Cluster) -> HorizontalPodAutoscalerStatus {
    let autoscaler = cluster.cache.autoscalers.get(&default_key("web")).unwrap();
    autoscaler.status.clone().unwrap()
}

/// Returns the conditions in the form `TYPE=STATUS REASON`.
fn conditions(cluster: &Cluster) -> Vec<String> {
    let conditions = status(cluster).conditions.unwrap().into_iter();
    conditions
        .map(|c| format!("{}={} {}", c.type_, c.status, c.reason.unwrap_or_default()))
        .collect()
}

#[test]
fn replicas_follow_the_load_within_their_limits() {
    let mut cluster = Cluster::with_nodes(2, "8");
    deployment(&mut cluster, "web", 2, "1");
    autoscaler(&mut cluster, 2, 6, &cpu(50));
    cluster.advance_until_idle();
    assert_eq!(replicas(&cluster), 2);
    for (load, expected) in [
        ("1500m", 3),
        // This load is within the tolerance of 10%.
        ("1600m", 3),
        ("1700m", 4),
        ("9", 6),
        ("2", 4),
        ("0", 2),
    ] {
        set_load(&mut cluster, load);
        assert_eq!(replicas(&cluster), expected, "{load}");
        let ready = cluster
            .pods("web")
            .iter()
            .filter(|pod| pod.ends_with(" ready"))
            .count();
        assert_eq!(ready, usize::try_from(expected).unwrap(), "{load}");
    }
}

#[test]
fn the_status_shows_metrics_and_conditions() {
    let mut cluster = Cluster::with_nodes(2, "8");
    deployment(&mut cluster, "web", 2, "1");
    autoscaler(&mut cluster, 1, 3, &cpu(50));
    set_load(&mut cluster, "6");
    let shown = status(&cluster);
    assert_eq!(
        (shown.current_replicas, shown.desired_replicas),
        (Some(3), 3)
    );
    assert_eq!(shown.observed_generation, Some(1));
    assert!(shown.last_scale_time.is_some());
    let metrics = serde_json::to_value(&shown.current_metrics).unwrap();
    let current = &metrics[0]["resource"]["current"];
    assert_eq!(
        current,
        &json!({"averageUtilization": 200, "averageValue": "2"})
    );
    let expected = [
        "AbleToScale=True ReadyForNewScale",
        "ScalingActive=True ValidMetricFound",
        "ScalingLimited=True TooManyReplicas",
    ];
    assert_eq!(conditions(&cluster), expected);
}

#[test]
fn autoscalers_that_cannot_scale_report_the_reason() {
    let mut cluster = Cluster::with_nodes(2, "8");
    deployment(&mut cluster, "web", 3, "1");
    let memory = json!([{"type": "Resource", "resource": {
        "name": "memory", "target": {"type": "Utilization", "averageUtilization": 50}}}]);
    autoscaler(&mut cluster, 1, 6, &memory);
    set_load(&mut cluster, "6");
    assert_eq!(replicas(&cluster), 3);
    assert_eq!(
        conditions(&cluster)[1],
        "ScalingActive=False FailedGetResourceMetric"
    );

    autoscaler(&mut cluster, 1, 6, &cpu(50));
    edit_deployment(&mut cluster, "web", |d| d["spec"]["replicas"] = json!(0));
    cluster.advance_until_idle();
    assert_eq!(replicas(&cluster), 0);
    assert_eq!(
        conditions(&cluster)[1],
        "ScalingActive=False ScalingDisabled"
    );

    cluster.cache.deployments.remove(&default_key("web"));
    cluster.advance_until_idle();
    assert_eq!(conditions(&cluster), ["AbleToScale=False FailedGetScale"]);
}
