//! The reconciler of failover. It examines a binding when the binding changes or its scheduled time is reached, and
//! dispatches writes. Writes to one binding run one after another.
//!
//! The reconciler uses a [`Schedule`] instead of a `WorkQueue`, because a binding also waits in [`EvictionQueues`]
//! before its eviction. The rate limit of this queue depends on the reason for the eviction.

mod brake_effects;
mod rebalance;

use berth_api::BindingKey;
use berth_apimachinery::api_error::{api_error_message, is_unreachable};
use berth_apimachinery::repeated_failure::RepeatedFailure;
use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use super::action::{self, Action, Clocks, Trackers};
use super::binding::BindingRecord;
use super::brake::{Brake, HeldBrake};
use super::cache::{Cache, Source};
use super::eviction::{self, Reason};
use super::eviction_queue::{EvictionQueueKind, EvictionQueues};
use super::options::{FailoverOptions, RebalanceMode};
use super::pending_pods::PendingPodsError;
use super::rate_limiter::{MoveBudget, interval};
use super::rebalancing::Rebalancing;
use super::report::Reports;
use super::schedule::Schedule;
use super::writer::{Announcement, WriteOutcome, Writer};
use super::{failback, pending_replicas};
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
    Cluster {
        name: String,
        written: Result<(), kube::Error>,
    },
    /// The pods that no node can run were counted, or could not be counted.
    Pods {
        binding: BindingKey,
        cluster: String,
        count: Result<i64, PendingPodsError>,
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
    write_failure: RepeatedFailure,
    brake_failure: RepeatedFailure,
    pod_failure: RepeatedFailure,
}

impl Reconciler for Failover {
    type Event = (Source, WatchEvent);
    type Outcome = Outcome;

    fn handle_event(&mut self, (source, event): Self::Event, _: &mut Inputs<Self::Event>) {
        let had_synced = self.cache.has_synced();
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
        // Before all Clusters are listed, their shares are unknown.
        if self.cache.has_synced() && (source == Source::Clusters || !had_synced) {
            self.update_brake(now);
        }
    }

    fn handle_outcome(&mut self, outcome: Outcome, _: &mut Inputs<Self::Event>) {
        let (binding, written) = match outcome {
            Outcome::Binding { binding, written } => (*binding, written),
            Outcome::Cluster { name, written } => {
                self.busy_clusters.remove(&name);
                self.log_brake_write(&name, written);
                return;
            }
            Outcome::Pods {
                binding,
                cluster,
                count,
            } => {
                self.log_pod_count(&binding, &cluster, &count);
                self.trackers
                    .pending
                    .counted(&binding, &cluster, count.ok());
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
                if let Some(end) = self.write_failure.succeeded_for_one(now) {
                    let failures = end.failures;
                    tracing::info!(failures, "wrote bindings again after {}", end.lasted);
                }
                self.cache.put_written(&binding, &stored);
                self.schedule.add(key, now);
            }
            WriteOutcome::Conflict => self.schedule.add(key, now + SHORT_DELAY),
            WriteOutcome::NotFound => drop(self.failures.remove(&key)),
            WriteOutcome::Failed(error) => {
                let failures = self.failures.entry(key.clone()).or_default();
                let delay = FIRST_RETRY_DELAY * 2u32.saturating_pow(*failures).min(64);
                *failures += 1;
                let message = api_error_message(&error);
                let line = if is_unreachable(&*error) {
                    None
                } else {
                    self.write_failure.failed(&message, now)
                };
                if let Some(line) = line {
                    tracing::warn!(
                        binding = %key,
                        error = %message,
                        repeated = line.repeated,
                        "cannot write a binding; trying again: check the rights of the controllers"
                    );
                } else {
                    tracing::debug!(binding = %key, failures, error = %message, "write failed");
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
            write_failure: RepeatedFailure::default(),
            brake_failure: RepeatedFailure::default(),
            pod_failure: RepeatedFailure::default(),
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
                if let Some(mut patch) = update.patch {
                    let (finished, cancelled) = (update.finished, update.cancelled);
                    failback::forget(&binding, &cancelled, &mut patch);
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
                    tracing::warn!(binding = %binding.body.key, cluster, %error, "cannot evict a binding");
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
                    binding = %binding.body.key,
                    clusters = clusters.join(", "),
                    "evicting a binding"
                );
                self.queues.of(queue).limiter.record(now);
                self.budget.record(now);
                let announcement = Announcement::Evicting(clusters);
                self.start(binding, patch, announcement, Some(queue), workers);
            }
            Err(error) => {
                tracing::error!(binding = %binding.body.key, %error, "eviction failed");
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
        let rebalanced = match &announcement {
            Announcement::Rebalanced(rebalancing) => Some(rebalancing.cause()),
            Announcement::TasksEnded { .. } | Announcement::Evicting(_) => None,
        };
        workers.start(async move {
            let since = Instant::now();
            let written = writer.write(&binding, patch, announcement).await;
            if let (Some(cause), WriteOutcome::Stored(_)) = (rebalanced, &written) {
                monitor.rebalanced(cause, RebalanceMode::On.as_str(), 1);
            }
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
