//! The owner of all state: one task that holds the fleet, the bindings and the queue, and decides.
//!
//! [`intake`] takes in what the watches see, [`cycle`] decides and deals with what became of the writes.

mod cycle;
mod estimates;
mod intake;
mod references;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use berth_api::Cluster;
use berth_core::{Engine, EngineOptions, Fleet, Plugins, Snapshot};
use k8s_openapi::api::core::v1::ObjectReference;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use self::estimates::{Accurate, Answered};
use crate::assume::Assumptions;
use crate::binding::{Binding, BindingKey};
use crate::events::Recorder;
use crate::filter;
use crate::fleet_watch::Member;
use crate::health::Probes;
use crate::metrics::{Incoming, Metrics};
use crate::need::ScheduleType;
use crate::options::Options;
use crate::peers::Groups;
use crate::plan::Plan;
use crate::queue::{Queue, Rank};
use crate::service::ServiceError;
use crate::watch::Seen;
use crate::writer::{Report, Writer};

/// How many plans are carried out at the same time.
const WRITES_IN_FLIGHT: usize = 64;
/// How often the age of the oldest ready key is looked up.
const AGE_REPORTED_EVERY: Duration = Duration::from_millis(250);
/// How long writes in flight are waited for at the end.
const LAST_WRITES: Duration = Duration::from_secs(5);

/// What the watches tell the owner.
#[derive(Debug)]
pub(crate) enum Input {
    Cluster(Seen<Cluster>),
    Binding(Seen<berth_api::ResourceBinding>),
    ClusterBinding(Seen<berth_api::ClusterResourceBinding>),
}

/// A plan that was carried out.
#[derive(Debug)]
struct Finished {
    key: BindingKey,
    resource: ObjectReference,
    plan: Plan,
    report: Report,
    schedule_type: ScheduleType,
    began: Instant,
}

#[derive(Debug)]
struct Entry {
    binding: Arc<Binding>,
    /// The newest generation that a write of ours produced.
    own_generation: i64,
}

/// Which of the three watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Source {
    Clusters,
    Bindings,
    ClusterBindings,
}

/// The state, and what it needs to act.
pub(crate) struct Owner {
    scheduler_name: String,
    multiple_pod_templates: bool,
    engine: Engine,
    fleet: Fleet,
    snapshot: Option<Arc<Snapshot>>,
    members: HashMap<String, Member>,
    leaving: HashSet<String>,
    bindings: HashMap<BindingKey, Entry>,
    queue: Queue,
    /// Kept under the gate SchedulingOvercommitProtection.
    assumptions: Option<Assumptions>,
    /// Kept under the gate WorkloadAffinity.
    groups: Option<Groups>,
    /// The members' accurate estimators, where they are asked.
    accurate: Option<Accurate>,
    /// What a list in progress has named so far.
    listing: HashMap<Source, HashSet<String>>,
    synced: HashSet<Source>,
    leading: bool,
    writer: Writer,
    writes: JoinSet<Finished>,
    recorder: Recorder,
    metrics: Metrics,
    /// When the age of the oldest ready key was looked up, and what it was.
    oldest: (Instant, Duration),
    probes: Probes,
}

impl Owner {
    pub(crate) fn new(
        options: &Options,
        writer: Writer,
        recorder: Recorder,
        metrics: Metrics,
        probes: Probes,
        cancel: &CancellationToken,
    ) -> Result<Self, ServiceError> {
        for flag in &options.meaningless {
            tracing::warn!("{flag} has no meaning here and is ignored: see docs/compatibility.md");
        }
        let in_use = |name: &&str| options.plugins.contains(name);
        for plugin in berth_core::IN_TREE.into_iter().filter(in_use) {
            tracing::info!("Enable Scheduler plugin {plugin:?}");
        }
        let accurate = options.estimator.as_ref().map(|estimator| {
            let (client, limit) = (writer.client.clone(), writer.limit.clone());
            Accurate::new(client, limit, estimator, cancel.clone())
        });
        let mut plugins = Plugins::in_tree(options.gates);
        if let Some(accurate) = &accurate {
            plugins.estimators.push(Arc::new(accurate.desk.estimator()));
            probes.show_estimators(accurate.client.clone());
        }
        let engine_options = EngineOptions {
            plugins: options.plugins.clone(),
            gates: options.gates,
            empty_workload_propagation: options.empty_workload_propagation,
        };
        let engine = Engine::with_plugins(engine_options, plugins)
            .map_err(|error| ServiceError::Engine(error.to_string()))?;
        Ok(Self {
            scheduler_name: options.scheduler_name.clone(),
            multiple_pod_templates: options.gates.multiple_pod_templates_scheduling,
            engine,
            fleet: Fleet::new(),
            snapshot: None,
            members: HashMap::new(),
            leaving: HashSet::new(),
            bindings: HashMap::new(),
            queue: Queue::new(options.order),
            assumptions: options
                .gates
                .scheduling_overcommit_protection
                .then(Assumptions::default),
            groups: options.gates.workload_affinity.then(Groups::default),
            accurate,
            listing: HashMap::new(),
            synced: HashSet::new(),
            leading: false,
            writer,
            writes: JoinSet::new(),
            recorder,
            metrics,
            oldest: (Instant::now(), Duration::ZERO),
            probes,
        })
    }

