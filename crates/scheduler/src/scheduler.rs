//! The scheduler: one task that owns all state and makes all decisions. [`Scheduler::turn`] shows the phases of its loop.
//!
//! ```text
//! watch_events ──> cache, queue
//!                    │
//!                  cycle ──> external_answers: requests answers, then the cycle resumes
//!                    │
//!                    v
//!                  permit ──> writes ──> cycle_end
//! ```
//!
//! The task makes one decision at a time, and a decision performs no I/O. Other tasks perform I/O concurrently.
//!
//! - [`cache`] contains what the scheduler knows, [`configurations`] how it decides, and [`records`] its reports.
//! - [`leadership`] contains the queue and the decisions in flight, which only a leader has.
//! - [`scores`] contains the scores of clusters that other programs report.
//! - [`quotas`] refuses decisions that exceed a FederatedResourceQuota or a ClusterQueue, and [`cluster_queues`] assigns
//!   bindings to ClusterQueues and reports their state.
//! - [`post_filter`] and [`eviction`] free capacity for bindings that fit in no cluster.
//! - [`event_hints`] requeues bindings whose cycles plugins stopped.

mod bindings;
mod cache;
mod cluster_queues;
mod configurations;
mod cycle;
mod cycle_end;
mod cycle_outcome;
mod cycle_span;
mod debug;
mod event_hints;
mod eviction;
mod external_answers;
mod in_flight;
mod leadership;
mod log_lines;
mod object_references;
mod permit;
mod post_filter;
mod queue_reports;
mod quotas;
mod records;
mod schedule_request;
mod scores;
mod watch_events;
mod writes;

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use berth_api::{
    BindingKey, Cluster, ClusterQueue, ClusterResourceBinding, ClusterScore,
    FederatedResourceQuota, ResourceBinding,
};
use berth_events::EventRecorder;
use k8s_openapi::api::core::v1::Namespace;
use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;

use self::cache::Cache;
use self::configurations::Configurations;
use self::debug::DebugView;
pub(crate) use self::external_answers::EstimatorHandle;
use self::external_answers::ExternalAnswers;
use self::leadership::{Leading, Role};
use self::records::Records;
use crate::capacity_book::CapacityBook;
use crate::clusters::Clusters;
use crate::config::{ClusterQueues, Options, QuotaEnforcement};
use crate::debug_api::query::DebugQuery;
use crate::decision_log::Recorder;
use crate::framework::plugin_messages::PluginMessage;
use crate::http_endpoints::Probes;
use crate::metrics::{Incoming, Metrics};
use crate::profiles::builder::ActiveConfig;
use crate::profiles::config_map_watch::ConfigChange;
use crate::queue::{QueueOrder, Turns};
use crate::recent_decisions::RecentDecisions;
use crate::watch::WatchEvent;
use crate::watch::list_progress::Source;
use crate::writer::Writer;

/// Time limit for pending writes and evictions on shutdown.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

/// An event of one of the watches.
#[derive(Debug)]
pub(crate) enum Input {
    Cluster(WatchEvent<Cluster>),
    Binding(WatchEvent<ResourceBinding>),
    ClusterBinding(WatchEvent<ClusterResourceBinding>),
    Quota(WatchEvent<FederatedResourceQuota>),
    ClusterQueue(WatchEvent<ClusterQueue>),
    Namespace(WatchEvent<Namespace>),
    Score(WatchEvent<ClusterScore>),
}

/// Channels into the scheduler's task.
#[derive(Debug)]
pub(crate) struct Inputs {
    pub(crate) watches: mpsc::Receiver<Input>,
    pub(crate) plugin_messages: mpsc::UnboundedReceiver<PluginMessage>,
    pub(crate) config_changes: mpsc::Receiver<ConfigChange>,
    /// Requests to the debug endpoints.
    pub(crate) debug: mpsc::Receiver<DebugQuery>,
    /// True while this process is the leader.
    pub(crate) leading: tokio::sync::watch::Receiver<bool>,
}

