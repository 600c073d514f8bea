//! What is to be done now: a pure function of the world.

use std::time::Duration;

use crate::action::Action;
use crate::controlled::Pods;
use crate::world::World;
use crate::{daemon_sets, deployments, jobs, placing, pods, replica_sets, stateful_sets};

/// What is to be done now, and when something is to be done although nothing changes.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    pub(crate) actions: Vec<Action>,
    pub(crate) wake: Option<jiff::Timestamp>,
}

impl Plan {
    /// Asks to be made again at this time at the latest.
    pub(crate) fn wake_at(&mut self, start: jiff::Timestamp, after: Duration) {
        let at = start.saturating_add(after).unwrap_or(jiff::Timestamp::MAX);
        self.wake = Some(self.wake.map_or(at, |wake| wake.min(at)));
    }
}

pub(crate) fn plan(world: &World, now: jiff::Timestamp) -> Plan {
    let mut plan = Plan::default();
    let owned = Pods::of(world);
    deployments::plan(world, &owned, now, &mut plan.actions);
    replica_sets::plan(world, &owned, now, &mut plan.actions);
    stateful_sets::plan(world, &owned, &mut plan.actions);
    daemon_sets::plan(world, &owned, &mut plan.actions);
    jobs::plan(world, &owned, now, &mut plan.actions);
    placing::plan(world, now, &mut plan.actions);
    pods::plan(world, now, &mut plan);
    plan
}

#[cfg(test)]
mod tests;
