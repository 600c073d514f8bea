//! The reconciler of failover. It examines a binding when the binding changes or its scheduled time is reached, and
//! dispatches writes. Writes to one binding run one after another.
//!
//! The reconciler uses a [`Schedule`] instead of a `WorkQueue`, because a binding also waits in [`EvictionQueues`]
//! before its eviction. The rate limit of this queue depends on the reason for the eviction.

use berth_api::BindingKey;
use berth_apimachinery::api_error::is_unreachable;
use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use super::action::{self, Action, Clocks, Trackers};
use super::binding::BindingRecord;
use super::brake::{Brake, HeldBrake, Readiness};
use super::cache::{Cache, Source};
use super::cluster::ClusterRecord;
use super::eviction::{self, Reason};
use super::eviction_queue::{EvictionQueueKind, EvictionQueues};
use super::options::{FailoverOptions, RebalanceMode};
use super::rate_limiter::{MoveBudget, interval};
use super::report::Reports;
use super::schedule::Schedule;
use super::writer::{Announcement, Rebalancing, WriteOutcome, Writer};
use super::{pending_pods, pending_replicas};
use crate::monitor::{self as metrics, Monitor};
use crate::reconciler::informer::WatchEvent;
use crate::reconciler::{Inputs, Reconciler, Workers};

/// Maximum number of writes at the same time.
pub(super) const WORKERS: usize = 32;
/// Delay before a binding is examined again after a conflict, or when all workers are busy.
const SHORT_DELAY: Duration = Duration::from_millis(500);
/// Delay before the first retry of a failed write. Each further failure doubles the delay.
const FIRST_RETRY_DELAY: Duration = Duration::from_secs(1);
/// Maximum delay between two attempts of a write.
const LONGEST_RETRY_DELAY: Duration = Duration::from_mins(1);

/// The reason for which a binding is examined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Examination {
    /// The binding has changed, or its scheduled time is reached. An eviction is queued.
    Scheduled,
    /// An eviction queue has released the binding. An eviction is written.
    Released,
}

/// The result of a job.
#[derive(Debug)]
pub(super) enum Outcome {
    /// A binding was written.
    Binding {
        /// The binding that the write was based on.
        binding: Box<BindingRecord>,
        written: WriteOutcome,
    },
    /// The condition of a Cluster about the brake was written, or the write failed.
    Cluster(String),
    /// The pods that no node can run were counted. `None` means that they could not be counted.
    Pods {
        binding: BindingKey,
        cluster: String,
        count: Option<i64>,
    },
}

/// The failover controllers.
#[derive(Debug)]
pub(super) struct Failover {
    options: FailoverOptions,
    writer: Writer,
    monitor: Monitor,
    cache: Cache,
    trackers: Trackers,
    brake: HeldBrake,
    /// True if the conditions of Clusters may differ from the brake. Each change of a Cluster sets it, so that a failed
    /// write is repeated after the next change.
    may_show_wrong_brake: bool,
    queues: EvictionQueues,
    /// The limit on the evictions of all queues together.
    budget: MoveBudget,
    schedule: Schedule,
    /// Bindings with a running write.
    busy: HashSet<BindingKey>,
    /// Clusters with a running write.
    busy_clusters: HashSet<String>,
    /// Bindings that would have been rebalanced, and have not changed since.
    announced: HashSet<BindingKey>,
    failures: HashMap<BindingKey, u32>,
}

impl Reconciler for Failover {
    type Event = (Source, WatchEvent);
    type Outcome = Outcome;

    fn handle_event(&mut self, (source, event): Self::Event, _: &mut Inputs<Self::Event>) {
        let affected = self.cache.handle_event(source, event);
        let now = Instant::now();
        for key in affected.changed {
            self.schedule.add(key, now);
        }
        for key in affected.deleted {
            self.trackers.forget(&key);
            self.failures.remove(&key);
            self.announced.remove(&key);
            self.schedule.remove(&key);
        }
        if source == Source::Clusters {
            self.update_brake(now);
        }
    }

