//! The reconciler of the propagation. It owns the index, handles watch events, starts jobs, and sends messages to the
//! members' tasks.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use berth_api::well_known::CONDITION_MIGRATING;
use berth_api::{Binding, BindingKey, BindingKind, Work, condition};
use berth_apimachinery::timestamp;
use kube::core::ApiResource;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::binding::migration::known::KnownMigration;
use super::binding::migration::observed::Cause;
use super::binding::sync::{SyncOutcome, WorkSyncer};
use super::execution::member;
use super::execution::work_executor::WorkExecutor;
use super::index::{Index, WorkKey};
use super::status::shown_health::ShownHealth;
use super::status::writer::{MayDefer, StatusWriter, Written};
use super::status::{StatusInput, SyncReport, is_progressing};
use super::{PropagationOptions, QUEUE};
use crate::interpreter_configuration::{ConfigurationKind, Customizations};
use crate::monitor::{Monitor, Outcome};
use crate::overrides::OverrideKind;
use crate::reconciler::informer::WatchEvent;
use crate::reconciler::log_key::{KeyText, LogKey};
use crate::reconciler::work_queue::{Priority, Timers, WorkQueue};
use crate::reconciler::{Inputs, Reconciler, Workers};

/// Margin after the end of a wait, because the times of conditions are rounded to seconds.
const SECOND: Duration = Duration::from_secs(1);

/// The source of a watch event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Source {
    Bindings(BindingKind),
    Works,
    Clusters,
    Overrides(OverrideKind),
    Interpreter(ConfigurationKind),
}

impl Source {
    pub(super) const ALL: [Self; 8] = [
        Self::Bindings(BindingKind::Namespaced),
        Self::Bindings(BindingKind::Cluster),
        Self::Works,
        Self::Clusters,
        Self::Overrides(OverrideKind::Namespaced),
        Self::Overrides(OverrideKind::Cluster),
        Self::Interpreter(ConfigurationKind::Scripts),
        Self::Interpreter(ConfigurationKind::Webhooks),
    ];

    pub(super) fn api_resource(self) -> ApiResource {
        match self {
            Self::Bindings(kind) => kind.api_resource(),
            Self::Works => ApiResource::erase::<berth_api::Work>(&()),
            Self::Clusters => ApiResource::erase::<berth_api::Cluster>(&()),
            Self::Overrides(OverrideKind::Namespaced) => {
                ApiResource::erase::<berth_api::OverridePolicy>(&())
            }
            Self::Overrides(OverrideKind::Cluster) => {
                ApiResource::erase::<berth_api::ClusterOverridePolicy>(&())
            }
            Self::Interpreter(kind) => kind.resource(),
        }
    }
}

/// A watch event with its source.
pub(super) type SourceEvent = (Source, WatchEvent);

/// A queued job.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Job {
    /// Sync the Works of a binding.
    Sync(BindingKey),
    /// Write the status of a binding and of its template.
    Status(BindingKey),
}

impl LogKey for Job {
    fn fmt_key(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sync(key) => write!(f, "{} {key}", key.kind()),
            Self::Status(key) => write!(f, "status of {} {key}", key.kind()),
        }
    }
}

/// The result of a job.
pub(super) struct JobResult {
    job: Job,
    failure: Option<Failure>,
    /// The results of a sync, even if it failed later.
    outcome: SyncOutcome,
    /// The result of writing a status, unless it failed.
    status: Option<Written>,
}

/// The failure of a job, which is retried.
struct Failure {
    message: String,
    /// True if the failure is expected to disappear without an action by a user. Such a failure is logged at debug
    /// level.
    transient: bool,
    /// The message for the condition of the binding, if an override cannot be applied.
    refused_override: Option<String>,
}

/// The watch events about a binding's Works that arrived during a sync of these Works.
#[derive(Debug, Default)]
struct ConcurrentEvents {
    /// Resource versions of created and changed Works. The responses of the sync show which of these versions the sync
    /// has written.
    versions: Vec<String>,
    /// Deleted Works.
    deleted: HashSet<WorkKey>,
}

