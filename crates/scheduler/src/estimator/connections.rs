//! The connections to the estimators: one for each cluster, kept up by a task of its own.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use berth_api::Cluster;
use berth_api::cluster::SyncMode;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::link::{Link, LinkState, Maker};
use super::options::EstimatorOptions;
use super::resolve::Resolver;
use crate::rate_limit::RateLimit;

/// How many clusters have which kind of connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectionCounts {
    /// Connected.
    pub up: usize,
    /// Not connected; tried again from time to time.
    pub down: usize,
    /// Tried for the first time.
    pub trying: usize,
}

/// The connections to the estimators of the fleet. Cheap to clone.
///
/// Nothing here waits: connecting happens in tasks, which end with the token.
#[derive(Clone)]
pub struct Connections(Arc<Shared>);

struct Shared {
    maker: Arc<Maker>,
    skip_pull_mode: bool,
    cancel: CancellationToken,
    links: Mutex<HashMap<Arc<str>, Link>>,
}

impl std::fmt::Debug for Connections {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Connections").field(&self.counts()).finish()
    }
}

impl Connections {
    /// Connections that are found through this control plane, at this rate.
    pub fn new(
        client: kube::Client,
        limit: Arc<RateLimit>,
        options: &EstimatorOptions,
        cancel: CancellationToken,
    ) -> Self {
        let resolver = Resolver::new(client, limit, options);
        Self(Arc::new(Shared {
            maker: Arc::new(Maker::new(resolver, options.tls.clone())),
            skip_pull_mode: options.skip_pull_mode,
            cancel,
            links: Mutex::default(),
        }))
    }

    /// A cluster is there, new or changed: it is connected to, unless it is already, or is not to be.
    pub fn follow(&self, cluster: &Cluster) {
        let name = cluster.metadata.name.as_deref().unwrap_or_default();
        if self.0.skip_pull_mode && cluster.spec.sync_mode == SyncMode::Pull {
            self.forget(name);
            return;
        }
        self.with(|links| {
            if !links.contains_key(name) {
                let name: Arc<str> = name.into();
                let link = Link::start(&name, self.0.maker.clone(), &self.0.cancel);
                links.insert(name, link);
            }
        });
    }

    /// A cluster is gone: its connection is closed.
    pub fn forget(&self, cluster: &str) {
        self.with(|links| links.remove(cluster));
    }

    /// How many clusters have which kind of connection.
    pub fn counts(&self) -> ConnectionCounts {
        self.with(|links| {
            let mut counts = ConnectionCounts::default();
            for link in links.values() {
                match *link.state.borrow() {
                    LinkState::Trying => counts.trying += 1,
                    LinkState::Up(_) => counts.up += 1,
                    LinkState::Down(_) => counts.down += 1,
                }
            }
            counts
        })
    }

    /// Whether a cluster is connected now.
    pub fn is_up(&self, cluster: &str) -> bool {
        self.state(cluster)
            .is_some_and(|state| matches!(*state.borrow(), LinkState::Up(_)))
    }

    /// Waits until a cluster is connected, or is not; says whether it is followed.
    pub async fn until(&self, cluster: &str, up: bool) -> bool {
        match self.state(cluster) {
            Some(mut state) => state
                .wait_for(|state| matches!(state, LinkState::Up(_)) == up)
                .await
                .is_ok(),
            None => false,
        }
    }

    pub(super) fn state(&self, cluster: &str) -> Option<watch::Receiver<LinkState>> {
        self.with(|links| links.get(cluster).map(|link| link.state.clone()))
    }

    fn with<T>(&self, change: impl FnOnce(&mut HashMap<Arc<str>, Link>) -> T) -> T {
        change(&mut self.0.links.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