    fn handle_outcome(&mut self, outcome: Outcome, _: &mut Inputs<Self::Event>) {
        let (binding, written) = match outcome {
            Outcome::Binding { binding, written } => (*binding, written),
            Outcome::Cluster(name) => {
                self.busy_clusters.remove(&name);
                return;
            }
            Outcome::Pods {
                binding,
                cluster,
                count,
            } => {
                self.trackers.pending.counted(&binding, &cluster, count);
                self.schedule.add(binding, Instant::now());
                return;
            }
        };
        let key = binding.body.key.clone();
        self.busy.remove(&key);
        let now = Instant::now();
        match written {
            WriteOutcome::Stored(stored) => {
                self.failures.remove(&key);
                self.cache.put_written(&binding, &stored);
                self.schedule.add(key, now);
            }
            WriteOutcome::Conflict => self.schedule.add(key, now + SHORT_DELAY),
            WriteOutcome::NotFound => drop(self.failures.remove(&key)),
            WriteOutcome::Failed(error) => {
                let failures = self.failures.entry(key.clone()).or_default();
                let delay = FIRST_RETRY_DELAY * 2u32.saturating_pow(*failures).min(64);
                *failures += 1;
                if is_unreachable(&*error) {
                    tracing::debug!(binding = &*key.name, failures, %error, "no response, trying again");
                } else {
                    tracing::warn!(binding = &*key.name, failures, %error, "write failed, trying again later");
                }
                self.schedule.add(key, now + delay.min(LONGEST_RETRY_DELAY));
            }
        }
    }

    fn next_due(&mut self) -> Option<tokio::time::Instant> {
        if !self.cache.has_synced() {
            return None;
        }
        let examination = self.schedule.next_due();
        let examination = examination.into_iter().chain(self.brake.next_due());
        // When all workers are busy, the end of a write triggers the next eviction.
        let eviction = if self.busy.len() < WORKERS {
            let now = Instant::now();
            let (released, allowed) = (self.queues.next_due(now), self.budget.next_allowed(now));
            released.map(|released| allowed.map_or(released, |allowed| released.max(allowed)))
        } else {
            None
        };
        let due = examination.chain(eviction).min();
        due.map(Into::into)
    }

    fn dispatch(&mut self, workers: &mut Workers<Outcome>) {
        if !self.cache.has_synced() {
            return;
        }
        let clocks = Clocks::read();
        if self.brake.next_due().is_some_and(|due| due <= clocks.now) {
            self.update_brake(clocks.now);
        }
        self.show_brake(workers);
        while let Some(key) = self.schedule.pop_due(clocks.now) {
            self.reconcile(&key, clocks, Examination::Scheduled, workers);
        }
        for kind in EvictionQueueKind::ALL {
            while workers.has_free() && self.is_within_limits(kind, clocks.now) {
                let Some(key) = self.queues.of(kind).pop() else {
                    break;
                };
                self.reconcile(&key, clocks, Examination::Released, workers);
            }
        }
    }
}

impl Failover {
    pub(super) fn new(options: FailoverOptions, writer: Writer, monitor: Monitor) -> Self {
        let rate = options
            .taint_eviction
            .as_ref()
            .map_or(0.0, |taints| taints.rate);
        // Alerts need the samples before the first change.
        monitor.evictions_paused(Brake::Released.is_engaged());
        if let Some(rebalance) = &options.rebalance {
            for cause in Rebalancing::CAUSES {
                monitor.rebalanced(cause, rebalance.mode.as_str(), 0);
            }
        }
        Self {
            queues: EvictionQueues::new(interval(rate), &monitor),
            monitor,
            budget: MoveBudget::new(options.move_budget),
            options,
            writer,
            cache: Cache::default(),
            trackers: Trackers::default(),
            brake: HeldBrake::default(),
            may_show_wrong_brake: false,
            schedule: Schedule::default(),
            busy: HashSet::new(),
            busy_clusters: HashSet::new(),
            announced: HashSet::new(),
            failures: HashMap::new(),
        }
    }

    /// Updates the brake after a change of a Cluster. When it changes, the evictions from clusters that are not ready are
    /// decided again.
    fn update_brake(&mut self, now: Instant) {
        let clusters = self.cache.clusters.values().map(ClusterRecord::readiness);
        let was_engaged = self.brake.get().is_engaged();
        self.brake
            .update(Brake::of(clusters, self.options.brake), now);
        let brake = self.brake.get();
        self.may_show_wrong_brake = true;
        if brake.is_engaged() == was_engaged {
            return;
        }
        self.monitor.evictions_paused(brake.is_engaged());
        let usual = self.options.taint_eviction.as_ref();
        let usual = usual.map_or(0.0, |taints| taints.rate);
        // A brake that stops leaves the rate for clusters that are ready.
        let is_slow = brake.is_engaged() && !brake.stops(self.options.brake);
        let rate = if is_slow {
            self.options.brake.rate
        } else {
            usual
        };
        self.queues.set_taint_interval(interval(rate));
        if let Some(message) = brake.message(self.options.brake) {
            tracing::warn!("{message}");
        } else {
            tracing::info!("evictions from clusters that are not ready go on");
            for key in self.cache.bindings.keys() {
                self.schedule.add(key.clone(), now);
            }
        }
    }

