//! The owner of all state: one task that holds the fleet, the bindings and the queue, and decides.
//!
//! [`intake`] takes in what the watches see, [`cycle`] decides and deals with what became of the writes.

mod cycle;
mod intake;
mod references;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use berth_api::Cluster;
use berth_core::{Engine, EngineOptions, Fleet, Snapshot};
use k8s_openapi::api::core::v1::ObjectReference;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

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
use crate::queue::Queue;
use crate::service::ServiceError;
use crate::watch::Seen;
use crate::writer::{Report, Writer};

/// How many plans are carried out at the same time.
const WRITES_IN_FLIGHT: usize = 64;
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
    /// What a list in progress has named so far.
    listing: HashMap<Source, HashSet<String>>,
    synced: HashSet<Source>,
    leading: bool,
    writer: Writer,
    writes: JoinSet<Finished>,
    recorder: Recorder,
    metrics: Metrics,
    probes: Probes,
}

impl Owner {
    pub(crate) fn new(
        options: &Options,
        writer: Writer,
        recorder: Recorder,
        metrics: Metrics,
        probes: Probes,
    ) -> Result<Self, ServiceError> {
        for flag in &options.meaningless {
            tracing::warn!("{flag} has no meaning here and is ignored: see docs/compatibility.md");
        }
        let in_use = |name: &&str| options.plugins.contains(name);
        for plugin in berth_core::IN_TREE.into_iter().filter(in_use) {
            tracing::info!("Enable Scheduler plugin {plugin:?}");
        }
        let engine = Engine::new(EngineOptions {
            plugins: options.plugins.clone(),
            gates: options.gates,
            empty_workload_propagation: options.empty_workload_propagation,
        })
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
            listing: HashMap::new(),
            synced: HashSet::new(),
            leading: false,
            writer,
            writes: JoinSet::new(),
            recorder,
            metrics,
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
            if let Some(assumptions) = &mut self.assumptions {
                assumptions.expire(now);
            }
            self.decide(now);
            self.report_queue(now);
            let busy = self.may_decide();
            let next_flush = self.queue.next_flush();
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
                    while let Some(finished) = self.writes.try_join_next() {
                        self.finish(finished);
                    }
                }
                input = inbox.recv() => {
                    let Some(input) = input else { break };
                    self.take(input);
                    while let Ok(input) = inbox.try_recv() {
                        self.take(input);
                    }
                }
                () = pause => {}
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
            && self.queue.has_ready()
    }

    fn report_queue(&self, now: Instant) {
        let oldest = self
            .queue
            .oldest_ready()
            .map_or(Duration::ZERO, |since| now.saturating_duration_since(since));
        self.metrics.queue(self.queue.depth(), oldest);
    }

    /// Begins to lead: every binding of ours is looked at once.
    fn lead(&mut self) {
        self.leading = true;
        self.metrics.leading(true);
        let now = Instant::now();
        for (key, entry) in &self.bindings {
            if filter::passes(&entry.binding, &self.scheduler_name) {
                self.queue.push(key, entry.binding.spec.priority(), now);
                self.metrics.incoming(Incoming::BindingAdd);
            }
        }
    }
}
