//! The owner of all state: one task that holds the fleet, the bindings and the queue, and decides.
//!
//! [`intake`] takes in what the watches see, [`cycle`] decides, [`permit`] and [`store`] take a decision to its
//! write, [`finish`] deals with what became of it, [`preemption`] and [`eviction`] make room, and [`lineup`] takes over another configuration.

mod cycle;
mod eviction;
mod finish;
mod intake;
mod lineup;
mod permit;
mod preemption;
mod promises;
mod questions;
mod references;
mod store;
mod waking;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use berth_api::Cluster;
use berth_core::{Fleet, Snapshot};
use berth_events::EventRecorder;
use tokio::sync::mpsc;
use tokio::task::{Id, JoinSet};
use tokio_util::sync::{CancellationToken, DropGuard};

use self::eviction::Evicted;
use self::permit::Lot;
use self::preemption::{Departures, Searchers};
use self::promises::Promises;
pub(crate) use self::questions::Accurate;
use self::questions::Questions;
use self::store::Finished;
use crate::assume::Assumptions;
use crate::binding::{Binding, BindingKey, Unread};
use crate::config::config_map::Change;
use crate::fleet_watch::Member;
use crate::framework::State;
use crate::framework::assembly::Lineup;
use crate::framework::runtime::Frameworks;
use crate::framework::waiting::Said;
use crate::health::Probes;
use crate::metrics::{Incoming, Metrics};
use crate::options::Options;
use crate::peers::Groups;
use crate::queue::Queue;
use crate::watch::Seen;
use crate::writer::Writer;

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

#[derive(Debug)]
struct Entry {
    binding: Arc<Binding>,
    /// The newest generation that a write of ours produced.
    own_generation: i64,
    /// Whether a plan for it is being carried out.
    writing: bool,
    /// What the watch said meanwhile.
    unread: Option<Unread>,
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
    multiple_pod_templates: bool,
    frameworks: Frameworks,
    /// Ends the tasks of the plugins with the frameworks.
    plugin_tasks: DropGuard,
    fleet: Fleet,
    snapshot: Option<Arc<Snapshot>>,
    members: HashMap<String, Member>,
    leaving: HashSet<String>,
    bindings: HashMap<BindingKey, Entry>,
    /// What plugins see of fleet and bindings.
    state: State,
    queue: Queue,
    /// Kept under the gate SchedulingOvercommitProtection, or where a plugin needs it.
    assumptions: Option<Assumptions>,
    /// Kept under the gate WorkloadAffinity.
    groups: Option<Groups>,
    /// The members' accurate estimators and the extenders, where they are asked.
    questions: Questions,
    /// The decisions that wait for a permit.
    parked: Lot,
    /// Preempted workloads that have left and are still in reports.
    departures: Departures,
    searchers: Searchers,
    evictions: JoinSet<Evicted>,
    /// Room that is kept for those that preempt.
    promises: Promises,
    /// The victims that are being written, with who does it.
    evicting: HashMap<BindingKey, Id>,
    /// What a list in progress has named so far.
    listing: HashMap<Source, HashSet<String>>,
    synced: HashSet<Source>,
    leading: bool,
    writer: Writer,
    writes: JoinSet<Finished>,
    recorder: EventRecorder,
    metrics: Metrics,
    /// When the age of the oldest ready key was looked up, and what it was.
    oldest: (Instant, Duration),
    probes: Probes,
}

impl Owner {
    pub(crate) fn new(
        options: &Options,
        lineup: Lineup,
        accurate: Option<Accurate>,
        writer: Writer,
        recorder: EventRecorder,
        metrics: Metrics,
        probes: Probes,
    ) -> Self {
        for flag in &options.meaningless {
            tracing::warn!("{flag} has no meaning here and is ignored: see docs/compatibility.md");
        }
        let Lineup {
            frameworks,
            extenders,
            state,
            ends,
            ..
        } = lineup;
        // A configuration that comes later may need what this one does not.
        let keeps_objects = options.config_map.is_some()
            || frameworks.iter().any(|framework| framework.reads_objects);
        let assumes = frameworks
            .iter()
            .any(|framework| framework.assumes_capacity);
        let fleet = Fleet::new();
        Self {
            multiple_pod_templates: options.gates.multiple_pod_templates_scheduling,
            frameworks,
            plugin_tasks: ends,
            fleet: if keeps_objects {
                fleet.keeping_objects()
            } else {
                fleet
            },
            snapshot: None,
            members: HashMap::new(),
            leaving: HashSet::new(),
            bindings: HashMap::new(),
            state,
            queue: Queue::new(options.order),
            assumptions: assumes.then(Assumptions::default),
            groups: options.gates.workload_affinity.then(Groups::default),
            questions: Questions::new(accurate, extenders),
            parked: Lot::new(),
            departures: Departures::default(),
            searchers: Searchers::default(),
            evictions: JoinSet::new(),
            promises: Promises::default(),
            evicting: HashMap::new(),
            listing: HashMap::new(),
            synced: HashSet::new(),
            leading: false,
            writer,
            writes: JoinSet::new(),
            recorder,
            metrics,
            oldest: (Instant::now(), Duration::ZERO),
            probes,
        }
    }

    /// Runs until the token is cancelled; writes in flight, evictions included, are waited for.
    pub(crate) async fn run(
        mut self,
        mut inbox: mpsc::Receiver<Input>,
        mut said: mpsc::UnboundedReceiver<Said>,
        mut changes: mpsc::Receiver<Change>,
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
            self.end_permits(now);
            self.expire_departures(now);
            self.decide(now);
            self.report_queue(now);
            self.recorder
                .set_busy(!self.writes.is_empty() || self.may_decide());
            let busy = self.may_decide();
            let next_expiry = self.assumptions.as_ref().and_then(Assumptions::next_expiry);
            let next_permit = self.next_permit_ends();
            let next_flush = [self.queue.next_flush(), next_expiry, next_permit];
            let next_flush = next_flush.into_iter().flatten().min();
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
                Some(evicted) = self.evictions.join_next(), if !self.evictions.is_empty() => {
                    self.evicted(evicted);
                }
                answered = self.questions.next() => self.answered(answered),
                Some(said) = said.recv() => self.hear_all(vec![said], Instant::now()),
                Some(change) = changes.recv() => self.take_over(change),
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
            while let Some(evicted) = self.evictions.join_next().await {
                if let Ok(evicted) = evicted {
                    self.tell_of(&evicted);
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
            && self.questions.has_room()
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

    /// Begins to lead: every binding of ours is evaluated once. Those that the last leader has not dealt with come first,
    /// in the order of their creation, so that they do not wait for thousands that need nothing.
    fn lead(&mut self) {
        self.leading = true;
        self.metrics.leading(true);
        let now = Instant::now();
        let ours = self.bindings.iter();
        let mut ours: Vec<_> = ours
            .filter(|(_, entry)| self.frameworks.passes(&entry.binding))
            .collect();
        ours.sort_by_cached_key(|(_, entry)| {
            let binding = &entry.binding;
            let observed = binding.status.scheduler_observed_generation.unwrap_or(0);
            let created = binding.metadata.creation_timestamp.as_ref();
            (
                observed == binding.generation(),
                created.map(|created| created.0),
            )
        });
        for (key, entry) in ours {
            self.queue
                .push(key, self.frameworks.rank(&entry.binding), now);
            self.metrics.incoming(Incoming::BindingAdd);
        }
    }
}