    /// Writes the condition of the Clusters that differ from the brake.
    fn show_brake(&mut self, workers: &mut Workers<Outcome>) {
        if !std::mem::take(&mut self.may_show_wrong_brake) {
            return;
        }
        for (name, cluster) in &self.cache.clusters {
            let is_paused = self.brake.get().is_engaged()
                && matches!(cluster.readiness(), Readiness::NotReadySince(_));
            if is_paused == cluster.shows_brake {
                continue;
            }
            if !workers.has_free() {
                self.may_show_wrong_brake = true;
                return;
            }
            if !self.busy_clusters.insert(name.clone()) {
                continue;
            }
            let message = self.brake.get().message(self.options.brake);
            let message = message.filter(|_| is_paused);
            let (writer, name) = (self.writer.clone(), name.clone());
            workers.start(async move {
                let written = writer.show_brake(&name, message.as_deref()).await;
                if let Err(error) = written {
                    tracing::debug!(cluster = name, %error, "cannot write the condition of a cluster");
                }
                Outcome::Cluster(name)
            });
        }
    }

    /// Reports whether the limits of a queue and of all queues together allow an eviction now.
    fn is_within_limits(&mut self, kind: EvictionQueueKind, now: Instant) -> bool {
        self.queues.of(kind).limiter.next_allowed(now).is_none()
            && self.budget.next_allowed(now).is_none()
    }

    /// Examines a binding, and starts the necessary write.
    fn reconcile(
        &mut self,
        key: &BindingKey,
        clocks: Clocks,
        examination: Examination,
        workers: &mut Workers<Outcome>,
    ) {
        let Some(binding) = self.cache.bindings.get(key) else {
            return;
        };
        // The binding is examined again after its write.
        if self.busy.contains(key) {
            return;
        }
        let reports = Reports::new(binding, &self.cache.clusters, clocks.now);
        let (trackers, options) = (&mut self.trackers, &self.options);
        let decision = action::decide(&reports, trackers, options, self.brake.get(), clocks);
        let binding = binding.clone();
        if let Some(time) = decision.next {
            self.schedule.add(key.clone(), time);
        }
        for cluster in decision.count_pods_in {
            self.count_pods(&binding, cluster, workers);
        }
        let rebalancing = match decision.action {
            Action::None => {
                self.announced.remove(key);
                return;
            }
            Action::UpdateTasks(update) => {
                if let Some(patch) = update.patch {
                    let (finished, cancelled) = (update.finished, update.cancelled);
                    let announcement = Announcement::TasksEnded {
                        finished,
                        cancelled,
                    };
                    self.start(binding, patch, announcement, None, workers);
                }
                return;
            }
            Action::Evict(clusters) => {
                let queue = queue_for(&binding, &clusters);
                match examination {
                    Examination::Scheduled => {
                        let clusters = clusters.into_iter().map(|(cluster, _)| cluster);
                        let kind = binding.body.spec.resource.kind;
                        self.queues.of(queue).push(key, kind, clusters.collect());
                    }
                    Examination::Released => {
                        self.evict(binding, clusters, queue, clocks.now, workers);
                    }
                }
                return;
            }
            Action::Return(failback) => {
                let patch = failback.patch(&binding, clocks.wall);
                (Rebalancing::Return(failback.clusters), patch)
            }
            Action::MovePending(moves) => {
                let patch = pending_replicas::patch(&binding, &moves);
                (Rebalancing::MovePending(moves), patch)
            }
        };
        self.rebalance(binding, rebalancing, examination, clocks.now, workers);
    }

    /// Rebalances a binding, or reports what would be done.
    fn rebalance(
        &mut self,
        binding: BindingRecord,
        (rebalancing, patch): (Rebalancing, serde_json::Value),
        examination: Examination,
        now: Instant,
        workers: &mut Workers<Outcome>,
    ) {
        let Some(options) = &self.options.rebalance else {
            return;
        };
        let mode = options.mode;
        let key = binding.body.key.clone();
        if mode == RebalanceMode::DryRun {
            if self.announced.insert(key) {
                self.monitor
                    .rebalanced(rebalancing.cause(), mode.as_str(), 1);
                self.writer.would_rebalance(&binding, &rebalancing);
            }
            return;
        }
        let queue = EvictionQueueKind::Rebalance;
        if examination == Examination::Scheduled {
            let kind = binding.body.spec.resource.kind;
            self.queues.of(queue).push(&key, kind, Vec::new());
            return;
        }
        if let Rebalancing::MovePending(moves) = &rebalancing {
            for (cluster, _) in moves {
                self.trackers.pending.moved(&key, cluster, now);
            }
        }
        self.queues.of(queue).limiter.record(now);
        self.budget.record(now);
        self.monitor
            .rebalanced(rebalancing.cause(), mode.as_str(), 1);
        let announcement = Announcement::Rebalanced(rebalancing);
        self.start(binding, patch, announcement, Some(queue), workers);
    }

