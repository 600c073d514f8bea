//! The load scenario `propagation`: time until new Deployments are propagated to members, and time until later changes
//! of their replicas arrive in the members.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use berth_api::ResourceBinding;
use clap::Args;
use futures::StreamExt as _;
use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{Api, Patch, PatchParams};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::requests::{PlannedRequest, send_all};
use super::up_process::UpProcess;
use super::{LoadError, at_most, millis, percentile, rate, seconds, watch};

/// Time limit of each part of the scenario.
const TIMEOUT: Duration = Duration::from_mins(10);
/// Number of connections that create objects.
const CREATORS: usize = 8;
/// Number of members that each Deployment is propagated to.
pub(super) const COPIES: usize = 3;
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const POLICIES: &str = "/apis/policy.karmada.io/v1alpha1/namespaces/default/propagationpolicies";

/// Options of the scenario. The replicas of each Deployment are divided equally between three members.
#[derive(Args, Clone, Debug)]
pub struct Propagation {
    /// Number of members
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u16).range(3..))]
    pub members: u16,
    /// Number of Deployments
    #[arg(long, default_value_t = 1000)]
    pub deployments: usize,
    /// Number of changes of replicas after all Deployments are applied
    #[arg(long, default_value_t = 300)]
    pub changes: u32,
    /// Changes of replicas per second
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    pub rate: u32,
}

/// Runs the scenario and returns its report.
///
/// # Errors
/// If a step fails or takes too long.
pub async fn propagation(load: &Propagation) -> Result<Value, LoadError> {
    let members = usize::from(load.members);
    let plane = UpProcess::start(members).await?;
    let client = plane.client().await?;
    let mut creators = Vec::new();
    for _ in 0..CREATORS {
        creators.push(plane.client().await?);
    }
    let mut watches = JoinSet::new();
    let applied = Progress::default();
    watches.spawn(watch_bindings(client.clone(), applied.clone()));
    let arrived = Arrivals::default();
    for number in 1..=members {
        watches.spawn(watch_member(plane.member(number).await?, arrived.clone()));
    }

    send_all(&creators, policies(members)).await?;
    let processor = plane.processor_time();
    let began = Instant::now();
    send_all(&creators, deployments(load.deployments, members)).await?;
    let created = began.elapsed();
    applied.wait(load.deployments).await?;
    let took = began.elapsed();
    let processor_applied = plane.processor_time().saturating_sub(processor);
    arrived.wait_until_quiet().await;

    let processor = plane.processor_time();
    let latencies = scale(&client, load, &arrived).await?;
    let processor_scaled = plane.processor_time().saturating_sub(processor);
    drop(watches);
    let each = |time: Duration, count: usize| {
        millis(time / u32::try_from(count).unwrap_or(u32::MAX).max(1))
    };
    Ok(json!({
        "scenario": "propagation",
        "members": members, "deployments": load.deployments, "copies of each": COPIES,
        "created, s": seconds(created),
        "all FullyApplied after the first was sent, s": at_most(seconds(took), 30.0),
        "deployments/s": rate(load.deployments, took),
        "processor time of a Deployment, ms": each(processor_applied, load.deployments),
        "changes of replicas": latencies.len(), "changes/s": load.rate,
        "change sent to arrival in last member p50, ms": millis(percentile(&latencies, 0.5)),
        "change sent to arrival in last member p99, ms":
            at_most(millis(percentile(&latencies, 0.99)), 500.0),
        "change sent to arrival in last member max, ms": millis(percentile(&latencies, 1.0)),
        "processor time of a change, ms": each(processor_scaled, latencies.len()),
        "peak memory, MiB": plane.peak_mib(),
    }))
}

pub(super) fn name(index: usize) -> String {
    format!("d{index:05}")
}

/// Returns one policy for each group of Deployments. The policy selects [`COPIES`] consecutive members. The number of
/// the group determines the first of these members.
pub(super) fn policies(members: usize) -> Vec<PlannedRequest> {
    let policy = |group: usize| {
        let names: Vec<String> = (0..COPIES)
            .map(|offset| format!("member{}", (group + offset) % members + 1))
            .collect();
        let weights: Vec<Value> = names
            .iter()
            .map(|name| json!({ "targetCluster": { "clusterNames": [name] }, "weight": 1 }))
            .collect();
        json!({ "apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
            "metadata": { "name": format!("group{group}") },
            "spec": {
                "resourceSelectors": [{ "apiVersion": "apps/v1", "kind": "Deployment",
                    "labelSelector": { "matchLabels": { "group": group.to_string() } } }],
                "placement": {
                    "clusterAffinity": { "clusterNames": names },
                    "replicaScheduling": { "replicaSchedulingType": "Divided",
                        "replicaDivisionPreference": "Weighted",
                        "weightPreference": { "staticWeightList": weights } } } } })
    };
    (0..members)
        .map(|group| PlannedRequest::create(POLICIES, &policy(group)))
        .collect()
}

pub(super) fn deployments(count: usize, members: usize) -> Vec<PlannedRequest> {
    let deployment = |index: usize| {
        json!({ "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": { "name": name(index), "labels": { "group": (index % members).to_string() } },
            "spec": { "replicas": COPIES,
                "selector": { "matchLabels": { "app": name(index) } },
                "template": { "metadata": { "labels": { "app": name(index) } },
                    "spec": { "containers": [{ "name": "app", "image": "nginx",
                        "resources": { "requests": { "cpu": "10m" } } }] } } } })
    };
    (0..count)
        .map(|index| PlannedRequest::create(DEPLOYMENTS, &deployment(index)))
        .collect()
}

