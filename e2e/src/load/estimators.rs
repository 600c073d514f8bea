//! The load scenario `estimators`: several estimators of one cluster answer the same requests of one client, in turns.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use berth_api::Cluster;
use berth_api::binding::BindingSpec;
use berth_apiserver::{Server, ServerConfig};
use berth_component_base::kube_client::RateLimit;
use berth_engine::estimate::Unit;
use berth_scheduler::estimator::{
    Answer, EstimateRequest, EstimatorClient, EstimatorOptions, WithoutService,
};
use clap::Args;
use kube::Client;
use serde_json::{Value, json};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::requests::{PlannedRequest, send_all};
use super::server_process::{ServerProcess, Storage};
use super::side_by_side::Program;
use super::{LoadError, millis, percentile, process, seconds};
use crate::program::{Program as Process, free_port};

/// Name of the cluster, which the commands must contain.
const CLUSTER: &str = "load";
/// Number of connections that create nodes and pods.
const CREATORS: usize = 16;
/// Time limit until an estimator answers.
const READY: Duration = Duration::from_mins(2);
const STEP: Duration = Duration::from_millis(20);
/// Time limit of an answer, which is longer than that of schedulers, so that slow answers are measured.
const ANSWER: Duration = Duration::from_mins(1);
/// Time without requests before the memory is read.
const SETTLED: Duration = Duration::from_secs(5);

/// Options of the scenario.
#[derive(Args, Clone, Debug)]
pub struct Estimators {
    /// Estimator, as NAME=COMMAND; repeat the option for each. {kubeconfig} in a command is replaced by the path of a
    /// kubeconfig, {port} by the port of gRPC. The command needs --cluster-name=load
    #[arg(long = "program", value_name = "NAME=COMMAND", required = true)]
    pub programs: Vec<Program>,
    /// Number of nodes
    #[arg(long, default_value_t = 5000)]
    pub nodes: usize,
    /// Number of pods on these nodes
    #[arg(long, default_value_t = 50_000)]
    pub pods: usize,
    /// Number of turns of each estimator
    #[arg(long, default_value_t = 5)]
    pub rounds: usize,
    /// Requests of each kind in a turn
    #[arg(long, default_value_t = 200)]
    pub requests: usize,
}

/// A running estimator, and a client of it.
struct Estimator {
    name: String,
    process: Process,
    client: EstimatorClient,
    ready_after: Duration,
    /// Times of the answers, by the kind of the request.
    times: BTreeMap<&'static str, Vec<Duration>>,
    /// The control plane of the client, which contains the Service of the estimator.
    _services: Server,
    _closes: DropGuard,
}

/// Runs the scenario and returns its report.
///
/// # Errors
/// If a step fails, or two estimators give different answers.
pub async fn estimators(load: &Estimators) -> Result<Value, LoadError> {
    let server = ServerProcess::start(&Storage::none()).await?;
    fill(&server.client().await?, load).await?;
    let folder = tempfile::tempdir().map_err(|error| unexpected(&error))?;
    let mut running = Vec::new();
    for program in &load.programs {
        let started = Estimator::start(program, &server, folder.path()).await?;
        running.push(started);
    }
    let kinds = requests()?;
    for _ in 0..load.rounds {
        for (kind, request) in &kinds {
            let mut answers = BTreeMap::new();
            for estimator in &mut running {
                let answer = estimator.measure(kind, request, load.requests).await?;
                answers.insert(estimator.name.clone(), answer);
            }
            let mut values = answers.values();
            let first = values.next();
            if values.any(|other| Some(other) != first) {
                return Err(LoadError::Unexpected(format!("{kind}: {answers:?}")));
            }
        }
    }
    tokio::time::sleep(SETTLED).await;
    let reports = running.iter_mut().map(Estimator::report);
    Ok(json!({
        "scenario": "estimators", "nodes": load.nodes, "pods": load.pods,
        "requests of each kind": load.rounds * load.requests,
        "estimators": reports.collect::<Vec<_>>(),
    }))
}

