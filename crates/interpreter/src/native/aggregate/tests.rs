use super::*;

fn items(statuses: &[Value]) -> Vec<AggregatedStatusItem> {
    let numbered = statuses.iter().enumerate();
    numbered
        .map(|(index, status)| AggregatedStatusItem {
            cluster_name: format!("m{}", index + 1),
            status: (!status.is_null()).then(|| status.clone()),
            applied: Some(true),
            ..AggregatedStatusItem::default()
        })
        .collect()
}

fn aggregated(api_version: &str, kind: &str, template: Value, statuses: &[Value]) -> Option<Value> {
    let mut template = template;
    template["apiVersion"] = json!(api_version);
    template["kind"] = json!(kind);
    let now = Time(jiff::Timestamp::UNIX_EPOCH);
    aggregate(&template, &items(statuses), &now)
}

fn report(generation: i64, observed: i64, template: i64, ready: i64) -> Value {
    json!({"generation": generation, "observedGeneration": observed,
        "resourceTemplateGeneration": template, "replicas": 2, "readyReplicas": ready})
}

#[test]
fn counters_are_summed_and_the_observed_generation_waits_for_all_members() {
    let template = json!({"metadata": {"generation": 3}, "status": {"observedGeneration": 2, "conditions": []}});
    for kind in ["Deployment", "ReplicaSet", "StatefulSet"] {
        let behind = aggregated(
            "apps/v1",
            kind,
            template.clone(),
            &[report(1, 1, 3, 2), report(2, 1, 3, 1)],
        )
        .unwrap();
        assert_eq!(behind["observedGeneration"], 2, "{kind}");
        assert_eq!(
            (&behind["replicas"], &behind["readyReplicas"]),
            (&json!(4), &json!(3)),
            "{kind}"
        );
        let seen = aggregated(
            "apps/v1",
            kind,
            template.clone(),
            &[report(1, 1, 3, 2), report(2, 2, 3, 1)],
        )
        .unwrap();
        assert_eq!(seen["observedGeneration"], 3, "{kind}");
        let missing = aggregated(
            "apps/v1",
            kind,
            template.clone(),
            &[report(1, 1, 3, 2), Value::Null],
        )
        .unwrap();
        assert_eq!(missing["observedGeneration"], 2, "{kind}");
    }
}

#[test]
fn an_unchanged_status_is_not_returned() {
    let reports = [report(1, 1, 1, 2)];
    let template = json!({"metadata": {"generation": 1}});
    let status = aggregated("apps/v1", "Deployment", template.clone(), &reports).unwrap();
    let mut again = template;
    again["status"] = status;
    assert_eq!(aggregated("apps/v1", "Deployment", again, &reports), None);
    assert_eq!(aggregated("v1", "ConfigMap", json!({}), &[]), None);
    assert_eq!(
        aggregated("v1", "Service", json!({"spec": {"type": "NodePort"}}), &[]),
        None
    );
}

#[test]
fn addresses_of_all_members_are_joined() {
    let lb = |addresses: Value| json!({"loadBalancer": {"ingress": addresses}});
    let status = aggregated(
        "v1",
        "Service",
        json!({"spec": {"type": "LoadBalancer"}}),
        &[
            lb(json!([{"ip": "10.0.0.2"}])),
            lb(json!([{"ip": "10.0.0.1"}, {"ip": "10.0.0.2"}])),
            Value::Null,
        ],
    );
    assert_eq!(
        status.unwrap(),
        lb(json!([{"ip": "10.0.0.1"}, {"ip": "10.0.0.2"}]))
    );
}

#[test]
fn hostnames_come_first_and_ports_are_sorted() {
    let lb = |addresses: Value| json!({"loadBalancer": {"ingress": addresses}});
    let port = |port: i64, protocol: &str| json!({"port": port, "protocol": protocol});
    let status = aggregated(
        "v1",
        "Service",
        json!({"spec": {"type": "LoadBalancer"}}),
        &[
            lb(json!([{"ip": "10.0.0.1"}, {"hostname": "b.example"},
                {"ip": "10.0.0.2"}, {"ip": "10.0.0.2", "ipMode": "VIP",
                "ports": [port(53, "UDP"), port(53, "TCP")]}])),
            lb(json!([{"hostname": "a.example", "ip": "10.0.0.9"},
                {"ip": "10.0.0.2", "ipMode": "VIP", "ports": [port(9, "TCP"), port(53, "UDP")]}])),
        ],
    );
    assert_eq!(
        status.unwrap(),
        lb(
            json!([{"hostname": "a.example", "ip": "10.0.0.9"}, {"hostname": "b.example"},
            {"ip": "10.0.0.1"}, {"ip": "10.0.0.2", "ipMode": "VIP",
            "ports": [port(9, "TCP"), port(53, "TCP"), port(53, "UDP")]}, {"ip": "10.0.0.2"}])
        )
    );
}

