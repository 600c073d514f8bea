//! The scheduler: one task that owns all state and makes all decisions.
//!
//! ```text
//! watch_events ──> clusters, bindings, queue, capacity book
//!                                     │
//!                  cycle <────────────┘
//!                    │  ──> external_answers: requests answers, then decides again
//!                    v
//!                  permit ──> writes ──> cycle_end
//! ```
//!
//! The task makes one decision at a time, and a decision performs no I/O. Other tasks perform I/O concurrently.
//! [`post_filter`] and [`eviction`] free capacity for bindings that fit in no cluster. [`event_hints`] requeues
//! bindings whose cycles plugins stopped. [`configurations`] replaces the configuration.

mod bindings;
mod configurations;
mod cycle;
mod cycle_end;
mod cycle_span;
mod debug;
mod event_hints;
mod eviction;
mod external_answers;
mod in_flight;
mod object_references;
mod permit;
mod post_filter;
mod watch_events;
mod writes;

use std::time::{Duration, Instant};

use berth_api::{Cluster, ClusterResourceBinding, ResourceBinding};
use berth_events::EventRecorder;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::{CancellationToken, DropGuard};

use self::bindings::Bindings;
use self::debug::Configurations;
use self::eviction::Evictions;
pub(crate) use self::external_answers::EstimatorHandle;
use self::external_answers::ExternalAnswers;
use self::permit::ParkedBindings;
use self::post_filter::PreemptionRetries;
use self::writes::FinishedWrite;
use crate::capacity_book::CapacityBook;
use crate::clusters::Clusters;
use crate::config::Options;
use crate::debug_api::query::DebugQuery;
use crate::decision_log::Recorder;
use crate::framework::State;
use crate::framework::plugin_messages::PluginMessage;
use crate::http_endpoints::Probes;
use crate::metrics::{Incoming, Metrics};
use crate::profiles::Frameworks;
use crate::profiles::builder::ActiveConfig;
use crate::profiles::config_map_watch::ConfigChange;
use crate::queue::Queue;
use crate::recent_decisions::RecentDecisions;
use crate::watch::WatchEvent;
use crate::watch::list_progress::ListProgress;
use crate::writer::Writer;

/// Maximum number of concurrent writes.
const WRITES_IN_FLIGHT: usize = 64;
/// Interval between updates of the metric for the age of the oldest ready key.
const AGE_INTERVAL: Duration = Duration::from_millis(250);
/// Time limit for pending writes and evictions on shutdown.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

/// An event of one of the three watches.
#[derive(Debug)]
pub(crate) enum Input {
    Cluster(WatchEvent<Cluster>),
    Binding(WatchEvent<ResourceBinding>),
    ClusterBinding(WatchEvent<ClusterResourceBinding>),
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

/// The scheduler's state and services.
pub(crate) struct Scheduler {
    multiple_pod_templates: bool,
    frameworks: Frameworks,
    /// Guard that ends the plugins' tasks when the frameworks are replaced.
    plugin_tasks: DropGuard,
    clusters: Clusters,
    bindings: Bindings,
    /// Clusters and bindings that plugins can read.
    plugin_state: State,
    queue: Queue,
    book: CapacityBook,
    answers: ExternalAnswers,
    /// True if the last decision took long. The next one does not hold a thread of the runtime.
    decides_slowly: bool,
    parked: ParkedBindings,
    preemption_retries: PreemptionRetries,
    evictions: Evictions,
    lists: ListProgress,
    leading: bool,
    writer: Writer,
    writes: JoinSet<FinishedWrite>,
    recorder: EventRecorder,
    decision_log: Option<Recorder>,
    /// The last decisions, for the debug endpoints.
    recent_decisions: Option<RecentDecisions>,
    configurations: Configurations,
    metrics: Metrics,
    /// The time of the last update of this value, and the age of the oldest ready key at that time.
    oldest_ready: (Instant, Duration),
    probes: Probes,
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
        let book = CapacityBook::new(
            frameworks.assume_capacity(),
            options.gates.workload_affinity,
        )
        .with_earlier_requests(options.gates.estimate_grown_requests);
        Self {
            multiple_pod_templates: options.gates.multiple_pod_templates_scheduling,
            frameworks,
            plugin_tasks,
            clusters: Clusters::new(keep_objects),
            bindings: Bindings::default(),
            plugin_state,
            queue: Queue::new(options.order),
            book,
            answers: ExternalAnswers::new(estimators, extenders),
            decides_slowly: false,
            parked: ParkedBindings::default(),
            preemption_retries: PreemptionRetries::default(),
            evictions: Evictions::default(),
            lists: ListProgress::default(),
            leading: false,
            writer,
            writes: JoinSet::new(),
            recorder,
            decision_log: None,
            recent_decisions: RecentDecisions::new(options.debug_decisions),
            configurations: Configurations::default(),
            metrics,
            oldest_ready: (Instant::now(), Duration::ZERO),
            probes,
        }
    }