impl Estimator {
    /// Starts an estimator, and waits until it answers.
    async fn start(
        program: &Program,
        server: &ServerProcess,
        folder: &std::path::Path,
    ) -> Result<Self, LoadError> {
        let port = free_port();
        let kubeconfig = server.kubeconfig().display().to_string();
        let replaced = [
            ("{kubeconfig}", kubeconfig.as_str()),
            ("{port}", &port.to_string()),
        ];
        let services = Server::start(ServerConfig::default()).await;
        let services = services.map_err(|error| unexpected(&error))?;
        create_service(&services.client(), port).await?;
        let name = program.side.clone();
        let log = folder.join(format!("{name}.log"));
        let began = Instant::now();
        let started = Process::try_start(&mut program.command(&replaced), &log);
        let mut process = started.map_err(|error| unexpected(&error))?;
        let closing = CancellationToken::new();
        let request = spec(&json!({"resourceRequest": {"cpu": "1"}}))
            .and_then(|spec| request(&spec, Unit::Replicas))?;
        let client = loop {
            // Each client connects at once. The pauses of a client between its attempts would distort the time.
            let attempt = connect(&services.client(), &closing)?;
            if let Some(Answer::Fresh(_)) = ask(&attempt, &request).await {
                break attempt;
            }
            attempt.remove(CLUSTER);
            if process.exit_status().is_some() || began.elapsed() > READY {
                let log = process.tail();
                return Err(LoadError::Unexpected(format!(
                    "{name} does not answer\n{log}"
                )));
            }
            tokio::time::sleep(STEP).await;
        };
        Ok(Self {
            name,
            process,
            client,
            ready_after: began.elapsed(),
            times: BTreeMap::new(),
            _services: services,
            _closes: closing.drop_guard(),
        })
    }

    /// Sends a request repeatedly, one at a time. Returns the answer.
    async fn measure(
        &mut self,
        kind: &'static str,
        request: &EstimateRequest,
        number: usize,
    ) -> Result<i32, LoadError> {
        let mut value = None;
        for _ in 0..number {
            let began = Instant::now();
            let answer = ask(&self.client, request).await;
            self.times.entry(kind).or_default().push(began.elapsed());
            match answer {
                Some(Answer::Fresh(fresh)) => value = Some(fresh),
                other => {
                    let name = &self.name;
                    return Err(LoadError::Unexpected(format!("{name}, {kind}: {other:?}")));
                }
            }
        }
        value.ok_or_else(|| LoadError::Unexpected("no requests".to_owned()))
    }

    fn report(&mut self) -> Value {
        let id = self.process.id();
        let times = self.times.iter_mut().map(|(kind, times)| {
            times.sort_unstable();
            let part = |part| millis(percentile(times, part));
            let text = json!({"p50, ms": part(0.5), "p99, ms": part(0.99)});
            ((*kind).to_owned(), text)
        });
        let times: serde_json::Map<String, Value> = times.collect();
        json!({
            "name": self.name,
            "start to first answer, s": seconds(self.ready_after),
            "answers": times,
            "memory, MiB": process::resident_kib(id) / 1024,
            "peak memory, MiB": process::peak_kib(id) / 1024,
            "processor time, s": seconds(process::processor_time(id)),
        })
    }
}

fn unexpected(error: &dyn std::fmt::Display) -> LoadError {
    LoadError::Unexpected(error.to_string())
}

