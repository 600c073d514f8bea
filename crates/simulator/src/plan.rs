//! The planner: a pure function of the cache and of the objects to plan.

use std::time::Duration;

use crate::action::Action;
use crate::controlled::Pods;
use crate::scope::Scope;
use crate::world::World;
use crate::{
    budgets, claims, cron_jobs, daemon_sets, deployments, jobs, load_balancers, placing, pods,
    replica_sets, replication_controllers, services, stateful_sets,
};

/// The actions due now, and the times of the next planning without any change.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    pub(crate) actions: Vec<Action>,
    /// Times and UIDs of objects to plan again.
    pub(crate) wakes: Vec<(jiff::Timestamp, String)>,
}

impl Plan {
    /// Schedules the next planning of an object.
    pub(crate) fn wake_at(&mut self, uid: String, start: jiff::Timestamp, after: Duration) {
        let at = start.saturating_add(after).unwrap_or(jiff::Timestamp::MAX);
        self.wakes.push((at, uid));
    }
}

pub(crate) fn plan(world: &World, scope: &Scope, now: jiff::Timestamp) -> Plan {
    let mut plan = Plan::default();
    let owned = Pods::of(world, scope);
    deployments::plan(world, scope, &owned, now, &mut plan.actions);
    replica_sets::plan(world, scope, &owned, now, &mut plan.actions);
    replication_controllers::plan(world, scope, &owned, now, &mut plan.actions);
    stateful_sets::plan(world, scope, &owned, &mut plan.actions);
    daemon_sets::plan(world, scope, &owned, &mut plan.actions);
    cron_jobs::plan(world, scope, now, &mut plan);
    jobs::plan(world, scope, &owned, now, &mut plan);
    claims::plan(world, scope, &mut plan.actions);
    services::plan(world, scope, &mut plan.actions);
    load_balancers::plan(world, scope, &mut plan.actions);
    // Any deleted pod can free capacity for a pending one, so all pending pods are scheduled.
    placing::plan(world, now, &mut plan.actions);
    pods::plan(world, scope, now, &mut plan);
    budgets::plan(world, scope, now, &mut plan);
    plan
}

#[cfg(test)]
mod tests;