/// The state of the control plane, with the channels to the members' tasks.
pub(super) struct Propagator {
    options: PropagationOptions,
    syncer: WorkSyncer,
    status_writer: StatusWriter,
    executor: WorkExecutor,
    pub(super) monitor: Monitor,
    pub(super) customizations: Customizations,
    pub(super) index: Index,
    queue: WorkQueue<Job, ()>,
    concurrent_events: HashMap<BindingKey, ConcurrentEvents>,
    /// The reasons why overrides of bindings could not be applied in the last sync.
    override_failures: HashMap<BindingKey, String>,
    /// The migrations of bindings, after the last sync.
    migrations: HashMap<BindingKey, KnownMigration>,
    shown_health: ShownHealth,
    /// The bindings whose resource stays in a cluster for a workload.
    following: HashSet<BindingKey>,
    /// Sources whose first list is complete.
    pub(super) listed: HashSet<Source>,
    members: HashMap<String, mpsc::UnboundedSender<member::Message>>,
    /// Messages to the members' tasks, by cluster.
    outbox: Vec<(String, member::Message)>,
}

impl Reconciler for Propagator {
    type Event = SourceEvent;
    type Outcome = JobResult;

    fn handle_event(&mut self, (source, event): SourceEvent, inputs: &mut Inputs<SourceEvent>) {
        self.handle_watch_event(source, event);
        self.flush_outbox(inputs);
    }

    fn handle_outcome(&mut self, result: JobResult, inputs: &mut Inputs<SourceEvent>) {
        self.finish_job(result);
        self.flush_outbox(inputs);
    }

    fn timers(&mut self) -> Option<&mut dyn Timers> {
        Some(&mut self.queue)
    }

    /// Starts jobs while workers are free. The comments number the phases of the propagation of a binding. A Work needs
    /// no job to reach its member: the outbox passes it to the member's task as soon as it is observed.
    fn dispatch(&mut self, workers: &mut Workers<JobResult>) {
        // 1. Complete lists of all sources. Without all Works, a sync would create existing Works again. Without all
        //    override policies, resources would lose their overrides.
        if Source::ALL
            .iter()
            .any(|source| !self.listed.contains(source))
        {
            return;
        }
        while workers.has_free() {
            // 2. The next job. Syncs come before statuses, because users first wait for their objects in the members.
            let Some((job, ())) = self.queue.next() else {
                return;
            };
            // 3. The binding. The key has no copy of it, so that several changes need one job, about the newest state.
            let (Job::Sync(key) | Job::Status(key)) = &job;
            let Some(binding) = self.index.binding(key).cloned() else {
                self.queue.finish(&job);
                continue;
            };
            // A status that is about to change again is not written yet.
            if matches!(job, Job::Status(_))
                && self.queue.may_wait(&job)
                && self.is_progressing(&binding)
            {
                self.queue.wait(&job);
                continue;
            }
            self.queue.start(job.clone());
            match &job {
                // 4. The Works, from the template and the overrides. `WorkSyncer::sync` numbers the requests. The
                //    members' tasks then apply the Works, and report the objects in the status of the Works.
                Job::Sync(_) => self.start_sync(job, &binding, workers),
                // 5. The status, from the reports in the Works: first of the binding, on which the scheduler and
                //    failover rely, and then of the template, which users read.
                Job::Status(_) => self.start_status(job, binding, workers),
            }
        }
    }
}

impl Propagator {
    pub(super) fn new(
        options: PropagationOptions,
        syncer: WorkSyncer,
        status_writer: StatusWriter,
        executor: WorkExecutor,
        customizations: Customizations,
        monitor: Monitor,
    ) -> Self {
        // Alerts need the samples before the first migration.
        for cause in Cause::ALL {
            monitor.migrating(cause.reason(), 0.0);
        }
        Self {
            options,
            syncer,
            status_writer,
            executor,
            customizations,
            index: Index::default(),
            queue: WorkQueue::default().metered(monitor.queue(QUEUE)),
            monitor,
            concurrent_events: HashMap::new(),
            override_failures: HashMap::new(),
            migrations: HashMap::new(),
            shown_health: ShownHealth::default(),
            following: HashSet::new(),
            listed: HashSet::new(),
            members: HashMap::new(),
            outbox: Vec::new(),
        }
    }

