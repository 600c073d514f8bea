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
fn a_job_is_complete_when_complete_everywhere() {
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
        json!({"active": 1, "succeeded": 1, "startTime": "2026-01-01T00:00:01Z"}),
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
    assert_eq!(
        aggregated("batch/v1", "Job", json!({ "status": all }), &[running]),
        None
    );
    let none = aggregated("batch/v1", "Job", json!({}), &[]);
    assert_eq!(none, None);
}

fn job(template: Value, statuses: &[Value]) -> Value {
    aggregated("batch/v1", "Job", template, statuses).unwrap()
}

fn with_conditions(mut status: Value, kinds: &[&str]) -> Value {
    let kinds = kinds.iter();
    status["conditions"] = kinds
        .map(|kind| json!({"type": kind, "status": "True"}))
        .collect();
    status
}

fn types(status: &Value) -> Vec<&str> {
    let conditions = status["conditions"].as_array().into_iter().flatten();
    conditions.map(|c| c["type"].as_str().unwrap()).collect()
}

#[test]
fn a_job_is_failed_when_it_failed_in_a_member_and_ended_in_all() {
    let failed = || {
        with_conditions(
            json!({"failed": 1, "active": 1}),
            &["FailureTarget", "Failed"],
        )
    };
    let running = json!({"active": 1, "startTime": "2026-01-01T00:00:01Z"});
    let failing = job(json!({}), &[failed(), running.clone()]);
    assert_eq!(types(&failing), ["FailureTarget"]);
    assert_eq!(
        (&failing["active"], &failing["failed"]),
        (&json!(2), &json!(1))
    );
    assert_eq!(
        failing["conditions"][0]["message"],
        "Job executed failed in member clusters m1"
    );
    // The condition stays when the cluster in which the Job failed leaves, with its message and times.
    let mut template = json!({"status": failing});
    template["status"]["conditions"][0]["lastTransitionTime"] = json!("2025-01-01T00:00:00Z");
    let left = job(template.clone(), &[running]);
    assert_eq!(left["conditions"], template["status"]["conditions"]);
    assert_eq!((&left["active"], &left["failed"]), (&json!(1), &json!(1)));
    let complete = with_conditions(json!({"succeeded": 1}), &["Complete"]);
    let ended = job(template, &[complete]);
    assert_eq!(types(&ended), ["FailureTarget", "Failed"]);
    assert_eq!(ended["active"], Value::Null);
    // A finished Job needs a start.
    assert_eq!(ended["startTime"], "1970-01-01T00:00:00Z");
    assert_eq!(ended["completionTime"], Value::Null);
}

#[test]
fn counters_of_a_job_do_not_decrease_when_a_cluster_leaves() {
    let template = |spec: Value| {
        json!({"spec": spec,
        "status": {"succeeded": 13, "failed": 2, "startTime": "2026-01-01T00:00:05Z"}})
    };
    let report = json!({"succeeded": 8, "active": 1, "startTime": "2026-01-01T00:00:01Z"});
    let status = job(
        template(json!({"completions": 40})),
        std::slice::from_ref(&report),
    );
    assert_eq!(
        status,
        json!({"active": 1, "succeeded": 13, "failed": 2, "startTime": "2026-01-01T00:00:05Z"})
    );
    // The completions of an elastic Job may decrease.
    let elastic = json!({"completions": 9, "parallelism": 9, "completionMode": "Indexed"});
    assert_eq!(job(template(elastic), &[report])["succeeded"], 8);
}

#[test]
fn a_complete_job_names_missing_completions_and_does_not_end_before_its_start() {
    let report = with_conditions(
        json!({"succeeded": 20, "completionTime": "2026-01-01T00:00:01Z"}),
        &["SuccessCriteriaMet", "Complete"],
    );
    let template =
        |spec: Value| json!({"spec": spec, "status": {"startTime": "2026-01-01T00:00:05Z"}});
    for (spec, message) in [
        (json!({"completions": 20}), "Job completed"),
        (
            json!({"completions": 40, "successPolicy": {}}),
            "Job completed",
        ),
        (
            json!({"completions": 40}),
            "Job completed with 20 of 40 completions",
        ),
    ] {
        let status = job(template(spec), std::slice::from_ref(&report));
        assert_eq!(types(&status), ["Complete", "SuccessCriteriaMet"]);
        assert_eq!(status["conditions"][0]["message"], message);
        assert_eq!(status["completionTime"], "2026-01-01T00:00:05Z");
    }
}

#[test]
fn a_pod_has_one_status_for_each_of_its_containers() {
    let template = |policy: &str, status: Value| {
        json!({"status": status, "spec": {
        "restartPolicy": policy, "containers": [{"name": "c"}, {"name": "d"}]}})
    };
    let container = |name: &str, ready: bool, state: Value| json!({"name": name, "ready": ready, "state": state});
    let runs = || json!({"running": {"startedAt": "2026-01-01T00:00:00Z"}});
    let ended = |code: i64| json!({"terminated": {"exitCode": code}});
    let report =
        |containers: &[Value]| json!({"phase": "Running", "containerStatuses": containers});
    let summary = |status: &Value| -> Vec<Value> {
        let list = status["containerStatuses"].as_array().unwrap();
        list.iter()
            .map(|c| json!([c["name"], c["ready"], c["state"]]))
            .collect()
    };
    let status = aggregated(
        "v1",
        "Pod",
        template("Always", json!({"qosClass": "Burstable"})),
        &[
            report(&[
                container("c", true, runs()),
                container("sidecar", true, runs()),
            ]),
            report(&[
                container("d", true, runs()),
                container("c", false, ended(1)),
            ]),
        ],
    )
    .unwrap();
    assert_eq!(
        summary(&status),
        [json!(["c", false, ended(1)]), json!(["d", true, runs()])]
    );
    assert_eq!(status["qosClass"], "Burstable");
    // A container that cannot run again stays terminated, although it runs in another member.
    for (policy, code, stays) in [
        ("Never", 1, true),
        ("OnFailure", 0, true),
        ("OnFailure", 1, false),
        ("Always", 0, false),
    ] {
        let old = json!({"containerStatuses": [container("c", false, ended(code))]});
        let new = report(&[container("c", true, runs())]);
        let status = aggregated("v1", "Pod", template(policy, old), &[new]).unwrap();
        let expected = if stays {
            json!(["c", false, ended(code)])
        } else {
            json!(["c", true, runs()])
        };
        assert_eq!(summary(&status), [expected], "{policy} {code}");
    }
}

#[test]
fn a_service_that_is_no_load_balancer_loses_its_addresses() {
    let template = |addresses: Value| {
        json!({"spec": {"type": "ClusterIP"},
        "status": {"loadBalancer": {"ingress": addresses}, "conditions": []}})
    };
    let status = aggregated("v1", "Service", template(json!([{"ip": "10.0.0.1"}])), &[]);
    assert_eq!(status, Some(json!({"loadBalancer": {}, "conditions": []})));
    assert_eq!(aggregated("v1", "Service", template(json!([])), &[]), None);
}

#[test]
fn parts_do_not_exceed_their_totals() {
    let report =
        json!({"replicas": 1, "readyReplicas": 3, "updatedReplicas": 2, "availableReplicas": 4});
    let status = aggregated("apps/v1", "Deployment", json!({}), &[report]).unwrap();
    assert_eq!(
        status,
        json!({"replicas": 1, "readyReplicas": 1, "updatedReplicas": 1, "availableReplicas": 1})
    );
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
