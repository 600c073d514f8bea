//! The admission webhooks that are registered, which of them a request concerns, and how one is called. In which order
//! they are called, and what becomes of their answers, is for [`crate::verbs`].

pub(crate) mod client;
pub(crate) mod configuration;
pub(crate) mod matching;
mod resolve;
pub(crate) mod review;

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::RwLock;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::store::{Change, Store, TableName};
use configuration::Webhook;

/// The group of the configurations.
pub(crate) const GROUP: &str = "admissionregistration.k8s.io";
const MUTATING: &str = "mutatingwebhookconfigurations.admissionregistration.k8s.io";
const VALIDATING: &str = "validatingwebhookconfigurations.admissionregistration.k8s.io";

/// Whether a table holds configurations of webhooks.
pub(crate) fn is_configuration(table: &str) -> bool {
    table == MUTATING || table == VALIDATING
}

/// When a webhook is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    Mutating,
    Validating,
}

/// The webhooks of each configuration, by its name.
type Configurations = BTreeMap<Box<str>, Vec<Arc<Webhook>>>;

#[derive(Debug, Default, Clone)]
struct Registered {
    mutating: Configurations,
    validating: Configurations,
}

/// All webhooks, kept in step with the stored configurations.
#[derive(Debug, Default)]
pub(crate) struct Webhooks {
    registered: RwLock<Arc<Registered>>,
}

impl Webhooks {
    /// Reads the configurations of a store.
    pub(crate) fn load(&self, store: &Store) {
        for table in [MUTATING, VALIDATING] {
            let table = TableName::from(table);
            for object in store.list(&table, None).items {
                self.observe(&table, &Change::Added(object));
            }
        }
    }

    /// Notes a change. Called with the store locked.
    pub(crate) fn observe(&self, table: &str, change: &Change) {
        let phase = match table {
            MUTATING => Phase::Mutating,
            VALIDATING => Phase::Validating,
            _ => return,
        };
        let current = change.current();
        let mut registered = self.registered.write();
        let registered = Arc::make_mut(&mut registered);
        let configurations = match phase {
            Phase::Mutating => &mut registered.mutating,
            Phase::Validating => &mut registered.validating,
        };
        let name: Box<str> = (*current.key.name).into();
        if let Change::Deleted { .. } = change {
            configurations.remove(&name);
        } else {
            let webhooks = Webhook::all(&current.value());
            configurations.insert(name, webhooks);
        }
    }

    /// Reports whether no configuration is stored.
    pub(crate) fn is_empty(&self) -> bool {
        let registered = self.registered.read();
        registered.mutating.is_empty() && registered.validating.is_empty()
    }

    /// Calls `keep` for each webhook of a phase, by the names of their configurations, and returns what it keeps.
    pub(crate) fn select<T>(
        &self,
        phase: Phase,
        keep: impl FnMut(&Arc<Webhook>) -> Option<T>,
    ) -> Vec<T> {
        let registered = self.registered.read().clone();
        let configurations = match phase {
            Phase::Mutating => &registered.mutating,
            Phase::Validating => &registered.validating,
        };
        configurations.values().flatten().filter_map(keep).collect()
    }
}

/// How many requests of clients may wait for webhooks at once: half of those that are worked on, so that webhooks which
/// call back into the server find a place.
#[derive(Debug)]
pub(crate) struct Turns(Semaphore);

impl Turns {
    pub(crate) fn new(requests: usize) -> Self {
        Self(Semaphore::new(requests.div_ceil(2)))
    }

    /// Returns a turn for as long as it is held, or none if too many requests wait already.
    pub(crate) fn take(&self) -> Option<SemaphorePermit<'_>> {
        self.0.try_acquire().ok()
    }
}
