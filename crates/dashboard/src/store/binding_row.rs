//! The row of a binding in the store.

use berth_api::well_known::CONDITION_FULLY_APPLIED;
use berth_api::{Binding, condition};
use berth_explain::{Migration, MigrationState};
use jiff::Timestamp;

/// The clusters of a binding with their replicas, sorted by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Targets(Box<[(Box<str>, i32)]>);

impl Targets {
    pub(crate) fn new<'a>(targets: impl Iterator<Item = (&'a str, i32)>) -> Self {
        let mut targets: Vec<(Box<str>, i32)> = targets
            .map(|(name, replicas)| (name.into(), replicas))
            .collect();
        targets.sort_unstable();
        Self(targets.into())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, i32)> {
        self.0.iter().map(|(name, replicas)| (&**name, *replicas))
    }

    pub(crate) fn get(&self, cluster: &str) -> Option<i32> {
        let found = self.0.binary_search_by(|(name, _)| (**name).cmp(cluster));
        found
            .ok()
            .and_then(|index| self.0.get(index))
            .map(|of| of.1)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The result of scheduling, from the condition Scheduled of the binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scheduling {
    Scheduled,
    Unschedulable,
    /// The binding has no condition Scheduled yet.
    Waiting,
}

/// The result of propagation, from the condition FullyApplied of the binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Applied {
    Yes,
    No,
    Unknown,
}

/// The step of propagation that the binding suspends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Suspension {
    None,
    Scheduling,
    Dispatching,
}

/// The fields of a binding that the pages show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BindingRow {
    pub(crate) kind: Box<str>,
    /// The name of the workload.
    pub(crate) resource: Box<str>,
    pub(crate) replicas: i32,
    pub(crate) targets: Targets,
    pub(crate) scheduling: Scheduling,
    pub(crate) applied: Applied,
    pub(crate) suspension: Suspension,
    /// The unfinished moves. Boxed, because most bindings have none.
    pub(crate) migration: Option<Box<Migration>>,
    pub(crate) policy: Option<Box<str>>,
    pub(crate) reason: Box<str>,
    pub(crate) message: Box<str>,
    pub(crate) created: Option<Timestamp>,
}

impl BindingRow {
    pub(crate) fn of(binding: &Binding) -> Self {
        let (spec, status) = (&binding.spec, &binding.status);
        let scheduled = condition::scheduled(&status.conditions);
        let fully = condition::find(&status.conditions, CONDITION_FULLY_APPLIED);
        let scheduling = match scheduled.map(|of| of.status.as_str()) {
            Some("True") => Scheduling::Scheduled,
            Some(_) => Scheduling::Unschedulable,
            None => Scheduling::Waiting,
        };
        let applied = match fully.map(|of| of.status.as_str()) {
            Some("True") => Applied::Yes,
            Some(_) => Applied::No,
            None => Applied::Unknown,
        };
        let deciding = match (scheduling, applied) {
            (Scheduling::Scheduled, Applied::No) => fully,
            _ => scheduled,
        };
        let failure = status
            .aggregated_status
            .iter()
            .find_map(|item| item.applied_message.as_deref().filter(|it| !it.is_empty()));
        let message = deciding.map_or("", |of| of.message.as_str());
        let message = match (applied, failure) {
            (Applied::No, Some(failure)) if scheduling == Scheduling::Scheduled => failure,
            _ => message,
        };
        let suspension = match &spec.suspension {
            Some(of) if of.scheduling == Some(true) => Suspension::Scheduling,
            Some(of) if of.dispatching == Some(true) || of.dispatching_on_clusters.is_some() => {
                Suspension::Dispatching
            }
            _ => Suspension::None,
        };
        let targets = spec.clusters.iter();
        Self {
            kind: spec.resource.kind.as_str().into(),
            resource: spec.resource.name.as_str().into(),
            replicas: spec.replicas,
            targets: Targets::new(targets.map(|of| (of.name.as_str(), of.replicas))),
            scheduling,
            applied,
            suspension,
            migration: Migration::of(binding).map(Box::new),
            policy: binding.policy().map(Into::into),
            reason: deciding.map_or("", |of| of.reason.as_str()).into(),
            message: message.into(),
            created: binding
                .metadata
                .creation_timestamp
                .as_ref()
                .map(|time| time.0),
        }
    }

    /// Returns the state of the migration, or `None` if nothing moves.
    pub(crate) fn migration_state(&self) -> Option<MigrationState> {
        self.migration.as_ref()?.state()
    }

    /// Returns the kind and the name of the workload.
    pub(crate) fn workload(&self) -> String {
        format!("{} {}", self.kind, self.resource)
    }
}
