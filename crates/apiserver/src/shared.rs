//! What all requests of one server share.

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
use crate::http::load::Load;
use crate::metrics::Metrics;
use crate::registry::{Registry, Resource, custom};
use crate::store::{Change, Store, TableName};
use crate::tasks::events::LastWrites;
use crate::tasks::queue::{Work, WorkQueue};
use crate::webhooks::{Turns, Webhooks};

pub(crate) use crate::identity::Identity;

/// The table of CustomResourceDefinitions.
pub(crate) const CRDS: &str = "customresourcedefinitions.apiextensions.k8s.io";

pub(crate) struct Shared {
    pub(crate) store: Store,
    pub(crate) registry: Registry,
    pub(crate) admission: Vec<Arc<dyn Admission>>,
    pub(crate) connects: Vec<Arc<dyn Connect>>,
    pub(crate) authenticator: Authenticator,
    /// Who may do what.
    pub(crate) access: Arc<Index>,
    /// What services have.
    pub(crate) allocation: Arc<Allocation>,
    /// Which admission webhooks there are.
    pub(crate) webhooks: Arc<Webhooks>,
    /// Requests that wait for them.
    pub(crate) webhook_turns: Turns,
    /// When events were written.
    pub(crate) last_writes: Arc<LastWrites>,
    /// How much is going on, and how much may.
    pub(crate) load: Load,
    pub(crate) metrics: Metrics,
    pub(crate) work: Arc<WorkQueue>,
    pub(crate) stopping: CancellationToken,
    /// Where clients on this machine reach the server.
    pub(crate) advertised: SocketAddr,
    /// Held by whoever creates something in a namespace with quotas.
    pub(crate) quotas: Mutex<()>,
    /// The compiled resources of each CRD by name.
    definitions: Mutex<HashMap<Arc<str>, Definition>>,
}

/// The parts of the program around the server that it calls.
pub(crate) struct Hooks {
    pub(crate) admission: Vec<Arc<dyn Admission>>,
    pub(crate) connects: Vec<Arc<dyn Connect>>,
}

/// What is kept in step with the store, write by write.
#[derive(Debug, Default, Clone)]
pub(crate) struct Followers {
    work: Arc<WorkQueue>,
    access: Arc<Index>,
    allocation: Arc<Allocation>,
    last_writes: Arc<LastWrites>,
    webhooks: Arc<Webhooks>,
}

impl Followers {
    /// Notes a change. Called with the store locked.
    pub(crate) fn observe(&self, table: &TableName, change: &Change) {
        self.work.observe(table, change);
        self.access.observe(table, change);
        self.allocation.observe(table, change);
        self.last_writes.observe(table, change);
        self.webhooks.observe(table, change);
    }

    /// Takes in what a store held before it told of changes. What was under way when the last process ended goes on.
    pub(crate) fn load(&self, store: &Store) {
        self.access.load(store);
        self.allocation.load(store);
        self.last_writes.load(store);
        self.webhooks.load(store);
        for (table, object) in store.everything() {
            self.work.observe(&table, &Change::Added(object));
        }
    }
}

/// What a version of a CRD was compiled to.
struct Definition {
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
        followers: Followers,
        authenticator: Authenticator,
        load: Load,
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
            access: followers.access,
            allocation: followers.allocation,
            webhooks: followers.webhooks,
            webhook_turns: Turns::new(load.limits.requests),
            last_writes: followers.last_writes,
            load,
            metrics: Metrics::default(),
            work: followers.work,
            stopping,
            advertised,
            quotas: Mutex::default(),
            definitions: Mutex::default(),
        };
        shared.refresh_crds();
        shared
    }

    /// Serves exactly the custom resources that are stored now.
    pub(crate) fn refresh_crds(&self) {
        // Held until the new resources are served: the last refresh must see the last write.
        let mut known = self.definitions.lock();
        let mut next = HashMap::new();
        for crd in self.store.list(CRDS, None).items {
            let compiled = match known.remove(&crd.key.name) {
                Some(definition) if definition.version == crd.version => definition,
                _ => Definition {
                    version: crd.version,
                    resources: custom::served(&crd.value(), crd.version),
                },
            };
            next.insert(crd.key.name.clone(), compiled);
        }
        self.registry.install(
            next.values()
                .flat_map(|d| d.resources.iter().cloned())
                .collect(),
        );
        *known = next;
    }

    /// Notes that work failed; it is tried again if a webhook may have caused that.
    pub(crate) fn failed(&self, work: Work) {
        if !self.webhooks.is_empty() {
            self.work.fail(work);
        }
    }

    /// Looks at everything again, as at the start: background work that was refused or undone goes on.
    pub(crate) fn resume(&self) {
        for (table, object) in self.store.everything() {
            self.work.observe(&table, &Change::Added(object));
        }
    }

    /// To be called after each write to `table`.
    pub(crate) fn written(&self, table: &str) {
        if table == CRDS {
            self.refresh_crds();
        }
    }
}
