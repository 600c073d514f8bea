//! The decision about a binding: whether to evict the binding or to change its graceful eviction tasks, and when to
//! examine the binding again.

use std::time::{Duration, Instant};

use jiff::Timestamp;

use super::eviction::Reason;
use super::graceful_eviction::{TaskUpdate, update_tasks};
use super::options::FailoverOptions;
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
}

/// Returns the next action for a binding, and the time at which to examine it again.
pub(super) fn next_action(
    reports: &Reports<'_>,
    unhealthy: &mut UnhealthyTracker,
    options: &FailoverOptions,
    clocks: Clocks,
) -> (Action, Option<Instant>) {
    let binding = reports.binding;
    if binding.body.deleting() {
        unhealthy.forget(&binding.body.key);
        return (Action::None, None);
    }
    let mut next: Option<Instant> = None;
    let mut examine_at = |time: Instant| next = Some(next.map_or(time, |next| next.min(time)));
    if options.graceful_eviction && !binding.tasks.is_empty() {
        let update = update_tasks(reports, options.graceful_eviction_timeout, clocks.wall);
        if update.patch.is_some() {
            return (Action::UpdateTasks(update), None);
        }
        if let Some(time) = update.next {
            examine_at(clocks.after(time));
        }
        if let Some(time) = reports.next() {
            examine_at(time + Duration::from_millis(1));
        }
    }
    let mut evictions: Vec<(String, Reason)> = Vec::new();
    if options.taint_eviction.is_some() {
        for target in &binding.body.spec.clusters {
            let Some(cluster) = reports.cluster(&target.name) else {
                continue;
            };
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
        let verdict = unhealthy.observe(reports, clocks.now);
        if let Some(time) = verdict.next {
            examine_at(time + Duration::from_millis(1));
        }
        for cluster in verdict.evict_from {
            if evictions.iter().all(|(evicted, _)| *evicted != cluster) {
                evictions.push((cluster, Reason::Unhealthy));
            }
        }
    }
    if evictions.is_empty() {
        (Action::None, next)
    } else {
        (Action::Evict(evictions), next)
    }
}