/// The scheduler: what it knows, how it decides, and where it writes. The state that only a leader has is in
/// [`Leading`], which the turns pass to the functions that need it.
pub(crate) struct Scheduler {
    /// Profiles, plugins and extenders.
    config: Configurations,
    /// Clusters, bindings, and the decisions about them.
    cache: Cache,
    /// Estimators, and the cycles that wait for answers.
    answers: ExternalAnswers,
    writer: Writer,
    /// Metrics, events and recorded decisions.
    records: Records,
    probes: Probes,
    queue_order: QueueOrder,
    queue_turns: Turns,
    watches_scores: bool,
    /// Starts the watch of ClusterScores.
    scores_wanted: Arc<Notify>,
}

impl Scheduler {
    pub(crate) fn new(
        options: &Options,
        config: ActiveConfig,
        estimators: Option<EstimatorHandle>,
        writer: Writer,
        recorder: EventRecorder,
        metrics: Metrics,
        probes: Probes,
    ) -> Self {
        let ActiveConfig {
            frameworks,
            extenders,
            plugin_state,
            plugin_tasks,
            ..
        } = config;
        // A plugin of a later configuration may read the Cluster objects.
        let keep_objects = options.config_map.is_some()
            || frameworks.iter().any(|framework| framework.reads_objects);
        let mut book = CapacityBook::new(options.gates);
        if frameworks.assume_capacity() {
            book.enable_assumed_capacity();
        }
        let recent_decisions = RecentDecisions::new(options.debug_decisions);
        let mut cache = Cache::new(Clusters::new(keep_objects), plugin_state, book);
        if options.quotas == QuotaEnforcement::On {
            cache.count_quotas(&[Source::Quotas]);
        }
        if options.cluster_queues == ClusterQueues::On {
            cache.count_quotas(&[Source::ClusterQueues, Source::Namespaces]);
        }
        Self {
            config: Configurations::new(options.gates, frameworks, extenders, plugin_tasks),
            cache,
            answers: ExternalAnswers::new(estimators),
            writer,
            records: Records::new(metrics, recorder, recent_decisions),
            probes,
            queue_order: options.order,
            queue_turns: options.turns.clone(),
            watches_scores: false,
            scores_wanted: Arc::default(),
        }
    }

    /// Sets the decision log, in which the scheduler records clusters and decisions.
    pub(crate) fn with_decision_log(mut self, decision_log: Option<Recorder>) -> Self {
        self.records.decision_log = decision_log;
        self
    }

    /// Sets the notification that starts the watch of ClusterScores, and sends it if a plugin reads scores.
    pub(crate) fn with_score_watch(mut self, wanted: Arc<Notify>) -> Self {
        self.scores_wanted = wanted;
        self.watch_scores_if_read();
        self
    }

    /// Runs the scheduler until the token is cancelled. Then waits for pending writes and evictions.
    pub(crate) async fn run(mut self, mut inputs: Inputs, cancel: CancellationToken) {
        let mut role = Role::Standby;
        if *inputs.leading.borrow_and_update() {
            self.start_leading(&mut role);
        }
        while self
            .turn(&mut role, &mut inputs, &cancel)
            .await
            .is_continue()
        {}
        self.shut_down(role).await;
    }

