//! docs/metrics.md lists what the programs export. `BERTH_WRITE_METRICS=1` writes the page instead of comparing it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use berth_api::{Cluster, ResourceBinding};
use berth_e2e::{BareControlPlane, eventually};
use berth_test_requirements::needs;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::exposition::{Families, Family, parse};
use crate::{in_repository, read};

const PAGE: &str = "docs/metrics.md";

const HEAD: &str = "\
<!-- Generated from what the programs export: `just metrics` writes this page. -->

# Metrics

All metrics with their types, labels and meaning. Names, labels and buckets are Karmada's where it has the metric.
[Monitoring](../deploy/monitoring/README.md) describes the alerts and dashboards that use them.

A histogram `NAME` consists of `NAME_bucket` with the additional label `le`, `NAME_sum` and `NAME_count`.
";

const SCHEDULER: &str = "\
`berth scheduler` exports these at `/metrics` of `--metrics-bind-address`. The metrics of extenders exist when the
configuration has extenders, and those of estimators with `--enable-scheduler-estimator`.";

const CONTROLLERS: &str = "\
karmada-controller-manager exports these. `berth controllers` exports no metrics yet.";

const API_SERVER: &str = "\
The API server of `berth up` exports these at its address; [control plane](control-plane.md#metrics) describes the
necessary right. kube-apiserver exports them too, and many others.";

/// The metrics of karmada-controller-manager that rules and dashboards use: name, type and labels.
const KARMADA_CONTROLLERS: &[(&str, &str, &[&str], &str)] = &[
    (
        "binding_sync_work_duration_seconds",
        "histogram",
        &["result"],
        "Time to write the Works of a binding.",
    ),
    (
        "cluster_cpu_allocatable_number",
        "gauge",
        &["member_cluster"],
        "Allocatable CPUs of the cluster.",
    ),
    (
        "cluster_cpu_allocated_number",
        "gauge",
        &["member_cluster"],
        "Allocated CPUs of the cluster.",
    ),
    (
        "cluster_memory_allocatable_bytes",
        "gauge",
        &["member_cluster"],
        "Allocatable memory of the cluster.",
    ),
    (
        "cluster_memory_allocated_bytes",
        "gauge",
        &["member_cluster"],
        "Allocated memory of the cluster.",
    ),
    (
        "cluster_node_number",
        "gauge",
        &["member_cluster"],
        "Nodes of the cluster.",
    ),
    (
        "cluster_pod_allocatable_number",
        "gauge",
        &["member_cluster"],
        "Allocatable pods of the cluster.",
    ),
    (
        "cluster_pod_allocated_number",
        "gauge",
        &["member_cluster"],
        "Allocated pods of the cluster.",
    ),
    (
        "cluster_ready_node_number",
        "gauge",
        &["member_cluster"],
        "Ready nodes of the cluster.",
    ),
    (
        "cluster_ready_state",
        "gauge",
        &["member_cluster"],
        "1 if the cluster is ready, else 0.",
    ),
    (
        "cluster_sync_status_duration_seconds",
        "histogram",
        &["member_cluster"],
        "Time to collect the status of the cluster.",
    ),
    (
        "create_resource_to_cluster",
        "counter",
        &["result", "apiversion", "kind", "member_cluster"],
        "Creations of objects in members.",
    ),
    (
        "delete_resource_from_cluster",
        "counter",
        &["result", "apiversion", "kind", "member_cluster"],
        "Deletions of objects in members.",
    ),
    (
        "eviction_kind_total",
        "gauge",
        &["member_cluster", "resource_kind"],
        "Bindings that wait for their eviction, by cluster and kind.",
    ),
    (
        "eviction_processing_total",
        "counter",
        &["name", "result"],
        "Evictions, by queue and result.",
    ),
    (
        "eviction_queue_depth",
        "gauge",
        &["name"],
        "Bindings that wait for their eviction, by queue.",
    ),
    (
        "karmada_build_info",
        "gauge",
        &["git_version"],
        "Build information, as labels of the constant 1.",
    ),
    (
        "leader_election_master_status",
        "gauge",
        &["name"],
        "1 while this process leads.",
    ),
    (
        "policy_apply_attempts_total",
        "counter",
        &["result"],
        "Attempts to apply a policy to a template.",
    ),
    (
        "policy_preemption_total",
        "counter",
        &["result"],
        "Preemptions of a policy by another one.",
    ),
    (
        "resource_apply_policy_duration_seconds",
        "histogram",
        &["result"],
        "Time to apply a policy to a template.",
    ),
    (
        "resource_match_policy_duration_seconds",
        "histogram",
        &[],
        "Time to find the policy of a template.",
    ),
    (
        "rest_client_requests_total",
        "counter",
        &["code", "host", "method"],
        "Requests by code, host and method.",
    ),
    (
        "update_resource_to_cluster",
        "counter",
        &["result", "apiversion", "kind", "member_cluster"],
        "Updates of objects in members.",
    ),
    (
        "work_sync_workload_duration_seconds",
        "histogram",
        &["result"],
        "Time to apply a Work to its member.",
    ),
    (
        "workqueue_adds_total",
        "counter",
        &["controller", "name"],
        "Items added to the queue.",
    ),
    (
        "workqueue_depth",
        "gauge",
        &["controller", "name", "priority"],
        "Items in the queue.",
    ),
    (
        "workqueue_longest_running_processor_seconds",
        "gauge",
        &["controller", "name"],
        "Age of the oldest item in progress.",
    ),
    (
        "workqueue_queue_duration_seconds",
        "histogram",
        &["controller", "name"],
        "Time that items wait in the queue.",
    ),
    (
        "workqueue_retries_total",
        "counter",
        &["controller", "name"],
        "Items that return after a failure.",
    ),
    (
        "workqueue_unfinished_work_seconds",
        "gauge",
        &["controller", "name"],
        "Total age of the items in progress.",
    ),
    (
        "workqueue_work_duration_seconds",
        "histogram",
        &["controller", "name"],
        "Time that processing an item takes.",
    ),
];

