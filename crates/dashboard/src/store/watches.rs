//! The task that watches clusters and bindings, and updates the store.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use berth_api::{
    Binding, BindingKey, BindingKind, Cluster, ClusterResourceBinding, ResourceBinding,
};
use berth_component_base::list_watch::{self, Connection};
use berth_engine::Fleet;
use futures::StreamExt as _;
use futures::stream::BoxStream;
use jiff::{SignedDuration, Timestamp};
use kube::api::Api;
use kube::runtime::watcher::Event;
use kube::{Client, ResourceExt as _};
use parking_lot::{Mutex, RwLock};
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use super::{ClusterRow, Store};

/// Interval of the search for rows that are outdated. Changes of many clusters within this time cause one search.
const TICK: Duration = Duration::from_millis(250);
/// Maximum time for which the diagnosis of outdated rows keeps requests from the store.
const SLICE: Duration = Duration::from_millis(20);
/// Time between two announcements of an outage.
const AGE_INTERVAL: SignedDuration = SignedDuration::from_secs(10);
/// Maximum pause between two requests after failures.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

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

    /// Returns a cluster object.
    pub(crate) fn cluster(&self, name: &str) -> Option<Arc<Cluster>> {
        let snapshot = self.fleet.lock().snapshot();
        snapshot.cluster(snapshot.ordinal(name)?)?.object().cloned()
    }

    fn change(&self, change: impl FnOnce(&mut Store)) {
        change(&mut self.store.write());
        self.announce();
    }

    /// Notifies open pages of a change.
    fn announce(&self) {
        self.version.send_modify(|version| *version += 1);
    }
}

/// Watches clusters and bindings, and updates the store until the token is cancelled.
pub(crate) async fn run_watches(client: Client, shared: SharedState, cancel: CancellationToken) {
    let (clusters, mut cluster_state) = events(Api::<Cluster>::all(client.clone()));
    let (namespaced, mut namespaced_state) = events(Api::<ResourceBinding>::all(client.clone()));
    let (cluster_scoped, mut cluster_scoped_state) =
        events(Api::<ClusterResourceBinding>::all(client));
    tokio::pin!(clusters, namespaced, cluster_scoped);
    let mut watches = Watches::new(shared);
    let mut ticks = tokio::time::interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = cancel.cancelled() => return,
            _ = ticks.tick() => {
                if watches.on_tick(Timestamp::now()) {
                    ticks.reset_immediately();
                }
            }
            Some(event) = clusters.next() => watches.on_cluster(event),
            Some(event) = namespaced.next() => watches.on_namespaced_binding(event),
            Some(event) = cluster_scoped.next() => watches.on_cluster_scoped_binding(event),
            Ok(()) = cluster_state.changed() => watches.note(0, &cluster_state.borrow_and_update()),
            Ok(()) = namespaced_state.changed() => watches.note(1, &namespaced_state.borrow_and_update()),
            Ok(()) = cluster_scoped_state.changed() => {
                watches.note(2, &cluster_scoped_state.borrow_and_update());
            }
        }
    }
}

/// The states of the three watches.
struct Watches {
    shared: SharedState,
    clusters: ClusterWatch,
    namespaced: BindingWatch,
    cluster_scoped: BindingWatch,
    /// The last time at which an outage was announced.
    announced: Option<Timestamp>,
    /// Maximum time for the diagnosis of outdated rows, per tick.
    slice: Duration,
}

impl Watches {
    fn new(shared: SharedState) -> Self {
        Self {
            shared,
            clusters: ClusterWatch::default(),
            namespaced: BindingWatch::new(BindingKind::Namespaced),
            cluster_scoped: BindingWatch::new(BindingKind::Cluster),
            announced: None,
            slice: SLICE,
        }
    }

    fn on_cluster(&mut self, event: Event<Cluster>) {
        self.clusters.on_event(&self.shared, event);
    }

    fn on_namespaced_binding(&mut self, event: Event<ResourceBinding>) {
        self.namespaced.on_event(&self.shared, event);
    }

    fn on_cluster_scoped_binding(&mut self, event: Event<ClusterResourceBinding>) {
        self.cluster_scoped.on_event(&self.shared, event);
    }

    fn note(&self, index: usize, connection: &Connection) {
        let now = Timestamp::now();
        let is_new = self
            .shared
            .store
            .write()
            .connections
            .note(index, connection, now);
        if is_new {
            self.shared.announce();
        }
    }