#[test]
fn budgets_and_autoscalers_drop_fields_that_no_member_reports() {
    let budget = json!({"status": {"disruptionsAllowed": 1, "currentHealthy": 1, "desiredHealthy": 1,
        "expectedPods": 1, "disruptedPods": {"m1/a": "2026-01-01T00:00:00Z"}, "observedGeneration": 4}});
    let counts = json!({"disruptionsAllowed": 1, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1});
    let status = aggregated(
        "policy/v1",
        "PodDisruptionBudget",
        budget,
        std::slice::from_ref(&counts),
    );
    assert_eq!(status.unwrap(), counts);
    // A server may store unset fields as null.
    let autoscaler =
        json!({"status": {"currentReplicas": 2, "desiredReplicas": 2, "currentMetrics": null}});
    let report = json!({"currentReplicas": 2, "desiredReplicas": 2});
    let (version, kind) = ("autoscaling/v2", "HorizontalPodAutoscaler");
    assert_eq!(aggregated(version, kind, autoscaler, &[report]), None);
}

#[test]
fn a_job_is_complete_when_complete_everywhere_and_failed_when_failed_anywhere() {
    let done = |kind: &str| {
        json!({"succeeded": 1, "startTime": "2026-01-01T00:00:02Z",
        "completionTime": "2026-01-01T00:00:09Z", "conditions": [{"type": kind, "status": "True"}]})
    };
    let running = json!({"active": 1, "startTime": "2026-01-01T00:00:01Z"});
    let half = aggregated(
        "batch/v1",
        "Job",
        json!({}),
        &[done("Complete"), running.clone()],
    )
    .unwrap();
    assert_eq!(
        half,
        json!({"active": 1, "succeeded": 1, "startTime": "2026-01-01T00:00:01Z"})
    );
    let all = aggregated(
        "batch/v1",
        "Job",
        json!({}),
        &[done("Complete"), done("Complete")],
    )
    .unwrap();
    assert_eq!(all["conditions"][0]["type"], "Complete");
    assert_eq!(all["completionTime"], "2026-01-01T00:00:09Z");
    let failed = aggregated(
        "batch/v1",
        "Job",
        json!({}),
        &[done("Failed"), running.clone()],
    )
    .unwrap();
    assert_eq!(
        failed["conditions"][0]["message"],
        "Job executed failed in member clusters m1"
    );
    assert_eq!(
        aggregated("batch/v1", "Job", json!({ "status": all }), &[running]),
        None
    );
    let none = aggregated("batch/v1", "Job", json!({}), &[]);
    assert_eq!(none, None);
}

#[test]
fn the_template_gets_the_worst_phase_of_the_members() {
    let phase = |phase: &str| json!({ "phase": phase });
    let pod =
        |statuses: &[Value]| aggregated("v1", "Pod", json!({}), statuses).unwrap()["phase"].clone();
    assert_eq!(pod(&[phase("Running"), phase("Failed")]), "Failed");
    assert_eq!(pod(&[phase("Running"), Value::Null]), "Pending");
    assert_eq!(pod(&[phase("Running"), phase("Succeeded")]), "Running");
    let claim = |statuses: &[Value]| {
        aggregated("v1", "PersistentVolumeClaim", json!({}), statuses).unwrap()["phase"].clone()
    };
    assert_eq!(claim(&[phase("Bound"), phase("Pending")]), "Pending");
    assert_eq!(claim(&[phase("Lost"), phase("Pending")]), "Lost");
}

#[test]
fn counters_of_budgets_and_daemon_sets_are_summed() {
    let budget = |healthy: i64| {
        json!({"disruptionsAllowed": 1, "currentHealthy": healthy, "desiredHealthy": 1,
        "expectedPods": 2, "disruptedPods": {"p": "2026-01-01T00:00:00Z"}})
    };
    let status = aggregated(
        "policy/v1",
        "PodDisruptionBudget",
        json!({}),
        &[budget(1), budget(2)],
    )
    .unwrap();
    assert_eq!(
        status,
        json!({"disruptionsAllowed": 2, "currentHealthy": 3, "desiredHealthy": 2, "expectedPods": 4,
        "disruptedPods": {"m1/p": "2026-01-01T00:00:00Z", "m2/p": "2026-01-01T00:00:00Z"}})
    );
    let daemons = json!({"generation": 1, "observedGeneration": 1, "resourceTemplateGeneration": 1,
        "desiredNumberScheduled": 3, "numberReady": 3});
    let status = aggregated(
        "apps/v1",
        "DaemonSet",
        json!({"metadata": {"generation": 1}}),
        &[daemons],
    )
    .unwrap();
    assert_eq!(
        (
            &status["desiredNumberScheduled"],
            &status["observedGeneration"]
        ),
        (&json!(3), &json!(1))
    );
}