/// Returns the documented metrics by name, with the labels of all programs.
pub(crate) fn documented() -> BTreeMap<String, Family> {
    let mut families = BTreeMap::new();
    for line in read(PAGE).lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = line.split(" | ").collect();
        let [name, kind, labels, ..] = cells[..] else {
            panic!("{line}");
        };
        let name = name.trim_matches(['|', ' ', '`']).to_owned();
        let family: &mut Family = families.entry(name).or_default();
        kind.clone_into(&mut family.kind);
        let labels = labels.split('`').skip(1).step_by(2).map(str::to_owned);
        family.labels.extend(labels);
    }
    assert!(families.len() > 30, "{PAGE} lists {}", families.len());
    families
}

fn section(title: &str, text: &str, families: &Families) -> String {
    let mut section = format!("\n## {title}\n\n{text}\n\n");
    section.push_str("| Metric | Type | Labels | Meaning |\n|---|---|---|---|\n");
    for (name, family) in families {
        let Family { kind, help, .. } = family;
        let labels: Vec<_> = family.labels.iter().map(|l| format!("`{l}`")).collect();
        let (labels, help) = (labels.join(", "), help.replace('|', "\\|"));
        let _ = writeln!(section, "| `{name}` | {kind} | {labels} | {help} |");
    }
    section
}

/// A scheduler process that is killed when dropped.
struct Scheduler(Child);