/// The set of the bindings that have the condition `FullyApplied`.
#[derive(Clone, Default)]
struct Progress {
    done: Arc<Mutex<BTreeSet<String>>>,
    more: Arc<Notify>,
}

impl Progress {
    fn set(&self, name: String, applied: bool) {
        let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        if applied {
            done.insert(name);
        } else {
            done.remove(&name);
        }
        drop(done);
        self.more.notify_one();
    }

    fn count(&self) -> usize {
        let done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        done.len()
    }

    async fn wait(&self, count: usize) -> Result<(), LoadError> {
        let all = async {
            while self.count() < count {
                self.more.notified().await;
            }
        };
        let waited = tokio::time::timeout(TIMEOUT, all).await;
        waited.map_err(|_| LoadError::Timeout {
            what: format!(
                "applying {count} Deployments ({} are applied)",
                self.count()
            ),
            limit: TIMEOUT,
        })
    }
}

async fn watch_bindings(client: Client, progress: Progress) {
    let bindings: Api<ResourceBinding> = Api::default_namespaced(client);
    let mut changes = watch(bindings);
    while let Some(binding) = changes.next().await {
        let mut conditions = binding.status.iter().flat_map(|status| &status.conditions);
        let applied = conditions.any(|c| c.type_ == "FullyApplied" && c.status == "True");
        progress.set(binding.name_any(), applied);
    }
}

/// Times at which members reported a new number of replicas of a Deployment, keyed by the name of the Deployment and
/// the number of replicas.
type ByReplicas = HashMap<(String, i32), Vec<Instant>>;

/// Numbers of replicas that the watches of the members reported, with the times of the reports.
#[derive(Clone, Default)]
struct Arrivals {
    seen: Arc<Mutex<ByReplicas>>,
    last: Arc<Mutex<Option<Instant>>>,
}

impl Arrivals {
    fn note(&self, name: String, replicas: i32) {
        let now = Instant::now();
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(now);
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.entry((name, replicas)).or_default().push(now);
    }

    /// Returns the time at which the last member of the Deployment reported this number of replicas, or `None` if a
    /// member has not reported it yet.
    fn complete(&self, name: &str, replicas: i32) -> Option<Instant> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let members = seen.get(&(name.to_owned(), replicas))?;
        (members.len() == COPIES).then(|| members.iter().max().copied())?
    }

    /// Waits until no Deployment of a member has changed for five seconds. All pods then run, and the members have
    /// reported them.
    async fn wait_until_quiet(&self) {
        let began = Instant::now();
        let mut quiet = false;
        while !quiet && began.elapsed() < TIMEOUT {
            tokio::time::sleep(Duration::from_millis(100)).await;
            let last = *self.last.lock().unwrap_or_else(PoisonError::into_inner);
            quiet = last.unwrap_or(began).elapsed() > Duration::from_secs(5);
        }
    }
}

async fn watch_member(client: Client, arrivals: Arrivals) {
    let deployments: Api<Deployment> = Api::default_namespaced(client);
    let mut changes = watch(deployments);
    let mut known: HashMap<String, i32> = HashMap::new();
    while let Some(deployment) = changes.next().await {
        let replicas = deployment.spec.as_ref().and_then(|spec| spec.replicas);
        let replicas = replicas.unwrap_or_default();
        let name = deployment.name_any();
        if known.insert(name.clone(), replicas) == Some(replicas) {
            *arrivals.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        } else {
            arrivals.note(name, replicas);
        }
    }
}

/// Changes the replicas of Deployments one after the other. Returns for each change the time from the patch until the
/// last member reported the new number of replicas.
async fn scale(
    client: &Client,
    load: &Propagation,
    arrivals: &Arrivals,
) -> Result<Vec<Duration>, LoadError> {
    let api: Api<Deployment> = Api::default_namespaced(client.clone());
    let mut clock = tokio::time::interval(Duration::from_secs(1) / load.rate);
    let mut sent = Vec::new();
    for change in 0..usize::try_from(load.changes).unwrap_or_default() {
        clock.tick().await;
        // Each round uses a different number, so that each patch changes the replicas.
        let (index, round) = (change % load.deployments, change / load.deployments);
        let each = i32::try_from(round).unwrap_or_default() + 2;
        let copies = i32::try_from(COPIES).unwrap_or_default();
        let patch = json!({ "spec": { "replicas": each * copies } });
        sent.push((name(index), each, Instant::now()));
        api.patch(&name(index), &PatchParams::default(), &Patch::Merge(patch))
            .await?;
    }
    let began = Instant::now();
    loop {
        let latencies: Option<Vec<Duration>> = sent
            .iter()
            .map(|(name, each, at)| {
                let arrived = arrivals.complete(name, *each)?;
                Some(arrived.saturating_duration_since(*at))
            })
            .collect();
        if let Some(mut latencies) = latencies {
            latencies.sort_unstable();
            return Ok(latencies);
        }
        if began.elapsed() > TIMEOUT {
            return Err(LoadError::Timeout {
                what: "scaling".to_owned(),
                limit: TIMEOUT,
            });
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
