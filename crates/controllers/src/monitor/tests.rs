//! Tests of the names and values of the metrics.

use berth_metrics::Format;
use serde_json::json;

use super::*;

fn samples(monitor: &Monitor) -> Vec<String> {
    let text = Format::Text.render(|registry| monitor.register(registry));
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.map(str::to_owned).collect()
}

fn assert_samples(monitor: &Monitor, expected: &[&str]) {
    let found = samples(monitor);
    for expected in expected {
        assert!(
            found.iter().any(|line| line == expected),
            "{expected}\n{found:#?}"
        );
    }
}

#[test]
fn metrics_have_karmadas_names_and_labels() {
    let monitor = Monitor::default();
    let duration = Duration::from_millis(3);
    monitor.policy_matched(duration);
    let (webhook, operation) = ("workloads.example/scale", "InterpretReplica");
    monitor.interpreter_webhook_called(webhook, operation, Outcome::Error, duration);
    monitor.policy_applied(Outcome::Success, duration);
    monitor.policy_preempted(Outcome::Error);
    monitor.works_synced(Outcome::Success, duration);
    monitor.workload_synced(Outcome::Error, duration);
    let of = MemberKind {
        api_version: "apps/v1",
        kind: "Deployment",
        cluster: "m1",
    };
    monitor.member_write(MemberWrite::Create, of, Outcome::Success);
    monitor.member_write(MemberWrite::Recreate, of, Outcome::Success);
    monitor.member_write(MemberWrite::Update, of, Outcome::Error);
    monitor.member_write(MemberWrite::Delete, of, Outcome::Success);
    monitor.drift_corrected(of);
    monitor.eviction_queue("binding-eviction", 2);
    monitor.awaiting_eviction("m1", "Deployment", 1.0);
    monitor.evicted("binding-eviction", Outcome::Success, duration);
    monitor.migrating("LastHealthyCopy", 1.0);
    monitor.evictions_paused(true);
    monitor.rebalanced("failback", "dry-run", 1);
    assert_samples(
        &monitor,
        &[
            r#"berth_migrating_bindings{reason="LastHealthyCopy"} 1"#,
            "berth_evictions_paused 1",
            r#"berth_rebalanced_bindings_total{cause="failback",mode="dry-run"} 1"#,
            r#"resource_match_policy_duration_seconds_bucket{le="0.002"} 0"#,
            r#"resource_match_policy_duration_seconds_bucket{le="2.048"} 1"#,
            r#"resource_apply_policy_duration_seconds_count{result="success"} 1"#,
            r#"policy_apply_attempts_total{result="success"} 1"#,
            r#"policy_preemption_total{result="error"} 1"#,
            r#"berth_interpreter_webhook_duration_seconds_count{webhook="workloads.example/scale",operation="InterpretReplica",result="error"} 1"#,
            r#"binding_sync_work_duration_seconds_bucket{result="success",le="0.004"} 1"#,
            r#"work_sync_workload_duration_seconds_count{result="error"} 1"#,
            r#"create_resource_to_cluster{result="success",apiversion="apps/v1",kind="Deployment",member_cluster="m1",recreate="false"} 1"#,
            r#"create_resource_to_cluster{result="success",apiversion="apps/v1",kind="Deployment",member_cluster="m1",recreate="true"} 1"#,
            r#"update_resource_to_cluster{result="error",apiversion="apps/v1",kind="Deployment",member_cluster="m1",operationResult="none"} 1"#,
            r#"delete_resource_from_cluster{result="success",apiversion="apps/v1",kind="Deployment",member_cluster="m1"} 1"#,
            r#"berth_corrected_drift_total{apiversion="apps/v1",kind="Deployment",member_cluster="m1"} 1"#,
            r#"eviction_queue_depth{name="binding-eviction"} 2"#,
            r#"eviction_kind_total{member_cluster="m1",resource_kind="Deployment"} 1"#,
            r#"eviction_processing_total{name="binding-eviction",result="success"} 1"#,
            r#"eviction_processing_latency_seconds_bucket{name="binding-eviction",le="16.384"} 1"#,
        ],
    );
}

#[test]
fn a_cluster_has_metrics_until_it_is_forgotten() {
    let monitor = Monitor::default();
    let cluster: Cluster = serde_json::from_value(json!({
        "metadata": { "name": "m1" },
        "spec": { "syncMode": "Push" },
        "status": {
            "conditions": [{ "type": "Ready", "status": "True", "reason": "Ok", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z" }],
            "nodeSummary": { "totalNum": 3, "readyNum": 2 },
            "resourceSummary": {
                "allocatable": { "cpu": "3500m", "memory": "4Gi", "pods": "110" },
                "allocated": { "cpu": "1" },
            },
        },
    }))
    .unwrap();
    monitor.cluster_status(&cluster);
    monitor.cluster_status_collected("m1", Duration::from_millis(20));
    assert_samples(
        &monitor,
        &[
            r#"cluster_ready_state{member_cluster="m1"} 1"#,
            r#"cluster_node_number{member_cluster="m1"} 3"#,
            r#"cluster_ready_node_number{member_cluster="m1"} 2"#,
            r#"cluster_cpu_allocatable_number{member_cluster="m1"} 3.5"#,
            r#"cluster_memory_allocatable_bytes{member_cluster="m1"} 4294967296"#,
            r#"cluster_pod_allocatable_number{member_cluster="m1"} 110"#,
            r#"cluster_cpu_allocated_number{member_cluster="m1"} 1"#,
            r#"cluster_memory_allocated_bytes{member_cluster="m1"} 0"#,
            r#"cluster_sync_status_duration_seconds_bucket{member_cluster="m1",le="0.025"} 1"#,
        ],
    );
    monitor.forget_cluster("m1");
    assert_eq!(samples(&monitor), [""; 0]);
}

#[test]
fn queues_of_one_name_share_their_metrics_until_they_are_dropped() {
    let monitor = Monitor::default();
    let (mut first, mut second) = (monitor.queue("q"), monitor.queue("q"));
    first.added();
    second.added();
    second.added();
    second.taken(Duration::ZERO);
    let ticket = second.started();
    let depth =
        |depth| format!(r#"workqueue_depth{{controller="q",name="q",priority=""}} {depth}"#);
    assert_samples(&monitor, &[&depth(2)]);
    second.ended(ticket);
    second.started();
    drop(second);
    assert_samples(
        &monitor,
        &[
            &depth(1),
            r#"workqueue_adds_total{controller="q",name="q"} 3"#,
            r#"workqueue_work_duration_seconds_count{controller="q",name="q"} 1"#,
            r#"workqueue_longest_running_processor_seconds{controller="q",name="q"} 0"#,
        ],
    );
}