    /// Sets the decision log, in which the scheduler records clusters and decisions.
    pub(crate) fn with_decision_log(self, decision_log: Option<Recorder>) -> Self {
        Self {
            decision_log,
            ..self
        }
    }

    /// Runs the scheduler until the token is cancelled. Then waits for pending writes and evictions.
    pub(crate) async fn run(mut self, mut inputs: Inputs, cancel: CancellationToken) {
        if *inputs.leading.borrow_and_update() {
            self.start_leading();
        }
        loop {
            let now = Instant::now();
            self.queue.flush(now);
            self.expire_assumed_capacity(now);
            self.reject_overdue_permits(now);
            self.decide(now);
            self.report_queue(now);
            let busy = self.may_decide();
            self.recorder.set_busy(!self.writes.is_empty() || busy);
            let deadlines = [
                self.queue.next_flush(),
                self.book.next_expiry(),
                self.parked.next_deadline(),
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
            tokio::select! {
                biased;
                () = cancel.cancelled() => break,
                Ok(()) = inputs.leading.changed() => {
                    if *inputs.leading.borrow_and_update() {
                        self.start_leading();
                    }
                }
                Some(write) = self.writes.join_next(), if !self.writes.is_empty() => {
                    self.handle_write_result(write);
                }
                Some(eviction) = self.evictions.join_next() => {
                    self.handle_eviction_result(eviction);
                }
                answered = self.answers.next() => self.decide_again(answered),
                Some(message) = inputs.plugin_messages.recv() => {
                    self.handle_plugin_messages(vec![message], Instant::now());
                }
                Some(change) = inputs.config_changes.recv() => self.apply_config_change(change),
                Some(query) = inputs.debug.recv() => self.answer_debug(query),
                input = inputs.watches.recv() => {
                    let Some(input) = input else { break };
                    self.handle_watch_event(input);
                }
                () = pause => {}
            }
            // The `select!` above prefers finished writes. Under load, a further write has always finished, so the
            // `select!` alone would never handle a watch event. Handle all finished writes and watch events here.
            while let Some(write) = self.writes.try_join_next() {
                self.handle_write_result(write);
            }
            while let Ok(input) = inputs.watches.try_recv() {
                self.handle_watch_event(input);
            }
        }
        self.shut_down().await;
    }

    /// Waits for pending writes and evictions, and records their events.
    async fn shut_down(&mut self) {
        let drain = async {
            while let Some(write) = self.writes.join_next().await {
                if let Ok(write) = write {
                    self.record_write_events(&write);
                }
            }
            while let Some(eviction) = self.evictions.join_next().await {
                if let Ok(eviction) = eviction {
                    self.record_eviction_events(&eviction);
                }
            }
        };
        if tokio::time::timeout(SHUTDOWN_TIMEOUT, drain).await.is_err() {
            tracing::warn!("stopped before the API server responded to all writes");
        }
    }

    fn may_decide(&self) -> bool {
        self.leading
            && self.lists.all_complete()
            && self.writes.len() < WRITES_IN_FLIGHT
            && self.answers.has_capacity()
            && self.queue.has_ready()
    }

    /// Updates the metrics of the queue. The age of the oldest key is updated less often, because its calculation reads
    /// all ready keys.
    fn report_queue(&mut self, now: Instant) {
        if !self.queue.has_ready() {
            self.oldest_ready = (now, Duration::ZERO);
        } else if now.saturating_duration_since(self.oldest_ready.0) >= AGE_INTERVAL {
            let since = self.queue.oldest_ready().unwrap_or(now);
            self.oldest_ready = (now, now.saturating_duration_since(since));
        }
        self.metrics.queue(self.queue.depth(), self.oldest_ready.1);
    }

    /// Makes this process the leader, and queues every binding that a profile schedules. Among bindings of equal rank,
    /// bindings whose generation the last leader has not observed come first, in order of creation, so that thousands
    /// of unchanged bindings do not delay them.
    fn start_leading(&mut self) {
        self.leading = true;
        self.metrics.leading(true);
        let now = Instant::now();
        let all = self.bindings.iter();
        let mut ours: Vec<_> = all
            .filter(|(_, binding)| self.frameworks.passes(binding))
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
            self.queue.push(key, self.frameworks.rank(binding), now);
            self.metrics.incoming(Incoming::BindingAdd);
        }
    }
}
