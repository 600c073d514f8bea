//! What all requests of one server share.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use crate::admission::Admission;
use crate::registry::{Registry, custom};
use crate::store::Store;
use crate::tasks::queue::WorkQueue;

/// The table of CustomResourceDefinitions.
pub(crate) const CRDS: &str = "customresourcedefinitions.apiextensions.k8s.io";

/// Who makes a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) user: String,
    pub(crate) groups: Vec<String>,
}

impl Identity {
    /// The holder of the server's token, and the process itself.
    pub(crate) fn admin() -> Self {
        Self {
            user: "berth:admin".to_owned(),
            groups: vec![
                "system:masters".to_owned(),
                "system:authenticated".to_owned(),
            ],
        }
    }
}

pub(crate) struct Shared {
    pub(crate) store: Store,
    pub(crate) registry: Registry,
    pub(crate) admission: Vec<Arc<dyn Admission>>,
    pub(crate) token: String,
    pub(crate) work: Arc<WorkQueue>,
    pub(crate) stopping: CancellationToken,
    crd_refresh: Mutex<()>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

impl Shared {
    pub(crate) fn new(
        store: Store,
        admission: Vec<Arc<dyn Admission>>,
        token: String,
        work: Arc<WorkQueue>,
        stopping: CancellationToken,
    ) -> Self {
        let shared = Self {
            store,
            registry: Registry::new(),
            admission,
            token,
            work,
            stopping,
            crd_refresh: Mutex::new(()),
        };
        shared.refresh_crds();
        shared
    }

    /// Serves exactly the custom resources that are stored now.
    pub(crate) fn refresh_crds(&self) {
        let _one_at_a_time = self.crd_refresh.lock();
        let crds = self.store.list(CRDS, None);
        self.registry
            .install(custom::all(crds.items.iter().map(|o| o.value())));
    }

    /// To be called after each write to `table`.
    pub(crate) fn written(&self, table: &str) {
        if table == CRDS {
            self.refresh_crds();
        }
    }
}
