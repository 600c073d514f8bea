//! The [`EvictionRounds`]: evicts the bindings of a preview at the pace of the budget, and waits until they have left.

use std::collections::{BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use berth_api::BindingKey;
use berth_plan::what_if::{DepartureRole, DrainPreview};
use kube::Client;
use tokio_util::sync::CancellationToken;

use super::binding_patch::Written;
use super::budget::{Budget, Pace};
use super::departing::{Departing, observe};
use super::error::DrainError;
use super::evict::evict;
use super::progress::Progress;

/// Minimum pause between two observations.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Minimum pause, as a multiple of the duration of an observation, so that a large control plane is not busy with them.
const PAUSE_FACTOR: u32 = 4;

/// Maximum time without a successful observation.
const MAX_OUTAGE: Duration = Duration::from_mins(1);

/// The evictions from a cluster.
pub(super) struct EvictionRounds<'a> {
    client: &'a Client,
    cluster: &'a str,
    pace: Pace,
    start: Instant,
    timeout: Option<Duration>,
    cancel: CancellationToken,
    /// Bindings that leave: evicted, to be evicted, or evicted by an earlier run.
    leaving: BTreeSet<BindingKey>,
    /// Bindings of `leaving` that need no further eviction.
    evicted: BTreeSet<BindingKey>,
    progress: Progress,
    /// Time of the last successful observation.
    last_observed: Option<Instant>,
}

impl<'a> EvictionRounds<'a> {
    /// Creates the rounds for a cluster, and starts the timeout.
    pub(super) fn new(
        client: &'a Client,
        cluster: &'a str,
        budget: Option<Budget>,
        timeout: Option<Duration>,
        cancel: CancellationToken,
    ) -> Self {
        let start = Instant::now();
        Self {
            client,
            cluster,
            pace: Pace::new(budget),
            start,
            timeout,
            cancel,
            leaving: BTreeSet::new(),
            evicted: BTreeSet::new(),
            progress: Progress::start(cluster),
            last_observed: None,
        }
    }

    /// Evicts the bindings of a preview that no earlier round has evicted, and waits until all evicted bindings have left.
    /// Other objects are evicted after the workloads have left.
    pub(super) async fn run(&mut self, preview: &DrainPreview) -> Result<(), DrainError> {
        let [workloads, objects] = [DepartureRole::Workload, DepartureRole::Object].map(|role| {
            let new = preview.movable(role).map(|departure| departure.key.clone());
            new.filter(|key| !self.evicted.contains(key))
                .collect::<VecDeque<BindingKey>>()
        });
        self.leaving
            .extend(workloads.iter().chain(&objects).cloned());
        self.evict_all(workloads).await?;
        self.evict_all(objects).await
    }

    /// Reports whether a preview contains bindings to evict that no earlier round has evicted.
    pub(super) fn has_new(&self, preview: &DrainPreview) -> bool {
        let mut movable = preview.departures.iter().filter(|one| one.is_movable());
        movable.any(|departure| !self.evicted.contains(&departure.key))
    }

    /// Returns the evicted bindings that are in the cluster again.
    pub(super) fn returned(&self, preview: &DrainPreview) -> Vec<BindingKey> {
        let movable = preview.departures.iter().filter(|one| one.is_movable());
        let keys = movable.map(|departure| &departure.key);
        keys.filter(|key| self.evicted.contains(key))
            .cloned()
            .collect()
    }

    /// Returns the progress.
    pub(super) fn progress(&mut self) -> &mut Progress {
        &mut self.progress
    }

    /// Waits for a future, unless the user interrupts the command.
    pub(super) async fn unless_interrupted<T>(
        &self,
        future: impl Future<Output = T>,
    ) -> Result<T, DrainError> {
        tokio::select! {
            biased;
            () = self.cancel.cancelled() => Err(DrainError::Interrupted {
                cluster: self.cluster.to_owned(),
                left: self.progress.left(),
                all: self.leaving.len(),
            }),
            output = future => Ok(output),
        }
    }

    /// Evicts bindings, and waits until they and those of earlier rounds have left.
    async fn evict_all(&mut self, mut queue: VecDeque<BindingKey>) -> Result<(), DrainError> {
        loop {
            self.evict_some(&mut queue).await?;
            let observing = observe(self.client, self.cluster);
            let observation = match self.unless_interrupted(observing).await? {
                Ok(observation) => observation,
                Err(error) => {
                    self.tolerate(error)?;
                    self.unless_interrupted(tokio::time::sleep(POLL_INTERVAL))
                        .await?;
                    continue;
                }
            };
            self.last_observed = Some(Instant::now());
            let departing = observation.departing;
            // An earlier run has evicted the others.
            self.leaving.extend(departing.keys().cloned());
            self.evicted.extend(departing.keys().cloned());
            let all = self.leaving.len();
            self.progress.show(&self.evicted, &departing, all)?;
            if queue.is_empty() && departing.is_empty() {
                return Ok(());
            }
            let left = self.time_left();
            if left.is_zero() {
                return Err(self.timed_out(&queue, &departing)?);
            }
            let mut pause = POLL_INTERVAL.max(observation.took * PAUSE_FACTOR).min(left);
            if !queue.is_empty() {
                pause = pause.min(self.pace.wait(Instant::now()));
            }
            self.unless_interrupted(tokio::time::sleep(pause)).await?;
        }
    }

    /// Tolerates an error of an observation while the control plane has been silent for a short time only, such as
    /// during its restart. An error of the first observation is not tolerated: a right may be missing.
    fn tolerate(&self, error: DrainError) -> Result<(), DrainError> {
        let is_short = |last: Instant| last.elapsed() < MAX_OUTAGE;
        if self.last_observed.is_some_and(is_short) && !self.time_left().is_zero() {
            Ok(())
        } else {
            Err(error)
        }
    }

    /// Evicts bindings for as long as the budget allows it, and at most for the time between two observations.
    async fn evict_some(&mut self, queue: &mut VecDeque<BindingKey>) -> Result<(), DrainError> {
        let end = Instant::now() + POLL_INTERVAL;
        while let Some(key) = queue.front() {
            let now = Instant::now();
            if now > end || !self.pace.wait(now).is_zero() {
                break;
            }
            let evicting = evict(self.client, key, self.cluster);
            let written = self.unless_interrupted(evicting).await??;
            if written == Written::Changed {
                self.pace.count(now);
            }
            self.evicted.extend(queue.pop_front());
        }
        Ok(())
    }

    /// Returns the time until the timeout.
    fn time_left(&self) -> Duration {
        self.timeout.map_or(Duration::MAX, |timeout| {
            timeout.saturating_sub(self.start.elapsed())
        })
    }

    /// Prints the bindings that have not left, and returns the error of the timeout.
    fn timed_out(
        &mut self,
        queue: &VecDeque<BindingKey>,
        departing: &Departing,
    ) -> Result<DrainError, DrainError> {
        self.progress.remaining(queue, departing)?;
        Ok(DrainError::TimedOut {
            cluster: self.cluster.to_owned(),
            seconds: self.timeout.unwrap_or_default().as_secs(),
            left: self.progress.left(),
            all: self.leaving.len(),
        })
    }
}
