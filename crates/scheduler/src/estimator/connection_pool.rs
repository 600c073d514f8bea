//! The connections to all estimators of the fleet.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use berth_api::Cluster;
use berth_api::cluster::SyncMode;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::connection::{Connection, ConnectionState, Connector};
use super::options::EstimatorOptions;
use super::resolve::Resolver;
use berth_component_base::kube_client::RateLimit;

/// The number of connections in each state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectionCounts {
    /// Number of open connections.
    pub up: usize,
    /// Number of connections that broke or could not be opened. The pool tries again after a backoff.
    pub down: usize,
    /// Number of connections whose first attempt is in progress.
    pub connecting: usize,
}

/// The connections to the estimators of the fleet. Clones are cheap.
///
/// Each connection has its own task, so no method blocks on the network. The tasks end when the token is cancelled.
#[derive(Clone)]
pub struct ConnectionPool(Arc<Shared>);

struct Shared {
    connector: Arc<Connector>,
    skip_pull_mode: bool,
    cancel: CancellationToken,
    by_cluster: Mutex<HashMap<Arc<str>, Connection>>,
}

impl std::fmt::Debug for ConnectionPool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("ConnectionPool")
            .field(&self.counts())
            .finish()
    }
}

impl ConnectionPool {
    /// Returns an empty pool. `client` looks up the Services of the estimators, and `limit` limits the rate of these
    /// lookups.
    pub fn new(
        client: kube::Client,
        limit: Arc<RateLimit>,
        options: &EstimatorOptions,
        cancel: CancellationToken,
    ) -> Self {
        let resolver = Resolver::new(client, limit, options);
        Self(Arc::new(Shared {
            connector: Arc::new(Connector::new(resolver, options.tls.clone())),
            skip_pull_mode: options.skip_pull_mode,
            cancel,
            by_cluster: Mutex::default(),
        }))
    }

    /// Starts the connection to the estimator of a new cluster. If the options skip clusters in pull mode, closes the
    /// connection of such a cluster instead.
    pub fn apply(&self, cluster: &Cluster) {
        let name = cluster.metadata.name.as_deref().unwrap_or_default();
        if self.0.skip_pull_mode && cluster.spec.sync_mode == SyncMode::Pull {
            self.remove(name);
            return;
        }
        self.with(|connections| {
            if !connections.contains_key(name) {
                let name: Arc<str> = name.into();
                let connection = Connection::start(&name, self.0.connector.clone(), &self.0.cancel);
                connections.insert(name, connection);
            }
        });
    }

    /// Removes a cluster and closes its connection.
    pub fn remove(&self, cluster: &str) {
        self.with(|connections| connections.remove(cluster));
    }

    /// Counts the connections by state.
    pub fn counts(&self) -> ConnectionCounts {
        self.with(|connections| {
            let mut counts = ConnectionCounts::default();
            for connection in connections.values() {
                match *connection.state.borrow() {
                    ConnectionState::Connecting => counts.connecting += 1,
                    ConnectionState::Up(_) => counts.up += 1,
                    ConnectionState::Down(_) => counts.down += 1,
                }
            }
            counts
        })
    }

    /// Reports whether the connection to the estimator of a cluster is open.
    pub fn is_up(&self, cluster: &str) -> bool {
        self.state(cluster)
            .is_some_and(|state| matches!(*state.borrow(), ConnectionState::Up(_)))
    }

    /// Waits until the connection to the estimator of a cluster is open. Returns false if the cluster is unknown or
    /// removed.
    pub async fn until_up(&self, cluster: &str) -> bool {
        self.until(cluster, |state| matches!(state, ConnectionState::Up(_)))
            .await
    }

    /// Waits until the connection to the estimator of a cluster is not open. Returns false if the cluster is unknown or
    /// removed.
    pub async fn until_not_up(&self, cluster: &str) -> bool {
        self.until(cluster, |state| !matches!(state, ConnectionState::Up(_)))
            .await
    }

    async fn until(&self, cluster: &str, reached: fn(&ConnectionState) -> bool) -> bool {
        match self.state(cluster) {
            Some(mut state) => state.wait_for(reached).await.is_ok(),
            None => false,
        }
    }

    pub(super) fn state(&self, cluster: &str) -> Option<watch::Receiver<ConnectionState>> {
        self.with(|connections| {
            connections
                .get(cluster)
                .map(|connection| connection.state.clone())
        })
    }

    fn with<T>(&self, change: impl FnOnce(&mut HashMap<Arc<str>, Connection>) -> T) -> T {
        let mut connections = self
            .0
            .by_cluster
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        change(&mut connections)
    }
}
