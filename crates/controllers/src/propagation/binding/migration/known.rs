//! The migration of a binding, as far as this process knows it.

use berth_api::condition;
use berth_api::well_known::CONDITION_MIGRATING;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::observed::{Migration, Wait};

/// The migration of a binding, as the last sync has found it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum KnownMigration {
    /// No sync has observed the binding since the start of the process.
    #[default]
    Unknown,
    /// Each cluster has the replicas that the scheduler decided.
    None,
    /// Old copies wait.
    Waits(Wait),
}

impl KnownMigration {
    /// Returns what a sync has observed.
    pub(crate) fn of(migration: &Migration) -> Self {
        migration.wait.clone().map_or(Self::None, Self::Waits)
    }

    /// Returns the reason for which old copies wait.
    pub(crate) fn wait(&self) -> Option<&Wait> {
        match self {
            Self::Waits(wait) => Some(wait),
            Self::Unknown | Self::None => None,
        }
    }

    /// Reports whether the conditions of a binding differ from the migration, because another client has written them.
    pub(crate) fn differs_from(&self, conditions: &[Condition]) -> bool {
        let is_shown = condition::find(conditions, CONDITION_MIGRATING).is_some();
        match self {
            Self::Unknown => false,
            Self::None => is_shown,
            Self::Waits(_) => !is_shown,
        }
    }
}
