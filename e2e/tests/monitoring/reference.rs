//! A test that `docs/metrics.md` lists the metrics that the programs export. With `BERTH_WRITE_METRICS=1`, the test
//! writes the page instead of comparing it.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use berth_api::{ClusterQueue, ResourceBinding};
use berth_e2e::program::{command, free_port};
use berth_e2e::{BareControlPlane, Objects as _, Program, eventually, sample};
use berth_test_requirements::needs;
use kube::api::{Api, PostParams};
use serde_json::{Value, json};

use crate::controllers::{MEMBER, Scene, config_map, policy, port_of};
use crate::exposition::{Families, Family, parse};
use crate::http::scrape;
use crate::{in_repository, read};

const PAGE: &str = "docs/metrics.md";

const HEAD: &str = "\
<!-- Generated from the metrics of the programs: `just metrics` writes this page. -->

# Metrics

All metrics with their types, labels and meaning. A metric that Karmada also exports has Karmada's name, labels and
buckets. [Monitoring](../deploy/monitoring/README.md) describes the alerts and dashboards that use the metrics.

A histogram `NAME` consists of `NAME_bucket` with the additional label `le`, `NAME_sum` and `NAME_count`.
";

const SCHEDULER: &str = "\
`berth scheduler` exports these metrics at `/metrics` of `--metrics-bind-address`. The metrics of extenders exist if the
configuration has extenders. The metrics of estimators exist with `--enable-scheduler-estimator`, and the metric of the
decision log exists with `--decision-log`. The metrics of ClusterQueues exist if there are queues ([queues](queues.md)).";

const CONTROLLERS: &str = "\
`berth controllers` exports these metrics at `/metrics` of `--metrics-bind-address`, as karmada-controller-manager does.
Standbys export these metrics, too.";

const WEBHOOK: &str = "\
`berth webhook` exports these metrics at `/metrics` of `--metrics-bind-address`, as karmada-webhook does.";

const ESTIMATOR: &str = "\
`berth estimator` exports these metrics at `/metrics` of `--metrics-bind-address`. karmada-scheduler-estimator exports
them, too.";

const API_SERVER: &str = "\
The API server of `berth up` exports these metrics at its address. [Control plane](control-plane.md#metrics) describes
the necessary permission. kube-apiserver exports these metrics, too, and many others.";

/// Returns the metrics that the page documents, by name. A metric of several programs has the labels of all its rows.
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

/// Starts a scheduler with an unreachable extender, estimators and a decision log, because each of them adds metrics.
fn start_scheduler(bare: &BareControlPlane, port: u16) -> Program {
    let configuration = bare.folder().join("scheduler.json");
    let text = json!({
        "apiVersion": "scheduler.config.berth/v1alpha1", "kind": "SchedulerConfiguration",
        "extenders": [{ "urlPrefix": "http://127.0.0.1:1", "filterVerb": "filter", "ignorable": true }],
    });
    std::fs::write(&configuration, text.to_string()).unwrap();
    let configuration = format!("--config={}", configuration.display());
    let log = format!("--decision-log={}", bare.folder().join("log").display());
    let arguments = [
        &configuration,
        &log,
        "--enable-scheduler-estimator=true",
        "--feature-gates=ClusterQueues=true",
    ];
    start("scheduler", bare, port, &arguments)
}

/// Starts the webhook server at `secure_port`, with metrics at `port`.
fn start_webhook(bare: &BareControlPlane, port: u16, secure_port: u16) -> Program {
    let secure_port = format!("--secure-port={secure_port}");
    let arguments = [
        "--self-managed-certificates",
        "--bind-address=127.0.0.1",
        &secure_port,
    ];
    start("webhook", bare, port, &arguments)
}

fn start(component: &str, bare: &BareControlPlane, port: u16, arguments: &[&str]) -> Program {
    let mut command = command(env!("CARGO_BIN_EXE_berth-program"));
    command
        .arg(component)
        .arg(format!("--kubeconfig={}", bare.kubeconfig().display()))
        .args(arguments)
        .arg(format!("--metrics-bind-address=127.0.0.1:{port}"))
        .arg("--health-probe-bind-address=127.0.0.1:0");
    Program::start(
        &mut command,
        &bare.folder().join(format!("{component}.log")),
    )
}

