//! The task that owns what failover knows: takes observations in, looks at bindings when it is time, and hands
//! writes out, never two for one binding.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::FailoverError;
use super::binding::Bound;
use super::eviction::{self, Why};
use super::intake::{Known, Source};
use super::line::Line;
use super::options::FailoverOptions;
use super::pace::{Budget, Pace, interval};
use super::sickness::Sickness;
use super::step::{Clocks, Step, step};
use super::writer::{Telling, Writer, Written};
use crate::binding_key::BindingKey;
use crate::binding_key::BindingKind;
use crate::informer::Observation;
use crate::queue::until;

/// How many observations are taken in before anything is done.
const BATCH: usize = 256;
/// Writes that are on their way at the same time; the others are looked at again soon.
const WRITES: usize = 32;
/// When to look again after somebody else was faster, where the watch does not say so before, and where all
/// writes are taken.
const SOON: Duration = Duration::from_millis(500);
/// The longest time between two tries of a write that fails.
const LONGEST: Duration = Duration::from_mins(1);

/// Who waits in which line: Karmada has a pace for each kind of binding where taints evict, and none for sick
/// applications.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lane {
    Taint(BindingKind),
    Sickness,
}

#[derive(Debug)]
struct Done {
    binding: Bound,
    written: Written,
}

/// The state, and the writes that are on their way.
#[derive(Debug)]
pub(super) struct Owner {
    options: FailoverOptions,
    writer: Writer,
    shutdown: CancellationToken,
    known: Known,
    sickness: Sickness,
    lines: [(Lane, Line); 3],
    budget: Budget,
    /// When to look at which binding: never twice for one.
    agenda: BTreeMap<(Instant, u64), BindingKey>,
    entries: HashMap<BindingKey, (Instant, u64)>,
    tickets: u64,
    writes: JoinSet<Done>,
    busy: HashSet<BindingKey>,
    failures: HashMap<BindingKey, u32>,
}

impl Owner {
    pub(super) fn new(
        options: FailoverOptions,
        writer: Writer,
        shutdown: CancellationToken,
    ) -> Self {
        let rate = options
            .taint_eviction
            .as_ref()
            .map_or(0.0, |taints| taints.rate);
        let paced = || Line::new(Pace::new(interval(rate)));
        Self {
            lines: [
                (Lane::Taint(BindingKind::Namespaced), paced()),
                (Lane::Taint(BindingKind::Cluster), paced()),
                (Lane::Sickness, Line::new(Pace::new(Duration::ZERO))),
            ],
            budget: Budget::new(options.move_budget),
            options,
            writer,
            shutdown,
            known: Known::default(),
            sickness: Sickness::default(),
            agenda: BTreeMap::new(),
            entries: HashMap::new(),
            tickets: 0,
            writes: JoinSet::new(),
            busy: HashSet::new(),
            failures: HashMap::new(),
        }
    }

    /// Runs until it is told to stop. Writes that are on their way then are given up.
    pub(super) async fn run(
        mut self,
        mut inbox: mpsc::Receiver<(Source, Observation)>,
    ) -> Result<(), FailoverError> {
        let shutdown = self.shutdown.clone();
        let mut batch = Vec::with_capacity(BATCH);
        loop {
            let due = self.next_due(Instant::now());
            tokio::select! {
                biased;
                () = shutdown.cancelled() => return Ok(()),
                Some(done) = self.writes.join_next() => self.done(done?),
                count = inbox.recv_many(&mut batch, BATCH) => {
                    if count == 0 {
                        return Ok(());
                    }
                    for (source, observation) in batch.drain(..) {
                        self.observe(source, observation);
                    }
                }
                () = until(due.map(Into::into)) => {}
            }
            if self.known.is_complete() {
                self.look_around();
            }
        }
    }

    fn observe(&mut self, source: Source, observation: Observation) {
        let concerned = self.known.observe(source, observation);
        let now = Instant::now();
        for key in concerned.changed {
            self.look_at(key, now);
        }
        for key in concerned.gone {
            self.sickness.forget(&key);
            self.failures.remove(&key);
            self.forget_entry(&key);
        }
    }

    fn look_at(&mut self, key: BindingKey, time: Instant) {
        if self
            .entries
            .get(&key)
            .is_some_and(|(known, _)| *known <= time)
        {
            return;
        }
        self.forget_entry(&key);
        self.tickets += 1;
        self.agenda.insert((time, self.tickets), key.clone());
        self.entries.insert(key, (time, self.tickets));
    }

    fn forget_entry(&mut self, key: &BindingKey) {
        if let Some(entry) = self.entries.remove(key) {
            self.agenda.remove(&entry);
        }
    }

    fn next_due(&mut self, now: Instant) -> Option<Instant> {
        if !self.known.is_complete() {
            return None;
        }
        let look = self.agenda.first_key_value().map(|((time, _), _)| *time);
        let turn = self
            .lines
            .iter()
            .filter_map(|(_, line)| line.opens(now))
            .min();
        // Where all writes are taken, the end of one is what is waited for.
        let turn = turn.filter(|_| self.writes.len() < WRITES);
        let turn = turn.map(|turn| self.budget.wait(now).map_or(turn, |open| turn.max(open)));
        look.into_iter().chain(turn).min()
    }