    /// Counts the pods of a binding in a cluster that no node can run.
    fn count_pods(
        &mut self,
        binding: &BindingRecord,
        cluster: String,
        workers: &mut Workers<Outcome>,
    ) {
        let key = binding.body.key.clone();
        let Some(record) = self
            .cache
            .clusters
            .get(&cluster)
            .filter(|_| workers.has_free())
        else {
            self.trackers.pending.counted(&key, &cluster, None);
            self.schedule.add(key, Instant::now() + SHORT_DELAY);
            return;
        };
        let (client, record) = (self.writer.client.clone(), record.matched.clone());
        let resource = binding.body.spec.resource.clone();
        workers.start(async move {
            let count = pending_pods::count(&client, &record, &resource).await;
            if let Err(error) = &count {
                tracing::debug!(binding = &*key.name, cluster, %error, "cannot count pending pods");
            }
            Outcome::Pods {
                binding: key,
                cluster,
                count: count.ok(),
            }
        });
    }

    fn evict(
        &mut self,
        binding: BindingRecord,
        clusters: Vec<(String, Reason)>,
        queue: EvictionQueueKind,
        now: Instant,
        workers: &mut Workers<Outcome>,
    ) {
        let mut tasks = Vec::new();
        for (cluster, reason) in clusters {
            match eviction::eviction_task(&binding, &cluster, reason, &self.options) {
                Ok(task) => tasks.push(task),
                Err(error) => {
                    tracing::warn!(binding = &*binding.body.key.name, cluster, %error, "cannot evict a binding");
                    let message = error.to_string();
                    self.writer.eviction_refused(&binding, &cluster, &message);
                }
            }
        }
        if tasks.is_empty() {
            return;
        }
        let clusters = tasks.iter().map(|task| task.from_cluster.clone());
        let clusters: Vec<String> = clusters.collect();
        match eviction::eviction_patch(&binding, tasks, self.options.rebalance.as_ref()) {
            Ok(patch) => {
                tracing::info!(
                    binding = &*binding.body.key.name,
                    ?clusters,
                    "evicting a binding"
                );
                self.queues.of(queue).limiter.record(now);
                self.budget.record(now);
                let announcement = Announcement::Evicting(clusters);
                self.start(binding, patch, announcement, Some(queue), workers);
            }
            Err(error) => {
                tracing::error!(binding = &*binding.body.key.name, %error, "eviction failed");
            }
        }
    }

    /// Starts a write of a binding. `queue` is the eviction queue, or `None` for other writes.
    fn start(
        &mut self,
        binding: BindingRecord,
        patch: serde_json::Value,
        announcement: Announcement,
        queue: Option<EvictionQueueKind>,
        workers: &mut Workers<Outcome>,
    ) {
        if !workers.has_free() {
            self.schedule
                .add(binding.body.key, Instant::now() + SHORT_DELAY);
            return;
        }
        self.busy.insert(binding.body.key.clone());
        let (writer, monitor) = (self.writer.clone(), self.monitor.clone());
        workers.start(async move {
            let since = Instant::now();
            let written = writer.write(&binding, patch, announcement).await;
            if let Some(queue) = queue {
                let outcome = match &written {
                    WriteOutcome::Stored(_) | WriteOutcome::NotFound => metrics::Outcome::Success,
                    WriteOutcome::Conflict | WriteOutcome::Failed(_) => metrics::Outcome::Error,
                };
                monitor.evicted(queue.metric_name(), outcome, since.elapsed());
            }
            let binding = Box::new(binding);
            Outcome::Binding { binding, written }
        });
    }
}

/// Returns the queue for an eviction.
fn queue_for(binding: &BindingRecord, clusters: &[(String, Reason)]) -> EvictionQueueKind {
    if clusters.iter().any(|(_, reason)| *reason == Reason::Taint) {
        EvictionQueueKind::Taint(binding.body.key.kind())
    } else {
        EvictionQueueKind::Unhealthy
    }
}
