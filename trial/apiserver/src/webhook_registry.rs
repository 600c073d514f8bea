//! The registry of admission webhooks. It contains the parsed webhook configurations, the matching of requests, the
//! resolution of webhook addresses, and the format of AdmissionReviews.
//!
//! `verbs::pipeline::webhook_dispatch` calls the webhooks. This module must not know when webhooks are called, or how
//! their responses affect a request.

pub(crate) mod admission_review;
pub(crate) mod configuration;
pub(crate) mod matching;
pub(crate) mod resolve;
pub(crate) mod rule;

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::RwLock;

use crate::store::{Change, Store, TableName};
use crate::table_names::{MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS};
use configuration::Webhook;

/// The API group of webhook configurations.
pub(crate) const GROUP: &str = "admissionregistration.k8s.io";

/// Reports whether a table contains webhook configurations.
pub(crate) fn is_configuration(table: &str) -> bool {
    table == MUTATING_WEBHOOKS || table == VALIDATING_WEBHOOKS
}

/// The admission phase of a webhook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    Mutating,
    Validating,
}

/// The webhooks of each configuration, keyed by the name of the configuration.
type Configurations = BTreeMap<Box<str>, Vec<Arc<Webhook>>>;

#[derive(Debug, Default, Clone)]
struct Registered {
    mutating: Configurations,
    validating: Configurations,
}

/// All registered webhooks. Each change of a stored configuration updates them.
#[derive(Debug, Default)]
pub(crate) struct Webhooks {
    registered: RwLock<Arc<Registered>>,
}

impl Webhooks {
    /// Loads all webhook configurations from the store.
    pub(crate) fn load(&self, store: &Store) {
        for table in [MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS] {
            let table = TableName::from(table);
            for object in store.list(&table, None).items {
                self.observe(&table, &Change::Added(object));
            }
        }
    }

    /// Updates the registered webhooks after a change in the store. The store is locked during the call.
    pub(crate) fn observe(&self, table: &str, change: &Change) {
        let phase = match table {
            MUTATING_WEBHOOKS => Phase::Mutating,
            VALIDATING_WEBHOOKS => Phase::Validating,
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

    /// Reports whether the store contains no webhook configurations.
    pub(crate) fn is_empty(&self) -> bool {
        let registered = self.registered.read();
        registered.mutating.is_empty() && registered.validating.is_empty()
    }

    /// Calls `keep` for each webhook of a phase, in the order of configuration names. Returns the results that are not
    /// `None`.
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