    /// Looks at everything whose time has come.
    fn look_around(&mut self) {
        let clocks = Clocks::read();
        while let Some(entry) = self.agenda.first_entry() {
            if entry.key().0 > clocks.now {
                break;
            }
            let key = entry.remove();
            self.entries.remove(&key);
            self.look(&key, clocks, false);
        }
        for lane in 0..self.lines.len() {
            while self.is_open(lane, clocks.now) {
                let Some(key) = self.lines[lane].1.call() else {
                    break;
                };
                self.look(&key, clocks, true);
            }
        }
    }

    fn is_open(&mut self, lane: usize, now: Instant) -> bool {
        self.writes.len() < WRITES
            && self.lines[lane].1.pace.wait(now).is_none()
            && self.budget.wait(now).is_none()
    }

    /// Looks at a binding; it is evicted only when it is its turn.
    fn look(&mut self, key: &BindingKey, clocks: Clocks, its_turn: bool) {
        let Some(binding) = self.known.bindings.get(key) else {
            return;
        };
        if self.busy.contains(key) {
            // It is looked at when its write is done.
            return;
        }
        let (taints, options) = (&self.known.taints, &self.options);
        let (step, next) = step(binding, taints, &mut self.sickness, options, clocks);
        let binding = binding.clone();
        if let Some(time) = next {
            self.look_at(key.clone(), time);
        }
        match step {
            Step::Rest => {}
            Step::Drain(drained) => {
                let Some(patch) = drained.patch else { return };
                self.start(binding, patch, Telling::Evicted(drained.evicted));
            }
            Step::Leave(leaves) => {
                let lane = self.lane(&binding, &leaves);
                if its_turn {
                    self.evict(binding, leaves, lane, clocks.now);
                } else {
                    self.lines[lane].1.join(key);
                }
            }
        }
    }

    fn lane(&self, binding: &Bound, leaves: &[(String, Why)]) -> usize {
        let tainted = leaves.iter().any(|(_, why)| *why == Why::Taint);
        let wanted = if tainted {
            Lane::Taint(binding.kind())
        } else {
            Lane::Sickness
        };
        let found = self.lines.iter().position(|(lane, _)| *lane == wanted);
        found.unwrap_or_default()
    }

    fn evict(&mut self, binding: Bound, leaves: Vec<(String, Why)>, lane: usize, now: Instant) {
        let mut leaving = Vec::new();
        for (cluster, why) in leaves {
            match eviction::task(&binding, &cluster, why, &self.options) {
                Ok(task) => leaving.push(task),
                Err(error) => {
                    tracing::warn!(binding = binding.key.name, cluster, %error, "cannot evict");
                    self.writer.refused(&binding, &cluster, &error.to_string());
                }
            }
        }
        if leaving.is_empty() {
            return;
        }
        let clusters = leaving.iter().map(|task| task.from_cluster.clone());
        let clusters: Vec<String> = clusters.collect();
        match eviction::evict(&binding, leaving) {
            Ok(patch) => {
                tracing::info!(binding = binding.key.name, ?clusters, "evicting");
                self.lines[lane].1.pace.take(now);
                self.budget.take(now);
                self.start(binding, patch, Telling::Leaving(clusters));
            }
            Err(error) => tracing::error!(binding = binding.key.name, %error, "cannot evict"),
        }
    }

    fn start(&mut self, binding: Bound, patch: serde_json::Value, telling: Telling) {
        if self.writes.len() >= WRITES {
            self.look_at(binding.key, Instant::now() + SOON);
            return;
        }
        self.busy.insert(binding.key.clone());
        let writer = self.writer.clone();
        self.writes.spawn(async move {
            let written = writer.write(&binding, patch, telling).await;
            Done { binding, written }
        });
    }

    fn done(&mut self, done: Done) {
        let Done { binding, written } = done;
        let key = binding.key.clone();
        self.busy.remove(&key);
        let now = Instant::now();
        match written {
            Written::Stored(stored) => {
                self.failures.remove(&key);
                // The watch may have brought something newer.
                let known = self.known.bindings.get_mut(&key);
                if let Some(known) = known.filter(|known| known.version == binding.version)
                    && let Ok(stored) = Bound::read(&stored)
                {
                    *known = stored;
                }
                self.look_at(key, now);
            }
            Written::Stale => self.look_at(key, now + SOON),
            Written::Gone => drop(self.failures.remove(&key)),
            Written::Failed(error) => {
                let failures = self.failures.entry(key.clone()).or_default();
                let delay = Duration::from_secs(1) * 2u32.saturating_pow(*failures).min(64);
                *failures += 1;
                tracing::warn!(binding = key.name, failures, %error, "write failed, trying again later");
                self.look_at(key, now + delay.min(LONGEST));
            }
        }
    }
}
