//! The cluster controller. It maintains the execution namespace, the finalizer and the condition taints of each
//! Cluster, and deletes the execution namespace of a deleted Cluster. It also sets the condition `Ready` of a Pull
//! cluster to `Unknown` when the agent of the cluster is silent.
//!
//! `cluster_reconciler` sends the requests. [`taints`] computes the taints of a Cluster, and [`heartbeat`] detects
//! silent agents. These two modules send no requests.

mod cluster_reconciler;
pub mod heartbeat;
pub mod taints;

use berth_apimachinery::api_error::{api_error_message, is_unreachable};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use berth_api::Cluster;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::core::ApiResource;
use kube::{Client, ResourceExt as _};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::cluster_reconciler::{ClusterReconciler, Progress};
pub use self::heartbeat::HeartbeatOptions;
use self::heartbeat::{Heartbeats, Now, is_pulled};
use crate::monitor::Monitor;
use crate::reconciler::informer::WatchEvent;
use crate::reconciler::store::{Former, Store};
use crate::reconciler::work_queue::{Priority, Timers, WorkQueue};
use crate::reconciler::{ControllerError, Inputs, Reconciler, Runtime, Workers};

/// The name of this component in events and metrics.
const COMPONENT: &str = "cluster-controller";
/// Maximum number of requests sent at the same time.
const WORKERS: usize = 8;
/// Delay before a Cluster is reconciled again after a failed or an unfinished reconciliation.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// Runs the cluster controller until the token is cancelled.
///
/// # Errors
/// When one of its tasks panics.
pub async fn run(
    client: Client,
    options: HeartbeatOptions,
    monitor: Monitor,
    shutdown: CancellationToken,
) -> Result<(), ControllerError> {
    let mut runtime = Runtime::new(client.clone(), COMPONENT, &monitor, &shutdown);
    let inputs = runtime.inputs();
    let events = inputs.record_events(COMPONENT);
    inputs.watch(&ApiResource::erase::<Cluster>(&()), |event| event);
    let controller = ClusterController {
        reconciler: ClusterReconciler::new(client, events),
        clusters: Store::new(|name, error| {
            tracing::warn!(cluster = name, %error, "cannot read a Cluster: it is ignored");
            Former::Kept
        }),
        queue: WorkQueue::with_retry_delays(RETRY_DELAY, RETRY_DELAY)
            .metered(monitor.queue(COMPONENT)),
        heartbeats: Heartbeats::new(options),
        period: options.monitor_period,
        check: Check::At(Instant::now()),
        silent: Vec::new(),
    };
    runtime.run("cluster controller", controller, WORKERS).await
}

struct ClusterController {
    reconciler: ClusterReconciler,
    clusters: Store<Cluster>,
    queue: WorkQueue<String, ()>,
    heartbeats: Heartbeats,
    /// Interval between two checks for silent agents.
    period: Duration,
    check: Check,
    /// Clusters with a silent agent, each with the new condition `Ready` to write.
    silent: Vec<(Arc<Cluster>, Condition)>,
}

/// The state of the check for silent agents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Check {
    /// The next check starts at this time.
    At(Instant),
    /// The check is due and waits for a free worker.
    Due,
    /// The check started at this time and waits for the Leases of the agents.
    RunningSince(Instant),
}

/// The result of a job.
enum Outcome {
    /// A Cluster was reconciled.
    Reconciled(String, Result<Progress, kube::Error>),
    /// The renew times of the Leases of all agents, by cluster.
    RenewTimes(Result<HashMap<String, Timestamp>, kube::Error>),
    /// A condition was written.
    ConditionSet(String, Result<(), kube::Error>),
}

impl Reconciler for ClusterController {
    type Event = WatchEvent;
    type Outcome = Outcome;

    fn handle_event(&mut self, event: WatchEvent, _: &mut Inputs<WatchEvent>) {
        for change in self.clusters.handle(event) {
            if change.new.is_some() {
                self.queue.push(change.name, (), Priority::High);
            }
        }
    }

