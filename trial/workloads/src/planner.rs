//! The planner, which calls all controllers. It is a pure function of its arguments.

use std::time::Duration;

use crate::cache::Cache;
use crate::image_registry::ImageRegistry;
use crate::owned_pods::Pods;
use crate::plan::Plan;
use crate::scope::Scope;
use crate::{
    autoscalers, cron_jobs, daemon_sets, deployments, disruption_budgets, jobs, load_balancers,
    pod_scheduler, pods, replica_sets, replication_controllers, services, stateful_sets,
    volume_claims,
};

/// Delay until a controller that could not create its pods in a full cluster tries again.
const FULL_RETRY: Duration = Duration::from_secs(10);

/// Delay until a controller that could not create all its pods in a burst is planned again.
const NEXT_BURST: Duration = Duration::from_millis(100);

/// Plans the objects in `scope` with all controllers.
pub(crate) fn plan(
    cache: &Cache,
    scope: &Scope,
    images: &ImageRegistry,
    now: jiff::Timestamp,
) -> Plan {
    let mut plan = Plan::default();
    let owned = Pods::of(cache.pods.iter(), |uid| scope.has(uid));
    autoscalers::plan(cache, scope, now, &mut plan);
    deployments::plan(cache, scope, &owned, now, &mut plan);
    replica_sets::plan(cache, scope, &owned, now, &mut plan);
    replication_controllers::plan(cache, scope, &owned, now, &mut plan);
    stateful_sets::plan(cache, scope, &owned, &mut plan);
    daemon_sets::plan(cache, scope, &owned, &mut plan);
    cron_jobs::plan(cache, scope, now, &mut plan);
    jobs::plan(cache, scope, &owned, now, &mut plan);
    volume_claims::plan(cache, scope, &mut plan);
    services::plan(cache, scope, &mut plan);
    load_balancers::plan(cache, scope, &mut plan);
    // A deleted pod can free capacity for any pending pod, so the scheduler plans all pending pods.
    pod_scheduler::plan(cache, now, &mut plan);
    pods::plan(cache, scope, images, now, &mut plan);
    disruption_budgets::plan(cache, scope, now, &mut plan);
    let (refused, deferred) = owned.into_limited();
    for uid in deferred {
        plan.replan_after(uid, now, NEXT_BURST);
    }
    for owner in refused {
        let uid = owner.uid.clone().unwrap_or_default();
        plan.replan_after(uid, now, FULL_RETRY);
        plan.refused.push(owner);
    }
    plan
}

#[cfg(test)]
mod tests;
