//! The station between the decision and the members: suspensions, evictions and moves.

use berth_api::Binding;

use crate::finding::{Finding, Reason, Station};
use crate::health::Health;
use crate::migration::{Migration, MigrationState};

/// Returns what holds a placed binding back, or moves it.
pub(crate) fn findings(binding: &Binding) -> Vec<Finding> {
    let mut found = Vec::new();
    if let Some(suspension) = &binding.spec.suspension {
        let some = suspension.dispatching_on_clusters.as_ref();
        let some = some.map_or(&[][..], |of| &of.cluster_names[..]);
        let message = if suspension.dispatching == Some(true) {
            Some("dispatching to all clusters is suspended".to_owned())
        } else if some.is_empty() {
            None
        } else {
            Some(format!("dispatching to {} is suspended", some.join(", ")))
        };
        let fix = "remove spec.suspension from the policy to go on";
        found.extend(message.map(|message| {
            new(Health::Waiting, Reason::DispatchingSuspended, message).with_fix(fix)
        }));
    }
    if let Some(migration) = Migration::of(binding)
        && let Some(state) = migration.state()
    {
        let since = migration.since().map(|time| time.0);
        found.push(moving(&migration, state).since(since));
    }
    found
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
