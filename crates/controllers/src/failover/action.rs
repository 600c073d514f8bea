//! What is to be done about one binding now, and when to look again.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use jiff::Timestamp;

use super::binding::Bound;
use super::draining::{self, Drained};
use super::eviction::Why;
use super::options::FailoverOptions;
use super::sickness::Sickness;
use super::toleration::{EvictingTaint, Stay, stay};

/// The two clocks: what is written says the time of day, what is waited for goes by the other one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clocks {
    pub(super) wall: Timestamp,
    pub(super) now: Instant,
}

impl Clocks {
    /// Both, now.
    pub(super) fn read() -> Self {
        Self {
            wall: Timestamp::now(),
            now: Instant::now(),
        }
    }

    /// The moment after a time of day, which may have passed.
    fn after(&self, time: Timestamp) -> Instant {
        let wait = Duration::try_from(time.duration_since(self.wall)).unwrap_or_default();
        self.now + wait + Duration::from_millis(1)
    }
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    /// Nothing now.
    Rest,
    /// Tasks change.
    Drain(Drained),
    /// These clusters are to be left.
    Leave(Vec<(String, Why)>),
}

/// Looks at a binding.
pub(super) fn step(
    binding: &Bound,
    taints: &HashMap<String, Vec<EvictingTaint>>,
    sickness: &mut Sickness,
    options: &FailoverOptions,
    clocks: Clocks,
) -> (Step, Option<Instant>) {
    if binding.deleting {
        sickness.forget(&binding.key);
        return (Step::Rest, None);
    }
    let mut next: Option<Instant> = None;
    let mut look_at = |time: Instant| next = Some(next.map_or(time, |next| next.min(time)));
    if options.graceful_eviction && !binding.tasks.is_empty() {
        let drained = draining::drain(binding, options.graceful_eviction_timeout, clocks.wall);
        if drained.patch.is_some() {
            return (Step::Drain(drained), None);
        }
        if let Some(time) = drained.next {
            look_at(clocks.after(time));
        }
    }
    let mut leaves: Vec<(String, Why)> = Vec::new();
    if options.taint_eviction.is_some() {
        for target in &binding.spec.clusters {
            let Some(taints) = taints.get(&target.name) else {
                continue;
            };
            match stay(binding.placement.as_ref(), taints) {
                Stay::Forever => {}
                Stay::Until(end) if end > clocks.wall => look_at(clocks.after(end)),
                Stay::Until(_) | Stay::No => leaves.push((target.name.clone(), Why::Taint)),
            }
        }
    }
    if options.application_failover {
        let verdict = sickness.observe(binding, clocks.now);
        if let Some(time) = verdict.next {
            look_at(time + Duration::from_millis(1));
        }
        for cluster in verdict.leaves {
            if leaves.iter().all(|(leaving, _)| *leaving != cluster) {
                leaves.push((cluster, Why::Sickness));
            }
        }
    }
    if leaves.is_empty() {
        (Step::Rest, next)
    } else {
        (Step::Leave(leaves), next)
    }
}
