//! The decision about a binding: whether to evict the binding, to change its graceful eviction tasks or to rebalance it, and
//! when to examine the binding again.

use std::time::{Duration, Instant};

use berth_api::BindingKey;
use jiff::Timestamp;

use super::brake::Brake;
use super::eviction::Reason;
use super::failback::{self, Failback};
use super::graceful_eviction::{TaskUpdate, update_tasks};
use super::options::FailoverOptions;
use super::pending_replicas::PendingReplicas;
use super::report::Reports;
use super::toleration::{Tolerated, tolerated};
use super::unhealthy_tracker::UnhealthyTracker;

/// The current time of two clocks. Timestamps in objects use the wall clock, and waiting uses the monotonic clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clocks {
    pub(super) wall: Timestamp,
    pub(super) now: Instant,
}

impl Clocks {
    /// Reads both clocks.
    pub(super) fn read() -> Self {
        Self {
            wall: Timestamp::now(),
            now: Instant::now(),
        }
    }

    /// Returns the instant one millisecond after a wall-clock time. If this time has passed, the current time is used
    /// instead.
    fn after(&self, time: Timestamp) -> Instant {
        let wait = Duration::try_from(time.duration_since(self.wall)).unwrap_or_default();
        self.now + wait + Duration::from_millis(1)
    }
}

/// An action for a binding.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Action {
    /// Do nothing now.
    None,
    /// Change the graceful eviction tasks.
    UpdateTasks(TaskUpdate),
    /// Evict the binding from these clusters.
    Evict(Vec<(String, Reason)>),
    /// Let the binding return to clusters that are back.
    Return(Failback),
    /// Take these numbers of replicas, which no node can run, from these clusters.
    MovePending(Vec<(String, i64)>),
}

/// The times at which conditions of bindings began, as far as only this process knows them.
#[derive(Debug, Default)]
pub(super) struct Trackers {
    pub(super) unhealthy: UnhealthyTracker,
    pub(super) pending: PendingReplicas,
}

impl Trackers {
    /// Removes a binding.
    pub(super) fn forget(&mut self, key: &BindingKey) {
        self.unhealthy.forget(key);
        self.pending.forget(key);
    }
}

/// The decision about a binding.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Decision {
    pub(super) action: Action,
    /// The time at which to examine the binding again.
    pub(super) next: Option<Instant>,
    /// The clusters in which to count the pods of the binding that no node can run.
    pub(super) count_pods_in: Vec<String>,
}

/// Returns the decision about a binding, from these questions in order. An earlier one excludes the later ones, because a
/// binding moves for one reason at a time.
pub(super) fn decide(
    reports: &Reports<'_>,
    trackers: &mut Trackers,
    options: &FailoverOptions,
    brake: Brake,
    clocks: Clocks,
) -> Decision {
    let binding = reports.binding;
    let mut decision = Decision {
        action: Action::None,
        next: None,
        count_pods_in: Vec::new(),
    };
    if binding.body.deleting() {
        trackers.forget(&binding.body.key);
        return decision;
    }
    let next = &mut decision.next;
    let mut examine_at = |time: Instant| *next = Some(next.map_or(time, |next| next.min(time)));
    // 1. Do graceful evictions end? Their end frees the clusters that the next questions are about.
    if options.graceful_eviction && !binding.tasks.is_empty() {
        let update = update_tasks(reports, options.graceful_eviction_timeout, clocks.wall);
        if update.patch.is_some() {
            decision.action = Action::UpdateTasks(update);
            decision.next = None;
            return decision;
        }
        if let Some(time) = update.next {
            examine_at(clocks.after(time));
        }
        if let Some(time) = reports.next() {
            examine_at(time + Duration::from_millis(1));
        }
    }
    // 2. Must the binding leave a cluster? Taints come first: they are a decision of a person or a policy.
    let mut evictions: Vec<(String, Reason)> = Vec::new();
    if options.taint_eviction.is_some() {
        for target in &binding.body.spec.clusters {
            let Some(cluster) = reports.cluster(&target.name) else {
                continue;
            };
            // The end of the brake starts the next examination.
            if cluster.ready_since.is_none() && brake.stops(options.brake) {
                continue;
            }
            match tolerated(binding.placement.as_ref(), &cluster.taints) {
                Tolerated::Forever => {}
                Tolerated::Until(end) if end > clocks.wall => examine_at(clocks.after(end)),
                Tolerated::Until(_) | Tolerated::No => {
                    evictions.push((target.name.clone(), Reason::Taint));
                }
            }
        }
    }
    if options.application_failover {
        let verdict = trackers.unhealthy.observe(reports, clocks.now);
        if let Some(time) = verdict.next {
            examine_at(time + Duration::from_millis(1));
        }
        for cluster in verdict.evict_from {
            if evictions.iter().all(|(evicted, _)| *evicted != cluster) {
                evictions.push((cluster, Reason::Unhealthy));
            }
        }
    }
    if !evictions.is_empty() {
        decision.action = Action::Evict(evictions);
        return decision;
    }
    let Some(rebalance) = &options.rebalance else {
        return decision;
    };
    // 3. Do replicas wait for a node that does not exist? They come before a return, because they do not run anywhere.
    let pending = &mut trackers.pending;
    let verdict = pending.observe(reports, rebalance.unschedulable_after, clocks.now);
    if let Some(time) = verdict.next {
        examine_at(time + Duration::from_millis(1));
    }
    decision.count_pods_in = verdict.count_in;
    if !verdict.moves.is_empty() {
        decision.action = Action::MovePending(verdict.moves);
        return decision;
    }
    // 4. Is a better place back?
    let verdict = failback::decide(reports, rebalance, clocks.wall);
    if let Some(time) = verdict.next {
        examine_at(clocks.after(time));
    }
    if let Some(failback) = verdict.failback {
        decision.action = Action::Return(failback);
    }
    decision
}