    /// Queues a job if its part of the propagation is enabled. Syncs precede status writes, because users first wait
    /// for their objects in the members.
    pub(super) fn enqueue(&mut self, job: Job) {
        let parts = self.options.parts;
        let (runs, priority) = match job {
            Job::Sync(_) => (parts.works, Priority::High),
            Job::Status(_) => (parts.binding_status, Priority::Low),
        };
        if runs {
            self.queue.push(job, (), priority);
        }
    }

    /// Queues a sync of a binding, unless the decision of the scheduler queues it earlier.
    pub(super) fn enqueue_settled_sync(&mut self, binding: BindingKey) {
        if self.options.parts.works {
            self.queue.push_settled(Job::Sync(binding));
        }
    }

    /// Queues the status of a binding once the reports of its members have settled. Several members report at about the
    /// same time, and each member reports several times while pods start.
    pub(super) fn enqueue_settled_status(&mut self, binding: BindingKey) {
        if self.options.parts.binding_status {
            self.queue.push_settled(Job::Status(binding));
        }
    }

    /// Queues a message to a member's task.
    pub(super) fn send_to_member(&mut self, cluster: &str, message: member::Message) {
        if self.options.parts.members {
            self.outbox.push((cluster.to_owned(), message));
        }
    }

    /// Sends the queued messages after all customizations are listed, because the members' tasks apply Works with the
    /// customizations.
    fn flush_outbox(&mut self, inputs: &mut Inputs<SourceEvent>) {
        if !self.customizations.has_synced() {
            return;
        }
        for (name, message) in std::mem::take(&mut self.outbox) {
            // The channel is closed only after a shutdown or a panic. The runtime handles both.
            let _ = self.member_sender(&name, inputs).send(message);
            if !self.index.clusters.contains_key(&name) && !self.index.has_works(&name) {
                self.members.remove(&name);
            }
        }
    }

    /// Returns the channel to a member's task. The first call starts the task. The channel is unbounded, because the
    /// task never waits for its member and therefore handles messages at once.
    fn member_sender(
        &mut self,
        name: &str,
        inputs: &mut Inputs<SourceEvent>,
    ) -> &mpsc::UnboundedSender<member::Message> {
        self.members.entry(name.to_owned()).or_insert_with(|| {
            let (sender, receiver) = mpsc::unbounded_channel();
            let (name, executor) = (name.to_owned(), self.executor.clone());
            let max_jobs = self.options.concurrent_works.get();
            inputs.spawn(move |_, stop| member::run(name, executor, max_jobs, receiver, stop));
            sender
        })
    }

    /// Reports whether the status of a binding is about to change again. The start and the end of a migration are reported
    /// at once.
    fn is_progressing(&self, binding: &Binding) -> bool {
        let works = self.index.works_of(binding).into_iter();
        let works: Vec<&Arc<Work>> = works.map(|(_, work)| work).collect();
        let (migration, conditions) = (self.migration(&binding.key), &binding.status.conditions);
        // After a restart, the first sync tells which copies are kept.
        let awaits_sync = *migration == KnownMigration::Unknown
            && condition::find(conditions, CONDITION_MIGRATING).is_some();
        let is_shown = !migration.differs_from(conditions);
        awaits_sync
            || !self.override_failures.contains_key(&binding.key)
                && is_shown
                && is_progressing(&binding.status, &binding.spec, &works)
    }

    fn finish_job(&mut self, result: JobResult) {
        let JobResult {
            job,
            failure,
            outcome: SyncOutcome { written, migration },
            status,
        } = result;
        if let Job::Sync(binding) = &job {
            self.store_written(binding, written);
            let override_failure = failure.as_ref().and_then(|f| f.refused_override.clone());
            self.store_override_failure(binding, override_failure);
            self.store_migration(binding, migration);
        }
        match failure {
            None if status == Some(Written::Deferred) => self.queue.wait(&job),
            None => {
                self.queue.finish(&job);
                self.store_shown_health(&job, status);
            }
            Some(Failure {
                message, transient, ..
            }) => {
                let failures = self.queue.fail(&job, ());
                if transient {
                    tracing::debug!(
                        key = %KeyText(&job),
                        failures,
                        error = %message,
                        "job not finished, trying again"
                    );
                } else {
                    self.queue.log_failure(&job, failures, &message);
                }
            }
        }
    }