/// Creates the nodes and pods. Every tenth node has a label, and every fifth node has a taint.
async fn fill(client: &Client, load: &Estimators) -> Result<(), LoadError> {
    let clients = vec![client.clone(); CREATORS];
    let nodes = (0..load.nodes).map(|index| {
        let taints = if index % 5 == 0 {
            json!([{"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}])
        } else {
            json!([])
        };
        let disk = if index % 10 == 1 { "ssd" } else { "hdd" };
        let amounts = json!({"cpu": "16", "memory": "64Gi", "pods": "110"});
        let node = json!({"apiVersion": "v1", "kind": "Node",
            "metadata": {"name": format!("node-{index:05}"), "labels": {"disk": disk}},
            "spec": {"taints": taints}, "status": {"capacity": amounts, "allocatable": amounts}});
        PlannedRequest::create("/api/v1/nodes", &node)
    });
    send_all(&clients, nodes.collect()).await?;
    let pods = (0..load.pods).map(|index| {
        let requests = json!({"cpu": format!("{}m", 100 + index % 7 * 100), "memory": "512Mi"});
        let pod = json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": format!("pod-{index:06}")},
            "spec": {"nodeName": format!("node-{:05}", index % load.nodes.max(1)),
                "containers": [{"name": "c", "image": "i", "resources": {"requests": requests}}]}});
        PlannedRequest::create("/api/v1/namespaces/default/pods", &pod)
    });
    send_all(&clients, pods.collect()).await
}

async fn create_service(client: &Client, port: u16) -> Result<(), LoadError> {
    let prefix = EstimatorOptions::default().prefix;
    let namespace = json!({"metadata": {"name": "karmada-system"}});
    let service = json!({"metadata": {"name": format!("{prefix}-{CLUSTER}")},
        "spec": {"type": "ExternalName", "externalName": "127.0.0.1",
            "ports": [{"port": EstimatorOptions::default().port, "targetPort": port}]}});
    let requests = [
        PlannedRequest::create("/api/v1/namespaces", &namespace),
        PlannedRequest::create("/api/v1/namespaces/karmada-system/services", &service),
    ];
    for planned in requests {
        send_all(std::slice::from_ref(client), vec![planned]).await?;
    }
    Ok(())
}

/// Returns a client with a connection to the estimator.
fn connect(services: &Client, closing: &CancellationToken) -> Result<EstimatorClient, LoadError> {
    let options = EstimatorOptions {
        without_service: WithoutService::NoEstimator,
        answers_max_age: Duration::ZERO,
        timeout: ANSWER,
        ..EstimatorOptions::default()
    };
    let unlimited = Arc::new(RateLimit::new(None));
    let client = EstimatorClient::new(services.clone(), unlimited, &options, closing.clone());
    let cluster = json!({"metadata": {"name": CLUSTER}, "spec": {"syncMode": "Push"}});
    let cluster: Cluster = serde_json::from_value(cluster).map_err(|error| unexpected(&error))?;
    client.apply(&cluster);
    Ok(client)
}

async fn ask(client: &EstimatorClient, request: &EstimateRequest) -> Option<Answer> {
    let answers = client.estimate(request, [CLUSTER.into()]).await;
    answers.get(CLUSTER).cloned()
}

/// Returns the kinds of requests.
fn requests() -> Result<Vec<(&'static str, EstimateRequest)>, LoadError> {
    let amounts = json!({"cpu": "500m", "memory": "1Gi"});
    let plain = json!({ "resourceRequest": amounts });
    let selector =
        json!({"resourceRequest": amounts, "nodeClaim": {"nodeSelector": {"disk": "ssd"}}});
    let affinity = json!({"resourceRequest": amounts, "nodeClaim": {
        "hardNodeAffinity": {"nodeSelectorTerms": [{"matchExpressions":
            [{"key": "disk", "operator": "NotIn", "values": ["ssd"]}]}]},
        "tolerations": [{"key": "dedicated", "operator": "Exists"}]}});
    let mut all = Vec::new();
    for (kind, requirements) in [
        ("requests only", plain),
        ("node selector", selector),
        ("node affinity and tolerations", affinity),
    ] {
        all.push((kind, request(&spec(&requirements)?, Unit::Replicas)?));
    }
    let component = |name: &str, replicas: i32, cpu: &str| {
        json!({"name": name, "replicas": replicas,
            "replicaRequirements": {"resourceRequest": {"cpu": cpu, "memory": "8Gi"}}})
    };
    let mut sets = spec(&json!({}))?;
    let components = json!([component("manager", 1, "1"), component("worker", 8, "4")]);
    sets.components = serde_json::from_value(components).map_err(|error| unexpected(&error))?;
    all.push(("sets of 9 pods", request(&sets, Unit::ComponentSets)?));
    Ok(all)
}

fn spec(requirements: &Value) -> Result<BindingSpec, LoadError> {
    let spec = json!({
        "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "default", "name": "web"},
        "replicas": 10, "replicaRequirements": requirements,
    });
    serde_json::from_value(spec).map_err(|error| unexpected(&error))
}

fn request(spec: &BindingSpec, unit: Unit) -> Result<EstimateRequest, LoadError> {
    EstimateRequest::new(spec, unit).map_err(|error| unexpected(&error))
}