fn binding() -> ResourceBinding {
    let placement = json!({ "clusterAffinity": { "clusterNames": ["m1"] } });
    let spec = json!({ "schedulerName": "default-scheduler", "placement": placement });
    sample::binding("web", json!({ "spec": spec }))
}

/// Returns the metric families of a scheduler that has completed a scheduling cycle.
async fn scheduler_families(bare: &BareControlPlane) -> Families {
    let port = free_port();
    let queues: Api<ClusterQueue> = Api::all(bare.client.clone());
    let quotas = json!([{ "name": "cpu", "nominalQuota": "1" }]);
    let queue = json!({ "metadata": { "name": "red" }, "spec": { "quotas": quotas } });
    let queue = serde_json::from_value(queue).unwrap();
    queues.create(&PostParams::default(), &queue).await.unwrap();
    let scheduler = start_scheduler(bare, port);
    bare.bind(&binding()).await;
    let text = eventually("a completed cycle", async || {
        let text = scrape(port).await.map_err(|error| error.to_string())?;
        let has_cycle = text.contains("karmada_scheduler_schedule_attempts_total{");
        if has_cycle && text.contains("berth_scheduler_cluster_queue_used_ratio{") {
            Ok(text)
        } else {
            Err(text)
        }
    })
    .await;
    drop(scheduler);
    parse(&text)
}

/// Returns the metric families of a webhook server that has handled a request.
async fn webhook_families(bare: &BareControlPlane) -> Families {
    let (port, secure_port) = (free_port(), free_port());
    let webhook = start_webhook(bare, port, secure_port);
    let url = format!("https://127.0.0.1:{secure_port}").parse().unwrap();
    let mut config = kube::Config::new(url);
    config.accept_invalid_certs = true;
    let client = kube::Client::try_from(config).unwrap();
    eventually("a response of the webhook", async || {
        let request = http::Request::post("/mutate-work").body(kube::client::Body::empty());
        let response = client.send(request.unwrap()).await;
        response.map_err(|error| error.to_string())
    })
    .await;
    let text = scrape(port).await.unwrap();
    drop(webhook);
    parse(&text)
}

/// Returns the metric families of an estimator that has sent requests to its member.
async fn estimator_families(bare: &BareControlPlane) -> Families {
    let port = free_port();
    let arguments = ["--cluster-name=m1", "--server-port=0"];
    let estimator = start("estimator", bare, port, &arguments);
    let families = eventually("samples of all families", async || {
        let families = parse(&scrape(port).await.map_err(|error| error.to_string())?);
        let has_samples = |families: &Families| families.values().all(|family| family.samples > 0);
        if has_samples(&families) {
            Ok(families)
        } else {
            Err("a family has no sample".to_owned())
        }
    })
    .await;
    drop(estimator);
    families
}

/// Returns the configuration of an interpreter webhook for Secrets. No server listens at the URL of the webhook.
fn unreachable_webhook() -> Value {
    json!({
        "apiVersion": "config.karmada.io/v1alpha1", "kind": "ResourceInterpreterWebhookConfiguration",
        "metadata": { "name": "unreachable" },
        "webhooks": [{
            "name": "unreachable.example.com",
            "rules": [{ "operations": ["InterpretReplica"], "apiGroups": [""], "apiVersions": ["v1"],
                        "kinds": ["Secret"] }],
            "clientConfig": { "url": "https://127.0.0.1:1/interpret" },
            "interpreterContextVersions": ["v1alpha1"],
        }],
    })
}