    /// Runs one turn of the scheduler: decides what can be decided now, and then handles the next input. The comments
    /// number the phases. [`Self::run_cycle`] numbers the phases of the cycle of one binding.
    async fn turn(
        &mut self,
        role: &mut Role,
        inputs: &mut Inputs,
        cancel: &CancellationToken,
    ) -> ControlFlow<()> {
        let now = Instant::now();
        // 1. The timers, before the decisions of this turn: delayed keys are ready again, expired capacity is free, expired
        //    scores count as absent, and a rejected permit releases its reservations.
        if let Role::Leading(leading) = role {
            leading.queue.flush(now);
        }
        self.expire_assumed_capacity(role.leading(), now);
        self.refresh_cluster_queues(role.leading(), now);
        self.expire_scores(role.leading());
        let mut busy = false;
        if let Role::Leading(leading) = role {
            self.reject_overdue_permits(leading, now);
            self.requeue_within_quotas(leading, now);
            self.report_cluster_queues(leading, now);
            // 2. The cycles of ready keys. They perform no I/O, and their number is limited, so that inputs wait for a
            //    bounded time. The writes of their decisions run while the next phases wait.
            self.run_ready_cycles(leading, now);
            self.requeue_within_quotas(leading, now);
            busy = self.may_run_cycle(leading);
        }
        // 3. The metrics of the queue, and the pace of the event recorder, which leaves the rate limit to the writes
        //    while the scheduler is busy.
        let leading = role.leading();
        self.records
            .queue(leading.as_deref().map(|leading| &leading.queue), now);
        let writes_pending = leading.is_some_and(|leading| !leading.writes.is_empty());
        self.records.events.set_busy(writes_pending || busy);
        // 4. The next input. While a key is ready, the turn does not wait. Results come before watch events, because
        //    they complete decisions, on whose capacity and slots the next decisions depend.
        let deadlines = [
            role.next_deadline(),
            self.cache.book.next_expiry(),
            self.next_score_expiry(now),
        ];
        let next_deadline = deadlines.into_iter().flatten().min();
        let pause = async {
            if busy {
                return;
            }
            match next_deadline {
                Some(at) => tokio::time::sleep_until(at.into()).await,
                None => std::future::pending().await,
            }
        };
        let (writes, evictions) = match role {
            Role::Standby => (None, None),
            Role::Leading(leading) => (Some(&mut leading.writes), Some(&mut leading.evictions)),
        };
        tokio::select! {
            biased;
            () = cancel.cancelled() => return ControlFlow::Break(()),
            Ok(()) = inputs.leading.changed() => {
                if *inputs.leading.borrow_and_update() {
                    self.start_leading(role);
                }
            }
            Some(write) = async { writes?.join_next().await } => {
                if let Role::Leading(leading) = role {
                    self.handle_write_result(leading, write);
                }
            }
            Some(eviction) = async { evictions?.join_next().await } => {
                if let Role::Leading(leading) = role {
                    self.handle_eviction_result(leading, eviction);
                }
            }
            answered = self.answers.next() => {
                if let Role::Leading(leading) = role {
                    self.resume_cycle(leading, answered);
                }
            }
            Some(message) = inputs.plugin_messages.recv() => self.handle_plugin_message(role, message),
            Some(change) = inputs.config_changes.recv() => self.apply_config_change(role, change),
            Some(query) = inputs.debug.recv() => self.answer_debug(role, query),
            input = inputs.watches.recv() => {
                let Some(input) = input else { return ControlFlow::Break(()) };
                self.handle_watch_event(role.leading(), input);
            }
            () = pause => {}
        }
        // 5. All finished writes and watch events. The `select!` above prefers finished writes. Under load, a further
        //    write has always finished, so the `select!` alone would never handle a watch event.
        if let Role::Leading(leading) = role {
            while let Some(write) = leading.writes.try_join_next() {
                self.handle_write_result(leading, write);
            }
        }
        while let Ok(input) = inputs.watches.try_recv() {
            self.handle_watch_event(role.leading(), input);
        }
        ControlFlow::Continue(())
    }

    /// Waits for pending writes and evictions, and records their events.
    async fn shut_down(&mut self, role: Role) {
        let Role::Leading(mut leading) = role else {
            return;
        };
        let (events, bindings) = (&self.records.events, &self.cache.bindings);
        let drain = async {
            while let Some(write) = leading.writes.join_next().await {
                if let Ok(write) = write {
                    write.record_events(events, bindings);
                }
            }
            while let Some(eviction) = leading.evictions.join_next().await {
                if let Ok(eviction) = eviction {
                    eviction.record_events(events);
                }
            }
        };
        if tokio::time::timeout(SHUTDOWN_TIMEOUT, drain).await.is_err() {
            tracing::warn!("stopped before the API server responded to all writes");
        }
    }