    /// Runs until the token is cancelled; writes in flight are waited for.
    pub(crate) async fn run(
        mut self,
        mut inbox: mpsc::Receiver<Input>,
        mut lead: tokio::sync::watch::Receiver<bool>,
        cancel: CancellationToken,
    ) {
        if *lead.borrow_and_update() {
            self.lead();
        }
        loop {
            let now = Instant::now();
            self.queue.flush(now);
            self.expire_assumptions(now);
            self.decide(now);
            self.report_queue(now);
            self.recorder
                .set_busy(!self.writes.is_empty() || self.may_decide());
            let busy = self.may_decide();
            let next_expiry = self.assumptions.as_ref().and_then(Assumptions::next_expiry);
            let next_flush = self.queue.next_flush().into_iter().chain(next_expiry).min();
            let pause = async {
                if busy {
                    return;
                }
                match next_flush {
                    Some(at) => tokio::time::sleep_until(at.into()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = cancel.cancelled() => break,
                Ok(()) = lead.changed() => {
                    if *lead.borrow_and_update() {
                        self.lead();
                    }
                }
                Some(finished) = self.writes.join_next(), if !self.writes.is_empty() => {
                    self.finish(finished);
                }
                Some(answered) = next_answer(&mut self.accurate) => self.answered(answered),
                input = inbox.recv() => {
                    let Some(input) = input else { break };
                    self.take(input);
                }
                () = pause => {}
            }
            // Neither may keep the other waiting: under load there is always one more write that ends.
            while let Some(finished) = self.writes.try_join_next() {
                self.finish(finished);
            }
            while let Ok(input) = inbox.try_recv() {
                self.take(input);
            }
        }
        let last = async {
            while let Some(finished) = self.writes.join_next().await {
                if let Ok(finished) = finished {
                    self.record(&finished);
                }
            }
        };
        if tokio::time::timeout(LAST_WRITES, last).await.is_err() {
            tracing::warn!("stopped before all writes were answered");
        }
    }

    fn may_decide(&self) -> bool {
        self.leading
            && self.synced.len() == 3
            && self.writes.len() < WRITES_IN_FLIGHT
            && self.accurate.as_ref().is_none_or(Accurate::has_room)
            && self.queue.has_ready()
    }

    /// Looking for the oldest key costs a look at each ready one, so it is not done at every turn.
    fn report_queue(&mut self, now: Instant) {
        if !self.queue.has_ready() {
            self.oldest = (now, Duration::ZERO);
        } else if now.saturating_duration_since(self.oldest.0) >= AGE_REPORTED_EVERY {
            let since = self.queue.oldest_ready().unwrap_or(now);
            self.oldest = (now, now.saturating_duration_since(since));
        }
        self.metrics.queue(self.queue.depth(), self.oldest.1);
    }

    /// Begins to lead: every binding of ours is looked at once.
    fn lead(&mut self) {
        self.leading = true;
        self.metrics.leading(true);
        let now = Instant::now();
        for (key, entry) in &self.bindings {
            if filter::passes(&entry.binding, &self.scheduler_name) {
                self.queue
                    .push(key, Rank::of(entry.binding.spec.priority().into()), now);
                self.metrics.incoming(Incoming::BindingAdd);
            }
        }
    }
}

/// The next answer of the estimators; never, where none are asked.
async fn next_answer(
    accurate: &mut Option<Accurate>,
) -> Option<Result<Answered, tokio::task::JoinError>> {
    match accurate {
        Some(accurate) if !accurate.asks.is_empty() => accurate.asks.join_next().await,
        _ => std::future::pending().await,
    }
}