    /// Stores the condition `Healthy` that a binding shows now. Enqueues the status if another client has replaced the
    /// condition since.
    fn store_shown_health(&mut self, job: &Job, status: Option<Written>) {
        let (Job::Status(key), Some(written)) = (job, status) else {
            return;
        };
        let Some(binding) = self.index.binding(key).cloned() else {
            return;
        };
        self.shown_health.record(key, written);
        if self.is_health_overwritten(&binding) {
            self.enqueue_settled_status(key.clone());
        }
    }

    /// Reports whether another client has replaced the condition `Healthy` of a binding. While a status is being written,
    /// the end of the write checks it.
    pub(super) fn is_health_overwritten(&self, binding: &Binding) -> bool {
        self.shown_health.is_overwritten(binding)
            && !self.queue.is_running(&Job::Status(binding.key.clone()))
    }

    /// Stores the reason why an override could not be applied. A change enqueues the status of the binding.
    fn store_override_failure(&mut self, binding: &BindingKey, failure: Option<String>) {
        let is_changed = self.override_failures.get(binding) != failure.as_ref();
        match failure {
            Some(failure) if self.index.binding(binding).is_some() => {
                self.override_failures.insert(binding.clone(), failure);
            }
            _ => {
                self.override_failures.remove(binding);
            }
        }
        if is_changed {
            self.enqueue(Job::Status(binding.clone()));
        }
    }

    /// Returns the migration of a binding.
    pub(super) fn migration(&self, binding: &BindingKey) -> &KnownMigration {
        self.migrations
            .get(binding)
            .unwrap_or(&KnownMigration::Unknown)
    }

    /// Stores the migration that a sync has found. A change enqueues the status of the binding, and the end of the wait
    /// enqueues another sync.
    fn store_migration(&mut self, binding: &BindingKey, migration: KnownMigration) {
        // A sync that ended before its decision leaves the earlier one.
        if migration == KnownMigration::Unknown {
            return;
        }
        let Some(observed) = self.index.binding(binding) else {
            return;
        };
        let is_shown_wrongly = migration.differs_from(&observed.status.conditions);
        let until = |migration: &KnownMigration| migration.wait().and_then(|wait| wait.until);
        let known = self.migration(binding);
        let is_changed = *known != migration;
        let next_sync = until(&migration).filter(|next| until(known) != Some(*next));
        if let Some(end) = next_sync {
            let left = Duration::try_from(end.duration_since(timestamp::now()));
            let job = Job::Sync(binding.clone());
            let due = Instant::now() + left.unwrap_or_default() + SECOND;
            self.queue.push_at(job, due);
        }
        let wait = migration.wait();
        let has_wait = wait.is_some();
        if wait.is_some_and(|wait| wait.cause == Cause::Workload) {
            self.following.insert(binding.clone());
        } else {
            self.following.remove(binding);
        }
        self.count_migration(&migration, 1.0);
        if let Some(former) = self.migrations.insert(binding.clone(), migration) {
            self.count_migration(&former, -1.0);
        }
        if is_shown_wrongly || is_changed && has_wait {
            self.enqueue_settled_status(binding.clone());
        }
    }

    /// Adds a number to the metric of the bindings whose old copies wait.
    fn count_migration(&self, migration: &KnownMigration, difference: f64) {
        if let Some(wait) = migration.wait() {
            self.monitor.migrating(wait.cause.reason(), difference);
        }
    }

    /// Enqueues a sync of a binding whose old copies wait, or become ready while they are evicted, because a member has
    /// reported.
    pub(super) fn check_wait(&mut self, binding: &BindingKey) {
        let observed = self.index.binding(binding);
        let is_evicted =
            observed.is_some_and(|found| !found.spec.graceful_eviction_tasks.is_empty());
        if is_evicted || self.migration(binding).wait().is_some() {
            self.enqueue(Job::Sync(binding.clone()));
        }
    }

    /// Enqueues a sync of each resource that stays in a cluster for a workload, because a workload leaves the cluster.
    pub(super) fn check_followers(&mut self, cluster: &str) {
        let is_kept = |key: &&BindingKey| {
            let wait = self.migration(key).wait();
            wait.is_some_and(|wait| wait.kept.contains(cluster))
        };
        let followers = self.following.iter().filter(is_kept);
        for follower in followers.cloned().collect::<Vec<_>>() {
            self.enqueue(Job::Sync(follower));
        }
    }