    fn handle_outcome(&mut self, outcome: Outcome, _: &mut Inputs<WatchEvent>) {
        match outcome {
            Outcome::Reconciled(name, Ok(Progress::Done)) => self.queue.finish(&name),
            Outcome::Reconciled(name, Ok(Progress::Unfinished)) => {
                self.queue.fail(&name, ());
            }
            Outcome::Reconciled(name, Err(error)) => self.queue.retry(&name, (), &error),
            Outcome::RenewTimes(renew_times) => self.handle_renew_times(renew_times),
            Outcome::ConditionSet(cluster, Err(error)) if !is_unreachable(&error) => {
                let error = api_error_message(&error);
                tracing::warn!(
                    cluster,
                    error,
                    "cannot mark a Cluster as unknown, trying again"
                );
            }
            Outcome::ConditionSet(..) => {}
        }
    }

    fn timers(&mut self) -> Option<&mut dyn Timers> {
        Some(&mut self.queue)
    }

    fn next_due(&mut self) -> Option<Instant> {
        let check = match self.check {
            Check::At(time) => Some(time),
            Check::Due | Check::RunningSince(_) => None,
        };
        self.queue.next_due().into_iter().chain(check).min()
    }

    fn handle_due(&mut self) {
        self.queue.requeue_due();
        if let Check::At(time) = self.check
            && time <= Instant::now()
        {
            self.check = Check::Due;
        }
    }

    fn dispatch(&mut self, workers: &mut Workers<Outcome>) {
        if self.check == Check::Due && workers.has_free() {
            self.start_check(workers);
        }
        while workers.has_free() {
            let reconciler = self.reconciler.clone();
            if let Some((cluster, condition)) = self.silent.pop() {
                workers.start(async move {
                    let written = reconciler.set_condition(&cluster, condition).await;
                    Outcome::ConditionSet(cluster.name_any(), written)
                });
                continue;
            }
            let Some((name, ())) = self.queue.next() else {
                return;
            };
            let Some(cluster) = self.clusters.objects.get(&name).cloned() else {
                self.queue.finish(&name);
                continue;
            };
            self.queue.start(name.clone());
            workers.start(async move {
                let progress = reconciler.reconcile(&cluster).await;
                Outcome::Reconciled(name, progress)
            });
        }
    }
}

impl ClusterController {
    /// Starts to read the Leases of the agents if there are Pull clusters.
    fn start_check(&mut self, workers: &mut Workers<Outcome>) {
        let now = Instant::now();
        let clusters = self.clusters.objects.values();
        let pulled = clusters.filter(|cluster| is_pulled(cluster));
        let names: HashSet<&str> = pulled
            .filter_map(|cluster| cluster.metadata.name.as_deref())
            .collect();
        self.heartbeats.retain(&names);
        if names.is_empty() {
            self.check = Check::At(now + self.period);
            return;
        }
        self.check = Check::RunningSince(now);
        let reconciler = self.reconciler.clone();
        workers.start(async move { Outcome::RenewTimes(reconciler.renew_times().await) });
    }

    fn handle_renew_times(&mut self, renew_times: Result<HashMap<String, Timestamp>, kube::Error>) {
        let now = Now {
            instant: Instant::now(),
            clock: Timestamp::now(),
        };
        if let Check::RunningSince(begin) = self.check {
            self.check = Check::At(now.instant.max(begin + self.period));
        }
        let renew_times = match renew_times {
            Ok(renew_times) => renew_times,
            // Without the Leases, no agent is regarded as silent.
            Err(error) => {
                if !is_unreachable(&error) {
                    let error = api_error_message(&error);
                    tracing::warn!(error, "cannot read the Leases of clusters, trying again");
                }
                return;
            }
        };
        let clusters = self.clusters.objects.iter();
        for (name, cluster) in clusters.filter(|(_, it)| is_pulled(it)) {
            let renew_time = renew_times.get(name).copied();
            if let Some(condition) = self.heartbeats.check(cluster, renew_time, now) {
                self.silent.push((Arc::clone(cluster), condition));
            }
        }
    }
}
