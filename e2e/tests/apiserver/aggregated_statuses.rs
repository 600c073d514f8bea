//! Aggregated statuses on a server: whatever members report, and whichever members leave, the server accepts each
//! status that the interpreter aggregates.

use berth_api::binding::AggregatedStatusItem;
use berth_interpreter::Interpreter;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};

use crate::harness::objects::{Objects, deployment};
use crate::harness::server;
use crate::numbers::Numbers;

const STEPS: usize = 40;

fn time(numbers: &mut Numbers) -> Value {
    json!(format!("2026-01-01T00:00:{:02}Z", numbers.below(60)))
}

fn job_report(numbers: &mut Numbers) -> Value {
    let condition = |kind: &str| json!({"type": kind, "status": "True"});
    let conditions = [
        json!([]),
        json!([]),
        json!([condition("FailureTarget"), condition("Failed")]),
        json!([condition("SuccessCriteriaMet"), condition("Complete")]),
    ];
    let mut report = json!({"active": numbers.below(3), "succeeded": numbers.below(5),
        "failed": numbers.below(3), "conditions": numbers.one_of(&conditions)});
    for field in ["startTime", "completionTime"] {
        if numbers.below(4) > 0 {
            report[field] = time(numbers);
        }
    }
    report
}

fn pod_report(numbers: &mut Numbers) -> Value {
    let states = [
        json!({}),
        json!({"waiting": {"reason": "ContainerCreating"}}),
        json!({"running": {"startedAt": "2026-01-01T00:00:00Z"}}),
        json!({"terminated": {"exitCode": 0}}),
        json!({"terminated": {"exitCode": 1}}),
    ];
    let mut report = |name: &str| json!({"name": name, "ready": numbers.below(2) == 0, "state": numbers.one_of(&states)});
    let containers = [report("c"), report("d"), report("injected")];
    let initial = [report("i")];
    let phases = ["Pending", "Running", "Succeeded", "Failed"];
    json!({"containerStatuses": containers, "initContainerStatuses": initial,
        "phase": numbers.one_of(&phases)})
}

fn address_report(numbers: &mut Numbers) -> Value {
    let all = [
        json!({"ip": "10.0.0.1", "ipMode": "VIP"}),
        json!({"ip": "fd00::1", "ipMode": "Proxy", "ports": [{"port": 80, "protocol": "TCP"}]}),
        json!({"hostname": "a.example"}),
        json!({"hostname": "10.0.0.1"}),
        json!({"hostname": "Not_Valid"}),
        json!({"ip": "nowhere", "ipMode": "VIP"}),
        json!({"hostname": "b.example", "ipMode": "VIP"}),
        json!({"ip": "10.0.0.2", "ipMode": "Other"}),
        json!({"ip": "10.0.0.3", "ipMode": "VIP", "ports": [7]}),
    ];
    let count = numbers.below(3);
    let addresses: Vec<&Value> = (0..count).map(|_| numbers.one_of(&all)).collect();
    json!({"loadBalancer": {"ingress": addresses}})
}

fn replica_report(numbers: &mut Numbers) -> Value {
    let mut report = json!({});
    for field in [
        "replicas",
        "readyReplicas",
        "updatedReplicas",
        "currentReplicas",
        "availableReplicas",
    ] {
        report[field] = json!(numbers.below(4));
    }
    report
}

type Report = fn(&mut Numbers) -> Value;

/// Returns collections with templates, each with a function that returns a random report of a member.
fn templates() -> Vec<(&'static str, &'static str, &'static str, Value, Report)> {
    let named = |spec: Value| json!({"metadata": {"name": "a"}, "spec": spec});
    let job = |spec: Value| {
        let mut job = named(spec);
        job["spec"]["template"] = json!({"spec": {"restartPolicy": "Never",
            "containers": [{"name": "c", "image": "i"}]}});
        job
    };
    let pod = |policy: &str| {
        named(
            json!({"restartPolicy": policy, "initContainers": [{"name": "i", "image": "i"}],
            "containers": [{"name": "c", "image": "i"}, {"name": "d", "image": "i"}]}),
        )
    };
    let mut set = deployment("a");
    set["kind"] = json!("StatefulSet");
    set["spec"]["serviceName"] = json!("a");
    let service = json!({"type": "LoadBalancer", "selector": {"a": "b"}, "ports": [{"port": 80}]});
    let backend = json!({"service": {"name": "a", "port": {"number": 80}}});
    let (batch, core) = ("batch/v1", "v1");
    vec![
        (
            batch,
            "Job",
            "jobs",
            job(json!({"completions": 4, "parallelism": 2})),
            job_report,
        ),
        (
            batch,
            "Job",
            "jobs",
            job(json!({"completions": 2, "suspend": true})),
            job_report,
        ),
        (
            batch,
            "Job",
            "jobs",
            job(json!({"completions": 4, "parallelism": 4, "completionMode": "Indexed"})),
            job_report,
        ),
        (core, "Pod", "pods", pod("Never"), pod_report),
        (core, "Pod", "pods", pod("OnFailure"), pod_report),
        (core, "Pod", "pods", pod("Always"), pod_report),
        (core, "Service", "services", named(service), address_report),
        (
            "networking.k8s.io/v1",
            "Ingress",
            "ingresses",
            named(json!({"defaultBackend": backend})),
            address_report,
        ),
        (
            "apps/v1",
            "Deployment",
            "deployments",
            deployment("a"),
            replica_report,
        ),
        (
            "apps/v1",
            "StatefulSet",
            "statefulsets",
            set,
            replica_report,
        ),
    ]
}

#[tokio::test]
async fn the_server_accepts_every_aggregated_status() {
    let server = server().await;
    let interpreter = Interpreter::default();
    for (seed, (api_version, kind, plural, template, report)) in (0..).zip(templates()) {
        let namespace = server.namespace().await;
        let root = if api_version == "v1" { "api" } else { "apis" };
        let path = format!("/{root}/{api_version}/namespaces/{namespace}/{plural}");
        let objects = Objects::at(&server, path);
        let mut template = objects.create(&template).await;
        let mut numbers = Numbers::new(seed);
        for step in 0..STEPS {
            let mut items = Vec::new();
            for cluster in ["m1", "m2", "m3"] {
                if numbers.below(4) > 0 {
                    items.push(AggregatedStatusItem {
                        cluster_name: cluster.to_owned(),
                        status: (numbers.below(8) > 0).then(|| report(&mut numbers)),
                        applied: Some(true),
                        ..AggregatedStatusItem::default()
                    });
                }
            }
            template["apiVersion"] = json!(api_version);
            template["kind"] = json!(kind);
            let now = Time("2026-01-01T00:00:30Z".parse().unwrap());
            let aggregated = interpreter.aggregate(&template, &items, &now).unwrap();
            let Some(status) = aggregated else { continue };
            let before = template["status"].clone();
            template["status"] = status;
            let response = objects.put("/a/status", &template).await;
            assert_eq!(
                response.code, 200,
                "{kind} {seed}.{step}: {} after {before}: {}",
                template["status"], response.text
            );
            template = response.json;
        }
    }
}