    /// Enqueues a sync of each binding whose old copies wait, because the readiness of a cluster has changed.
    pub(super) fn check_waits(&mut self) {
        let waiting = self
            .migrations
            .iter()
            .filter(|(_, known)| known.wait().is_some());
        let keys: Vec<BindingKey> = waiting.map(|(key, _)| key.clone()).collect();
        for key in keys {
            self.enqueue(Job::Sync(key));
        }
    }

    /// Forgets the results of the last sync of a deleted binding.
    pub(super) fn forget_sync(&mut self, binding: &BindingKey) {
        self.override_failures.remove(binding);
        if let Some(former) = self.migrations.remove(binding) {
            self.count_migration(&former, -1.0);
        }
        self.following.remove(binding);
        self.shown_health.forget(binding);
    }

    /// Stores the written Works, so that the next sync does not compare with older versions. Enqueues another sync if
    /// another client also wrote a Work. An example of such a client is an earlier process that was killed during a
    /// write.
    fn store_written(&mut self, binding: &BindingKey, written: Vec<Work>) {
        let concurrent = self.concurrent_events.remove(binding).unwrap_or_default();
        let is_ours = |version: &String| {
            let mut versions = written.iter().map(|work| &work.metadata.resource_version);
            versions.any(|own| own.as_ref() == Some(version))
        };
        if !concurrent.versions.iter().all(is_ours) {
            self.enqueue(Job::Sync(binding.clone()));
        }
        for work in written {
            self.store_written_work(work, &concurrent.deleted);
        }
    }

    /// Enqueues a sync after a watch event about a new or changed Work. If a sync is running, the version is recorded
    /// instead, and the end of the sync decides whether another client wrote this version.
    pub(super) fn check_spec_change(&mut self, binding: BindingKey, version: String) {
        let job = Job::Sync(binding);
        if !self.queue.is_running(&job) {
            self.enqueue(job);
        } else if let Job::Sync(binding) = job {
            let concurrent = self.concurrent_events.entry(binding).or_default();
            concurrent.versions.push(version);
        }
    }

    /// Records a deletion during a sync, so that a late response does not restore the Work.
    pub(super) fn note_deleted_work(&mut self, binding: &BindingKey, work: WorkKey) {
        if self.queue.is_running(&Job::Sync(binding.clone())) {
            let concurrent = self.concurrent_events.entry(binding.clone()).or_default();
            concurrent.deleted.insert(work);
        }
    }

    fn start_sync(&self, job: Job, binding: &Arc<Binding>, workers: &mut Workers<JobResult>) {
        let input = self.index.sync_input(binding);
        let (syncer, monitor) = (self.syncer.clone(), self.monitor.clone());
        workers.start(async move {
            let (mut outcome, since) = (SyncOutcome::default(), Instant::now());
            let result = syncer.sync(input, &mut outcome).await;
            monitor.works_synced(Outcome::of(&result), since.elapsed());
            let failure = result.err().map(|error| Failure {
                message: error.to_string(),
                transient: error.is_transient(),
                refused_override: error.override_failure(),
            });
            JobResult {
                job,
                failure,
                outcome,
                status: None,
            }
        });
    }

    fn start_status(&self, job: Job, binding: Arc<Binding>, workers: &mut Workers<JobResult>) {
        let writer = self.status_writer.clone();
        let input = StatusInput {
            works: self
                .index
                .works_of(&binding)
                .into_iter()
                .map(|(_, work)| Arc::clone(work))
                .collect(),
            sync: SyncReport {
                override_failure: self.override_failures.get(&binding.key).cloned(),
                migration: self.migration(&binding.key).clone(),
            },
            clusters: self.index.cluster_states(&binding),
            stale_status: self.options.stale_status,
            has_shown_health: self.shown_health.has_shown(&binding.key),
        };
        let may_defer = if self.queue.may_wait(&job) {
            MayDefer::Yes
        } else {
            MayDefer::No
        };
        workers.start(async move {
            let result = writer.write(binding, input, may_defer).await;
            let status = result.as_ref().ok().copied();
            let failure = result.err().map(|error| Failure {
                message: error.to_string(),
                transient: false,
                refused_override: None,
            });
            JobResult {
                job,
                failure,
                outcome: SyncOutcome::default(),
                status,
            }
        });
    }
}