impl Drop for Scheduler {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Scheduler {
    /// Starts a scheduler with an extender that does not respond, and with estimators.
    fn start(bare: &BareControlPlane, port: u16) -> Self {
        let configuration = bare.folder().join("scheduler.json");
        let text = json!({
            "apiVersion": "scheduler.config.berth/v1alpha1", "kind": "SchedulerConfiguration",
            "extenders": [{ "urlPrefix": "http://127.0.0.1:1", "filterVerb": "filter", "ignorable": true }],
        });
        std::fs::write(&configuration, text.to_string()).unwrap();
        let path = |path: &Path| path.display().to_string();
        let child = Command::new(env!("CARGO_BIN_EXE_berth-program"))
            .arg("scheduler")
            .arg(format!("--kubeconfig={}", path(&bare.kubeconfig())))
            .arg(format!("--config={}", path(&configuration)))
            .arg("--enable-scheduler-estimator=true")
            .arg(format!("--metrics-bind-address=127.0.0.1:{port}"))
            .arg("--health-probe-bind-address=127.0.0.1:0")
            .env("HOME", "/nonexistent")
            .env_remove("KUBECONFIG")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Self(child)
    }
}

/// Returns the body of `/metrics`.
async fn scrape(port: u16) -> std::io::Result<String> {
    let mut stream = tokio::net::TcpStream::connect(("127.0.0.1", port)).await?;
    stream
        .write_all(b"GET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n")
        .await?;
    let mut response = String::new();
    stream.read_to_string(&mut response).await?;
    let (head, body) = response.split_once("\r\n\r\n").unwrap_or_default();
    assert!(head.contains(" 200 "), "{head}");
    Ok(body.to_owned())
}

fn cluster(name: &str) -> Cluster {
    let condition = |kind: &str| {
        json!({ "type": kind, "status": "True", "reason": "Ok", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z" })
    };
    serde_json::from_value(json!({
        "metadata": { "name": name },
        "spec": { "syncMode": "Push" },
        "status": {
            "apiEnablements": [{ "groupVersion": "apps/v1",
                "resources": [{ "name": "deployments", "kind": "Deployment" }] }],
            "conditions": [condition("Ready"), condition("CompleteAPIEnablements")],
        },
    }))
    .unwrap()
}

fn binding() -> ResourceBinding {
    serde_json::from_value(json!({
        "metadata": {
            "name": "web", "namespace": "default",
            "labels": { "propagationpolicy.karmada.io/permanent-id": "p" },
        },
        "spec": {
            "resource": { "apiVersion": "apps/v1", "kind": "Deployment", "namespace": "default", "name": "web" },
            "replicas": 1,
            "schedulerName": "default-scheduler",
            "placement": { "clusterAffinity": { "clusterNames": ["m1"] } },
        },
    }))
    .unwrap()
}

/// Returns what a scheduler exports after a decision.
async fn scheduler_families(bare: &BareControlPlane) -> Families {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let scheduler = Scheduler::start(bare, port);
    bare.bind(&binding()).await;
    let text = eventually("a completed cycle", async || {
        let text = scrape(port).await.map_err(|error| error.to_string())?;
        if text.contains("karmada_scheduler_schedule_attempts_total{") {
            Ok(text)
        } else {
            Err(text)
        }
    })
    .await;
    drop(scheduler);
    parse(&text)
}

#[needs(embedded)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_page_lists_what_the_programs_export() {
    let bare = BareControlPlane::start(&[cluster("m1")]).await;
    let scheduler = scheduler_families(&bare).await;
    let request = http::Request::get("/metrics").body(Vec::new()).unwrap();
    let api_server = parse(&bare.client.request_text(request).await.unwrap());
    bare.stop().await;
    for (name, family) in scheduler.iter().chain(&api_server) {
        // Labels are only known from samples. Nothing was rejected here.
        let is_expected =
            family.samples > 0 || name == "apiserver_flowcontrol_rejected_requests_total";
        assert!(is_expected, "{name} has no sample: let the test cause one");
        assert!(!family.help.is_empty() && !family.kind.is_empty(), "{name}");
    }
    let controllers = KARMADA_CONTROLLERS
        .iter()
        .map(|&(name, kind, labels, help)| {
            let family = Family {
                kind: kind.to_owned(),
                help: help.to_owned(),
                labels: labels.iter().map(|&label| label.to_owned()).collect(),
                samples: 0,
            };
            (name.to_owned(), family)
        })
        .collect();
    let page = [
        HEAD.to_owned(),
        section("Scheduler", SCHEDULER, &scheduler),
        section("Controllers", CONTROLLERS, &controllers),
        section("API server", API_SERVER, &api_server),
    ]
    .concat();
    if std::env::var_os("BERTH_WRITE_METRICS").is_some() {
        std::fs::write(in_repository(PAGE), page).unwrap();
    } else {
        assert!(read(PAGE) == page, "{PAGE} is stale: run `just metrics`");
    }
}