/// Returns the metric families of controllers after actions that add a sample to each family.
async fn controller_families() -> Families {
    let scene = Scene::start().await;
    let controllers = scene.start_controllers(
        "controllers",
        &[
            "--leader-elect=false",
            "--rebalance=dry-run",
            "--feature-gates=Failover=true,PropagationPolicyPreemption=true",
            "--enable-no-execute-taint-eviction=true",
            "--resource-eviction-rate=100",
        ],
    );
    let (first, second) = (config_map("first"), config_map("second"));
    let preempting = json!({
        "priority": 1, "preemption": "Always",
        "resourceSelectors": [{ "apiVersion": "v1", "kind": "ConfigMap", "name": "first" }],
    });
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "s", "namespace": "default" },
    });
    let secrets = json!({ "resourceSelectors": [{ "apiVersion": "v1", "kind": "Secret" }] });
    scene
        .create_all(&[unreachable_webhook(), secret, policy("secrets", secrets)])
        .await;
    let quota = json!({
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": "FederatedResourceQuota",
        "metadata": { "name": "team", "namespace": "default" }, "spec": { "overall": { "cpu": "1" } },
    });
    scene.create_all(&[quota]).await;
    scene
        .create_all(&[first.clone(), second.clone(), policy("p", json!({}))])
        .await;
    for map in [&first, &second] {
        scene.wait_for_member(map, true).await;
    }
    scene.edit(&first, json!({ "data": { "a": "2" } })).await;
    // Another client changes the object in the member, and the controllers set it back.
    let in_member = scene.member();
    let is_current = |map: &Value| map["data"]["a"] == "2";
    in_member.wait_for(&first, "the edit", is_current).await;
    in_member
        .edit(&first, json!({ "data": { "a": "3" } }))
        .await;
    in_member
        .wait_for(&first, "the correction", is_current)
        .await;
    scene.delete(&second).await;
    scene.wait_for_member(&second, false).await;
    scene.create_all(&[policy("preempting", preempting)]).await;
    let port = port_of(&controllers).await;
    let is_preempted = async || {
        let text = scrape(port).await.map_err(|error| error.to_string())?;
        let preempted = text.contains("\npolicy_preemption_total{");
        if preempted { Ok(()) } else { Err(text) }
    };
    eventually("a preemption", is_preempted).await;
    let member = json!({
        "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": { "name": MEMBER },
    });
    let taint = json!({ "key": "maintenance", "effect": "NoExecute" });
    let tainted = json!({ "spec": { "taints": [taint] } });
    scene.edit(&member, tainted).await;
    scene.wait_for_member(&first, false).await;
    let families = eventually("samples of all families", async || {
        let families = parse(&scrape(port).await.map_err(|error| error.to_string())?);
        let missing = families.iter().filter(|(_, family)| family.samples == 0);
        let missing: Vec<_> = missing.map(|(name, _)| name.clone()).collect();
        if missing.is_empty() {
            Ok(families)
        } else {
            Err(missing.join(", "))
        }
    })
    .await;
    drop(controllers);
    scene.stop().await;
    families
}

/// Checks that the page equals the text generated from the metrics of all programs.
#[needs(embedded)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_page_lists_the_metrics_of_the_programs() {
    let bare = BareControlPlane::start(&[sample::cluster("m1", json!({}))]).await;
    let scheduler = scheduler_families(&bare).await;
    let request = http::Request::get("/metrics").body(Vec::new()).unwrap();
    let api_server = parse(&bare.client.request_text(request).await.unwrap());
    let webhook = webhook_families(&bare).await;
    let estimator = estimator_families(&bare).await;
    bare.stop().await;
    let controllers = controller_families().await;
    let all = [&scheduler, &api_server, &controllers, &webhook, &estimator];
    for (name, family) in all.into_iter().flatten() {
        // Only the samples of a family show its labels.
        assert!(
            family.samples > 0,
            "{name} has no sample; extend this test so that it causes one"
        );
        assert!(!family.help.is_empty() && !family.kind.is_empty(), "{name}");
    }
    let page = [
        HEAD.to_owned(),
        section("Scheduler", SCHEDULER, &scheduler),
        section("Controllers", CONTROLLERS, &controllers),
        section("Webhooks", WEBHOOK, &webhook),
        section("Estimators", ESTIMATOR, &estimator),
        section("API server", API_SERVER, &api_server),
    ]
    .concat();
    if std::env::var_os("BERTH_WRITE_METRICS").is_some() {
        std::fs::write(in_repository(PAGE), page).unwrap();
    } else {
        assert!(read(PAGE) == page, "{PAGE} is stale: run `just metrics`");
    }
}