    /// Diagnoses a part of the bindings whose row is outdated, and reports whether some remain. During an outage, announces
    /// a change from time to time, so that open pages show the age of the data.
    fn on_tick(&mut self, now: Timestamp) -> bool {
        let is_due = self.announced.is_none_or(|at| now >= at + AGE_INTERVAL);
        if is_due && self.shared.store.read().outage().is_some() {
            self.announced = Some(now);
            self.shared.announce();
        }
        // Until all clusters are listed, most rows would soon be outdated again.
        self.has_listed() && self.diagnose_again(now)
    }

    /// Reports whether the first list of each kind is complete.
    const fn has_listed(&self) -> bool {
        self.clusters.has_listed && self.namespaced.has_listed && self.cluster_scoped.has_listed
    }

    /// Diagnoses a part of the bindings whose row is outdated, and reports whether some remain. Sets
    /// [`Store::has_synced`] when none remains.
    fn diagnose_again(&self, now: Timestamp) -> bool {
        let store = self.shared.store.read();
        if store.has_synced && !store.is_outdated(now) {
            return false;
        }
        drop(store);
        let mut remains = false;
        self.shared.change(|store| {
            store.synced_at.get_or_insert(now);
            remains = store.diagnose_again(now, self.slice);
            store.has_synced |= !remains;
        });
        remains
    }
}

/// Returns the events of a watch, and the state of its connection.
fn events<K>(
    api: Api<K>,
) -> (
    BoxStream<'static, Event<K>>,
    watch::Receiver<list_watch::Connection>,
)
where
    K: kube::Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let (reports, state) = list_watch::Reports::channel();
    let config = list_watch::Config {
        reports,
        // An open page is to show soon that the control plane is back.
        longest_pause: LONGEST_PAUSE,
        ..list_watch::Config::default()
    };
    let events = list_watch::events(api, config).filter_map(async |event| event.ok());
    (events.boxed(), state)
}

/// The state of the watch of clusters.
#[derive(Default)]
struct ClusterWatch {
    /// Names of the clusters in the current list.
    listed: BTreeSet<String>,
    /// True after the first list is complete.
    has_listed: bool,
}

impl ClusterWatch {
    fn on_event(&mut self, shared: &SharedState, event: Event<Cluster>) {
        match event {
            Event::Init => self.listed.clear(),
            Event::InitApply(cluster) => {
                self.listed.insert(cluster.name_any());
                shared.fleet.lock().apply(&cluster);
                let row = ClusterRow::new(&cluster);
                shared.store.write().apply_cluster(cluster.name_any(), row);
            }
            Event::InitDone => {
                let listed = std::mem::take(&mut self.listed);
                self.has_listed = true;
                shared.change(|store| {
                    let deleted = store.clusters.keys().filter(|name| !listed.contains(*name));
                    for name in deleted.cloned().collect::<Vec<_>>() {
                        shared.fleet.lock().remove(&name);
                        store.remove_cluster(&name);
                    }
                });
            }
            Event::Apply(cluster) => {
                shared.fleet.lock().apply(&cluster);
                let (name, row) = (cluster.name_any(), ClusterRow::new(&cluster));
                let is_unchanged = shared.store.read().clusters.get(&name) == Some(&row);
                if !is_unchanged {
                    shared.change(|store| store.apply_cluster(name, row));
                }
            }
            Event::Delete(cluster) => {
                shared.fleet.lock().remove(&cluster.name_any());
                shared.change(|store| store.remove_cluster(&cluster.name_any()));
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
    has_listed: bool,
}

impl BindingWatch {
    const fn new(kind: BindingKind) -> Self {
        Self {
            kind,
            listed: BTreeSet::new(),
            has_listed: false,
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
                self.listed.insert(binding.key.clone());
                let moved_at = self.has_listed.then_some(now);
                shared.store.write().apply_binding(binding, moved_at, now);
            }
            Event::InitDone => {
                let listed = std::mem::take(&mut self.listed);
                self.has_listed = true;
                shared.change(|store| store.retain_bindings(self.kind, &listed, now));
            }
            Event::Apply(object) => {
                let binding = Binding::from(object);
                let mut store = shared.store.write();
                if store.apply_binding(binding, Some(now), now) {
                    drop(store);
                    shared.announce();
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
