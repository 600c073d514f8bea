//! The station between the decision and the members: suspensions, evictions and moves.

use berth_api::Binding;

use crate::finding::{Finding, Reason, Station};
use crate::health::Health;
use crate::migration::{Migration, MigrationState};

/// The next action for a suspended workload.
const RESUME: &str = "remove spec.suspension from the policy to go on";

/// Returns what holds a placed binding back, or moves it.
pub(crate) fn findings(binding: &Binding) -> Vec<Finding> {
    let mut found: Vec<Finding> = suspension(binding).into_iter().collect();
    if let Some(migration) = Migration::of(binding)
        && let Some(state) = migration.state()
    {
        let since = migration.since().map(|time| time.0);
        found.push(moving(&migration, state).since(since));
    }
    found
}

/// Returns the suspension of the dispatching to all or some clusters.
fn suspension(binding: &Binding) -> Option<Finding> {
    let suspension = binding.spec.suspension.as_ref()?;
    let some = suspension.dispatching_on_clusters.as_ref();
    let some = some.map_or(&[][..], |of| &of.cluster_names[..]);
    let clusters = match (suspension.dispatching, some) {
        (Some(true), _) => "all clusters".to_owned(),
        (_, []) => return None,
        (_, some) => some.join(", "),
    };
    let message = format!("dispatching to {clusters} is suspended");
    let found = new(Health::Waiting, Reason::DispatchingSuspended, message);
    Some(found.with_fix(RESUME))
}

/// Returns the finding about a copy that is not applied because of a suspension.
pub(crate) fn suspended_copy(cluster: &str) -> Finding {
    let message = format!("it is not applied in {cluster}, because dispatching is suspended");
    let reason = Reason::DispatchingSuspended;
    Finding::new(Station::Apply, Health::Waiting, reason, message)
        .in_cluster(cluster)
        .with_fix(RESUME)
}

/// Reports whether the dispatching to a cluster is suspended.
pub(crate) fn is_suspended(binding: &Binding, cluster: &str) -> bool {
    binding.spec.suspension.as_ref().is_some_and(|suspension| {
        let some = suspension.dispatching_on_clusters.as_ref();
        let names = some.map_or(&[][..], |of| &of.cluster_names[..]);
        suspension.dispatching == Some(true) || names.iter().any(|name| name == cluster)
    })
}

fn moving(migration: &Migration, state: MigrationState) -> Finding {
    let reason = match &migration.condition {
        Some(_) => Reason::Migrating,
        None => Reason::Evicting,
    };
    let message = migration.message();
    match state {
        MigrationState::LastCopy => {
            let fix = "make room for it elsewhere: add a cluster that fits, or relax its placement";
            new(
                Health::Degraded,
                reason,
                format!("the last healthy copy stays where it should leave: {message}"),
            )
            .with_fix(fix)
        }
        MigrationState::Moving => new(Health::Waiting, reason, format!("it moves: {message}")),
        MigrationState::Preempted => new(
            Health::Waiting,
            reason,
            format!("it makes room for a binding of higher priority: {message}"),
        ),
    }
}

fn new(health: Health, reason: Reason, message: impl Into<String>) -> Finding {
    Finding::new(Station::Dispatch, health, reason, message)
}
