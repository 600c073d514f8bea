//! The state of a server that its requests, connections and background tasks share.

pub(crate) mod event_ages;
pub(crate) mod well_known;
pub(crate) mod work_queue;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use crate::admission::Admission;
use crate::allocation::Allocation;
use crate::authentication::Authenticator;
use crate::authorization::index::Index;
use crate::connect::Connect;
use crate::in_flight::{InFlight, Limits};
use crate::metrics::Metrics;
use crate::registry::{Registry, custom_resource_definition};
use crate::resource::Resource;
use crate::store::{Change, Store, TableName};
use crate::table_names::DEFINITIONS;
use crate::webhook_registry::Webhooks;
use event_ages::EventAges;
use work_queue::{Work, WorkQueue};

/// The shared state of a server.
pub(crate) struct Shared {
    pub(crate) store: Store,
    pub(crate) registry: Registry,
    pub(crate) admission: Vec<Arc<dyn Admission>>,
    pub(crate) connects: Vec<Arc<dyn Connect>>,
    pub(crate) authenticator: Authenticator,
    /// The index of RBAC roles and bindings.
    pub(crate) access: Arc<Index>,
    /// The node ports and cluster IPs of Services.
    pub(crate) allocation: Arc<Allocation>,
    pub(crate) webhooks: Arc<Webhooks>,
    pub(crate) event_ages: Arc<EventAges>,
    pub(crate) in_flight: InFlight,
    pub(crate) metrics: Metrics,
    pub(crate) work: Arc<WorkQueue>,
    pub(crate) stopping: CancellationToken,
    /// The address at which clients on this machine reach the server.
    pub(crate) advertised: SocketAddr,
    /// Locked while a write in a namespace with quotas is checked and stored, so that no other write changes the usage
    /// meanwhile.
    pub(crate) quota_lock: Mutex<()>,
    /// Locked while a write is charged to accounts and stored. It is locked after `quota_lock`.
    pub(crate) accounts_lock: Mutex<()>,
    /// The compiled resources of each CustomResourceDefinition, by its name.
    definitions: Mutex<HashMap<Arc<str>, CompiledDefinition>>,
}

/// The in-process hooks of the embedding program.
pub(crate) struct Hooks {
    pub(crate) admission: Vec<Arc<dyn Admission>>,
    pub(crate) connects: Vec<Arc<dyn Connect>>,
}

/// The indexes that observe every change of the store.
#[derive(Debug, Default, Clone)]
pub(crate) struct StoreObservers {
    work: Arc<WorkQueue>,
    access: Arc<Index>,
    allocation: Arc<Allocation>,
    event_ages: Arc<EventAges>,
    webhooks: Arc<Webhooks>,
}

impl StoreObservers {
    /// Updates all indexes after a change. The caller has locked the store.
    pub(crate) fn observe(&self, table: &TableName, change: &Change) {
        self.work.observe(table, change);
        self.access.observe(table, change);
        self.allocation.observe(table, change);
        self.event_ages.observe(table, change);
        self.webhooks.observe(table, change);
    }

    /// Loads the objects of a store into the indexes, and queues the background work that the previous process did not
    /// finish.
    pub(crate) fn load(&self, store: &Store) {
        self.access.load(store);
        self.allocation.load(store);
        self.event_ages.load(store);
        self.webhooks.load(store);
        for (table, object) in store.all_objects() {
            self.work.observe(&table, &Change::Added(object));
        }
    }
}

/// The resources of one stored version of a CustomResourceDefinition.
struct CompiledDefinition {
    version: u64,
    resources: Vec<Arc<Resource>>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

impl Shared {
    pub(crate) fn new(
        store: Store,
        hooks: Hooks,
        observers: StoreObservers,
        authenticator: Authenticator,
        limits: Limits,
        stopping: CancellationToken,
        advertised: SocketAddr,
    ) -> Self {
        let Hooks {
            admission,
            connects,
        } = hooks;
        let shared = Self {
            store,
            registry: Registry::new(
                connects
                    .iter()
                    .map(|handler| handler.subresource())
                    .collect(),
            ),
            admission,
            connects,
            authenticator,
            access: observers.access,
            allocation: observers.allocation,
            webhooks: observers.webhooks,
            event_ages: observers.event_ages,
            in_flight: InFlight::new(limits),
            metrics: Metrics::default(),
            work: observers.work,
            stopping,
            advertised,
            quota_lock: Mutex::default(),
            accounts_lock: Mutex::default(),
            definitions: Mutex::default(),
        };
        shared.refresh_definitions();
        shared
    }

    /// Serves the custom resources of the stored CustomResourceDefinitions.
    pub(crate) fn refresh_definitions(&self) {
        // The lock is held while the definitions are read and the resources are installed. Otherwise, a refresh with
        // older definitions could replace the resources of a newer refresh.
        let mut known = self.definitions.lock();
        let mut next = HashMap::new();
        for stored in self.store.list(DEFINITIONS, None).items {
            let compiled = match known.remove(&stored.key.name) {
                Some(definition) if definition.version == stored.version => definition,
                _ => CompiledDefinition {
                    version: stored.version,
                    resources: custom_resource_definition::served(&stored.value(), stored.version),
                },
            };
            next.insert(stored.key.name.clone(), compiled);
        }
        self.registry.install(
            next.values()
                .flat_map(|d| d.resources.iter().cloned())
                .collect(),
        );
        *known = next;
    }

    /// Records failed work for a later retry if a webhook may have caused the failure.
    pub(crate) fn retry_later(&self, work: Work) {
        if !self.webhooks.is_empty() {
            self.work.fail(work);
        }
    }

    /// Queues the background work of all objects again. Called after changes of the store were undone.
    pub(crate) fn requeue_all(&self) {
        for (table, object) in self.store.all_objects() {
            self.work.observe(&table, &Change::Added(object));
        }
    }

    /// Applies the effects of a write to `table`. Each write must call this function.
    pub(crate) fn after_write(&self, table: &str) {
        if table == DEFINITIONS {
            self.refresh_definitions();
        }
    }
}
