//! The task that watches clusters and bindings, and updates the store.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::Arc;

use berth_api::{
    Binding, BindingKey, BindingKind, Cluster, ClusterResourceBinding, ResourceBinding,
};
use berth_component_base::list_watch;
use berth_engine::Fleet;
use futures::StreamExt as _;
use jiff::Timestamp;
use kube::api::Api;
use kube::runtime::watcher::Event;
use kube::{Client, ResourceExt as _};
use parking_lot::{Mutex, RwLock};
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{BindingRow, ClusterRow, Store};

/// The state that the task updates and the requests read: the store, its version, and the fleet for decisions.
#[derive(Clone, Debug)]
pub(crate) struct SharedState {
    pub(crate) store: Arc<RwLock<Store>>,
    /// The clusters as the scheduling engine needs them, with their Cluster objects.
    fleet: Arc<Mutex<Fleet>>,
    /// A number that grows with each change of the store. The objects of a list together count as one change.
    pub(crate) version: Arc<watch::Sender<u64>>,
}

impl Default for SharedState {
    fn default() -> Self {
        Self {
            store: Arc::default(),
            fleet: Arc::new(Mutex::new(Fleet::new().keeping_objects())),
            version: Arc::new(watch::Sender::new(0)),
        }
    }
}

impl SharedState {
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
pub(crate) async fn run_watches(client: Client, shared: SharedState, cancel: CancellationToken) {
    let clusters = events(Api::<Cluster>::all(client.clone()));
    let namespaced = events(Api::<ResourceBinding>::all(client.clone()));
    let cluster_scoped = events(Api::<ClusterResourceBinding>::all(client));
    tokio::pin!(clusters, namespaced, cluster_scoped);
    let mut watches = Watches::new(shared);
    loop {
        tokio::select! {
            () = cancel.cancelled() => return,
            Some(event) = clusters.next() => watches.on_cluster(event),
            Some(event) = namespaced.next() => watches.on_namespaced_binding(event),
            Some(event) = cluster_scoped.next() => watches.on_cluster_scoped_binding(event),
        }
    }
}

/// The states of the three watches.
struct Watches {
    shared: SharedState,
    clusters: ClusterWatch,
    namespaced: BindingWatch,
    cluster_scoped: BindingWatch,
}

impl Watches {
    fn new(shared: SharedState) -> Self {
        Self {
            shared,
            clusters: ClusterWatch::default(),
            namespaced: BindingWatch::new(BindingKind::Namespaced),
            cluster_scoped: BindingWatch::new(BindingKind::Cluster),
        }
    }

    fn on_cluster(&mut self, event: Event<Cluster>) {
        self.clusters.on_event(&self.shared, event);
        self.update_has_synced();
    }

    fn on_namespaced_binding(&mut self, event: Event<ResourceBinding>) {
        self.namespaced.on_event(&self.shared, event);
        self.update_has_synced();
    }

    fn on_cluster_scoped_binding(&mut self, event: Event<ClusterResourceBinding>) {
        self.cluster_scoped.on_event(&self.shared, event);
        self.update_has_synced();
    }

    /// Sets [`Store::has_synced`] after the first list of each kind is complete.
    fn update_has_synced(&self) {
        let has_synced = self.clusters.has_synced
            && self.namespaced.has_synced
            && self.cluster_scoped.has_synced;
        if has_synced && !self.shared.store.read().has_synced {
            self.shared.change(|store| store.has_synced = true);
        }
    }
}

fn events<K>(api: Api<K>) -> impl futures::Stream<Item = Event<K>>
where
    K: kube::Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    list_watch::events(api, list_watch::Config::default())
        .filter_map(async |event| event.ok())
        .boxed()
}

/// The state of the watch of clusters.
#[derive(Default)]
struct ClusterWatch {
    /// Names of the clusters in the current list.
    listed: BTreeSet<String>,
    /// True after the first list is complete.
    has_synced: bool,
}

impl ClusterWatch {
    fn on_event(&mut self, shared: &SharedState, event: Event<Cluster>) {
        match event {
            Event::Init => self.listed.clear(),
            Event::InitApply(cluster) => {
                self.listed.insert(cluster.name_any());
                shared.fleet.lock().apply(&cluster);
                let row = ClusterRow::new(&cluster);
                shared
                    .store
                    .write()
                    .clusters
                    .insert(cluster.name_any(), row);
            }
            Event::InitDone => {
                let listed = std::mem::take(&mut self.listed);
                self.has_synced = true;
                shared.change(|store| {
                    store.clusters.retain(|name, _| {
                        let is_listed = listed.contains(name);
                        if !is_listed {
                            shared.fleet.lock().remove(name);
                        }
                        is_listed
                    });
                });
            }
            Event::Apply(cluster) => {
                shared.fleet.lock().apply(&cluster);
                let (name, row) = (cluster.name_any(), ClusterRow::new(&cluster));
                let is_unchanged = shared.store.read().clusters.get(&name) == Some(&row);
                if !is_unchanged {
                    shared.change(|store| {
                        store.clusters.insert(name, row);
                    });
                }
            }
            Event::Delete(cluster) => {
                shared.fleet.lock().remove(&cluster.name_any());
                shared.change(|store| {
                    store.clusters.remove(&cluster.name_any());
                });
            }
        }
    }
}

/// The state of the watch of ResourceBindings or of ClusterResourceBindings.
struct BindingWatch {
    kind: BindingKind,
    /// Names of the bindings in the current list.
    listed: BTreeSet<BindingKey>,
    /// True after the first list is complete. The first list records no moves.
    has_synced: bool,
}

impl BindingWatch {
    const fn new(kind: BindingKind) -> Self {
        Self {
            kind,
            listed: BTreeSet::new(),
            has_synced: false,
        }
    }

    fn on_event<K: kube::Resource>(&mut self, shared: &SharedState, event: Event<K>)
    where
        Binding: From<K>,
    {
        let now = Timestamp::now();
        match event {
            Event::Init => self.listed.clear(),
            Event::InitApply(object) => {
                let binding = Binding::from(object);
                let row = BindingRow::of(&binding);
                let name = binding.key;
                self.listed.insert(name.clone());
                let moved_at = self.has_synced.then_some(now);
                shared.store.write().apply_binding(name, row, moved_at);
            }
            Event::InitDone => {
                let listed = std::mem::take(&mut self.listed);
                self.has_synced = true;
                shared.change(|store| store.retain_bindings(self.kind, &listed, now));
            }
            Event::Apply(object) => {
                let binding = Binding::from(object);
                let row = BindingRow::of(&binding);
                let name = binding.key;
                let is_unchanged = shared.store.read().bindings.get(&name) == Some(&row);
                if !is_unchanged {
                    shared.change(|store| store.apply_binding(name, row, Some(now)));
                }
            }
            Event::Delete(object) => {
                shared.change(|store| store.remove_binding(&BindingKey::of(object.meta()), now));
            }
        }
    }
}

#[cfg(test)]
mod tests;