    /// Makes this process the leader, and queues every binding that a profile schedules. Among bindings of equal rank,
    /// bindings whose generation the last leader has not observed come first, in order of creation, so that thousands
    /// of unchanged bindings do not delay them.
    fn start_leading(&self, role: &mut Role) {
        let mut leading = Leading::new(self.queue_order, &self.queue_turns);
        self.assign_all_to_queues(&mut leading.queue);
        self.records.metrics.leading(true);
        let now = Instant::now();
        let all = self.cache.bindings.iter();
        let mut ours: Vec<_> = all
            .filter(|(_, binding)| self.config.frameworks.passes(binding))
            .collect();
        ours.sort_by_cached_key(|(_, binding)| {
            let observed = binding.status.scheduler_observed_generation.unwrap_or(0);
            let created = binding.metadata.creation_timestamp.as_ref();
            (
                observed == binding.generation(),
                created.map(|created| created.0),
            )
        });
        for (key, binding) in ours {
            let rank = self.config.frameworks.rank(binding);
            leading.queue.push(key, rank, now);
            self.records.metrics.incoming(Incoming::BindingAdd);
        }
        *role = Role::Leading(Box::new(leading));
    }

    /// Handles a message of a plugin. A standby has no parked decisions.
    fn handle_plugin_message(&mut self, role: &mut Role, message: PluginMessage) {
        let now = Instant::now();
        match (role, message) {
            (Role::Leading(leading), message) => {
                self.handle_plugin_messages(leading, vec![message], now);
            }
            (Role::Standby, PluginMessage::Requeue(keys)) => {
                event_hints::requeue_for_plugins(
                    &self.config,
                    &self.cache.bindings,
                    None,
                    &keys,
                    now,
                );
            }
            (Role::Standby, PluginMessage::Decide { .. }) => {}
        }
    }

    /// Sends the response to a request of a debug endpoint.
    fn answer_debug(&mut self, role: &Role, query: DebugQuery) {
        let query = match query {
            DebugQuery::Queues(key, reply) => {
                // The caller may no longer wait for the response.
                let _ = reply.send(self.queue_list(role, key.as_ref()));
                return;
            }
            DebugQuery::Decisions(query) => query,
        };
        let mut view = DebugView {
            role,
            records: &self.records,
            config: &mut self.config,
            answers: &self.answers,
        };
        view.answer(query);
    }

    /// Uses a new configuration for all further decisions. Drops the decisions that wait for Permit, and decides their
    /// bindings again. Pending writes finish with the old configuration.
    fn apply_config_change(&mut self, role: &mut Role, change: ConfigChange) {
        let now = Instant::now();
        if let Some(log) = &mut self.records.decision_log {
            log.document(change.config.document());
        }
        let ActiveConfig {
            frameworks,
            extenders,
            plugin_tasks,
            ..
        } = *change.config;
        let ours_before: HashSet<BindingKey> = self
            .cache
            .bindings
            .iter()
            .filter(|(_, binding)| self.config.frameworks.passes(binding))
            .map(|(key, _)| key.clone())
            .collect();
        if let Role::Leading(leading) = role {
            let parked: Vec<BindingKey> = leading.parked.keys().cloned().collect();
            for key in parked {
                self.drop_parked(leading, &key, now);
            }
        }
        self.config.replace(frameworks, extenders, plugin_tasks);
        self.watch_scores_if_read();
        if self.config.frameworks.assume_capacity() {
            self.cache.book.enable_assumed_capacity();
        }
        for (_, binding) in self.cache.bindings.iter() {
            self.config.notify_followers(binding);
        }
        if let Some(quotas) = &mut self.cache.quotas {
            quotas.release_admitted();
        }
        let _ = change.applied.send(());
        if let Role::Leading(leading) = role {
            self.requeue_after_change(leading, &ours_before, now);
        }
    }

    /// Activates waiting bindings. Queues the bindings that the new profiles schedule and the old profiles did not, and
    /// removes the bindings that only the old profiles scheduled.
    fn requeue_after_change(
        &self,
        leading: &mut Leading,
        ours_before: &HashSet<BindingKey>,
        now: Instant,
    ) {
        let waiting: Vec<BindingKey> = leading.queue.delayed_keys().cloned().collect();
        for key in &waiting {
            leading.queue.activate(key, now);
        }
        for (key, binding) in self.cache.bindings.iter() {
            let ours = self.config.frameworks.passes(binding);
            if ours && !ours_before.contains(key) {
                let rank = self.config.frameworks.rank(binding);
                leading.queue.push(key, rank, now);
                self.records.metrics.incoming(Incoming::BindingAdd);
            } else if !ours && ours_before.contains(key) {
                leading.queue.remove(key);
            }
        }
    }
}
