//! The task that watches clusters and bindings, and updates the store.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::Arc;

use berth_api::{Cluster, ClusterResourceBinding, ResourceBinding};
use berth_core::Fleet;
use futures::StreamExt as _;
use jiff::Timestamp;
use kube::api::Api;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Client, ResourceExt as _};
use parking_lot::{Mutex, RwLock};
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{BindingRow, ClusterRow, Store};
use crate::explainer::BindingName;

/// The state that the task updates and the requests read: the store, its version, and the fleet for decisions.
#[derive(Clone, Debug)]
pub(crate) struct Shared {
    pub(crate) store: Arc<RwLock<Store>>,
    /// The clusters as the scheduling engine needs them, with their Cluster objects.
    fleet: Arc<Mutex<Fleet>>,
    /// A number that grows with each change of the store.
    pub(crate) version: Arc<watch::Sender<u64>>,
}

impl Default for Shared {
    fn default() -> Self {
        Self {
            store: Arc::default(),
            fleet: Arc::new(Mutex::new(Fleet::new().keeping_objects())),
            version: Arc::new(watch::Sender::new(0)),
        }
    }
}

impl Shared {
    /// Returns a copy of the current fleet. The copy shares the Cluster objects.
    pub(crate) fn fleet(&self) -> Fleet {
        let mut fleet = self.fleet.lock();
        // Without this call, each copy would have to build the snapshot.
        fleet.snapshot();
        fleet.clone()
    }

    fn change(&self, change: impl FnOnce(&mut Store)) {
        change(&mut self.store.write());
        self.version.send_modify(|version| *version += 1);
    }
}

/// Watches clusters and bindings, and updates the store until the token is cancelled.
pub(crate) async fn follow(client: Client, shared: Shared, cancel: CancellationToken) {
    let clusters = events(Api::<Cluster>::all(client.clone()));
    let namespaced = events(Api::<ResourceBinding>::all(client.clone()));
    let cluster_scoped = events(Api::<ClusterResourceBinding>::all(client));
    tokio::pin!(clusters, namespaced, cluster_scoped);
    let mut listed = BTreeSet::new();
    let mut bindings = [Listing::new(true), Listing::new(false)];
    let mut lists = 0;
    let [of_namespaces, of_cluster] = &mut bindings;
    loop {
        let done = tokio::select! {
            () = cancel.cancelled() => return,
            Some(event) = clusters.next() => on_cluster(&shared, &mut listed, event),
            Some(event) = namespaced.next() => of_namespaces.on_event(&shared, event, |object| {
                BindingRow::new(&object.metadata, &object.spec, object.status.as_ref())
            }),
            Some(event) = cluster_scoped.next() => of_cluster.on_event(&shared, event, |object| {
                BindingRow::new(&object.metadata, &object.spec, object.status.as_ref())
            }),
        };
        if done {
            lists += 1;
            // The three kinds are listed at the start. A kind is listed again only after its watch broke.
            if lists == 3 {
                shared.change(|store| store.is_complete = true);
            }
        }
    }
}

fn events<K>(api: Api<K>) -> impl futures::Stream<Item = watcher::Event<K>>
where
    K: kube::Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    watcher(api, watcher::Config::default())
        .default_backoff()
        .filter_map(async |event| {
            event
                .inspect_err(|error| tracing::warn!(%error, "the watch failed; retrying"))
                .ok()
        })
        .boxed()
}

/// Handles an event of the watch of clusters. Returns true at the end of a list.
fn on_cluster(
    shared: &Shared,
    listed: &mut BTreeSet<String>,
    event: watcher::Event<Cluster>,
) -> bool {
    match event {
        watcher::Event::Init => listed.clear(),
        watcher::Event::InitApply(cluster) => {
            listed.insert(cluster.name_any());
            shared.fleet.lock().apply(&cluster);
            let row = ClusterRow::new(&cluster);
            shared
                .store
                .write()
                .clusters
                .insert(cluster.name_any(), row);
        }
        watcher::Event::InitDone => {
            shared.change(|store| {
                store.clusters.retain(|name, _| {
                    let is_listed = listed.contains(name);
                    if !is_listed {
                        shared.fleet.lock().remove(name);
                    }
                    is_listed
                });
            });
            listed.clear();
            return true;
        }
        watcher::Event::Apply(cluster) => {
            shared.fleet.lock().apply(&cluster);
            let (name, row) = (cluster.name_any(), ClusterRow::new(&cluster));
            let is_known = shared.store.read().clusters.get(&name) == Some(&row);
            if !is_known {
                shared.change(|store| {
                    store.clusters.insert(name, row);
                });
            }
        }
        watcher::Event::Delete(cluster) => {
            shared.fleet.lock().remove(&cluster.name_any());
            shared.change(|store| {
                store.clusters.remove(&cluster.name_any());
            });
        }
    }
    false
}

/// The state of the watch of ResourceBindings or of ClusterResourceBindings.
struct Listing {
    namespaced: bool,
    listed: BTreeSet<BindingName>,
    /// False until the first list is complete. The first list records no moves.
    is_known: bool,
}

impl Listing {
    const fn new(namespaced: bool) -> Self {
        Self {
            namespaced,
            listed: BTreeSet::new(),
            is_known: false,
        }
    }

    /// Handles an event of the watch. Returns true at the end of a list.
    fn on_event<K: kube::Resource>(
        &mut self,
        shared: &Shared,
        event: watcher::Event<K>,
        row: impl Fn(&K) -> BindingRow,
    ) -> bool {
        let now = Timestamp::now();
        match event {
            watcher::Event::Init => self.listed.clear(),
            watcher::Event::InitApply(object) => {
                let (name, row) = (name_of(&object), row(&object));
                self.listed.insert(name.clone());
                let moved_at = self.is_known.then_some(now);
                shared.store.write().apply_binding(name, row, moved_at);
            }
            watcher::Event::InitDone => {
                let listed = std::mem::take(&mut self.listed);
                self.is_known = true;
                shared.change(|store| store.retain_bindings(self.namespaced, &listed, now));
                return true;
            }
            watcher::Event::Apply(object) => {
                let (name, row) = (name_of(&object), row(&object));
                let is_known = shared.store.read().bindings.get(&name) == Some(&row);
                if !is_known {
                    shared.change(|store| store.apply_binding(name, row, Some(now)));
                }
            }
            watcher::Event::Delete(object) => {
                shared.change(|store| store.remove_binding(&name_of(&object), now));
            }
        }
        false
    }
}

fn name_of<K: kube::Resource>(object: &K) -> BindingName {
    BindingName {
        namespace: object.meta().namespace.clone(),
        name: object.meta().name.clone().unwrap_or_default(),
    }
}
