//! The watches of `berth watch`: they list and watch clusters, ResourceBindings and ClusterResourceBindings.

use std::collections::BTreeSet;
use std::fmt::Debug;

use berth_api::{
    Binding, BindingKey, BindingKind, Cluster, ClusterResourceBinding, ResourceBinding,
};
use berth_apimachinery::api_error::api_error_message;
use berth_component_base::list_watch;
use futures::StreamExt as _;
use kube::api::{Api, ListParams};
use kube::runtime::watcher::Event;
use kube::{Client, ResourceExt};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::WatchError;

/// An event of one of the watches.
#[derive(Debug)]
pub(super) enum WatchEvent {
    /// A binding was added or changed.
    BindingApplied(Box<Binding>),
    /// A binding was deleted.
    BindingDeleted(BindingKey),
    /// A list of the bindings of one kind was complete. Contains the kind and the keys of all existing bindings.
    BindingsListed(BindingKind, BTreeSet<BindingKey>),
    /// A cluster was added or changed.
    ClusterApplied(Box<Cluster>),
    /// A cluster was deleted.
    ClusterDeleted(String),
    /// A list of the clusters was complete. Contains the names of all existing clusters.
    ClustersListed(BTreeSet<String>),
}

/// Checks that the user may list ResourceBindings. Without this check, the watches would retry forever.
pub(super) async fn check(client: &Client) -> Result<(), WatchError> {
    let api: Api<ResourceBinding> = Api::all(client.clone());
    let listed = api.list(&ListParams::default().limit(1)).await;
    listed.map(drop).map_err(|error| WatchError::Read {
        what: "resourcebindings".to_owned(),
        reason: api_error_message(&error),
    })
}

/// Starts the watches. They run until the caller drops the returned set.
pub(super) fn start(
    client: Client,
    namespace: Option<String>,
    sender: &mpsc::Sender<WatchEvent>,
) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    let bindings: Api<ResourceBinding> = match &namespace {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    };
    tasks.spawn(watch(bindings, sender.clone(), binding_event));
    if namespace.is_none() {
        let bindings: Api<ClusterResourceBinding> = Api::all(client.clone());
        tasks.spawn(watch(bindings, sender.clone(), binding_event));
    }
    tasks.spawn(watch(
        Api::<Cluster>::all(client),
        sender.clone(),
        cluster_event,
    ));
    tasks
}

/// An event of the watch of one kind.
enum ObjectEvent<K> {
    Applied(K),
    Deleted(K),
    Listed(Vec<K>),
}

fn binding_event<K>(event: ObjectEvent<K>) -> WatchEvent
where
    K: kube::Resource<DynamicType = ()>,
    Binding: From<K>,
{
    match event {
        ObjectEvent::Applied(object) => WatchEvent::BindingApplied(Box::new(object.into())),
        ObjectEvent::Deleted(object) => WatchEvent::BindingDeleted(BindingKey::of(object.meta())),
        ObjectEvent::Listed(objects) => {
            let keys = objects.iter().map(|object| BindingKey::of(object.meta()));
            let kind = if K::kind(&()) == BindingKind::Namespaced.name() {
                BindingKind::Namespaced
            } else {
                BindingKind::Cluster
            };
            WatchEvent::BindingsListed(kind, keys.collect())
        }
    }
}

fn cluster_event(event: ObjectEvent<Cluster>) -> WatchEvent {
    match event {
        ObjectEvent::Applied(cluster) => WatchEvent::ClusterApplied(Box::new(cluster)),
        ObjectEvent::Deleted(cluster) => WatchEvent::ClusterDeleted(cluster.name_any()),
        ObjectEvent::Listed(clusters) => {
            WatchEvent::ClustersListed(clusters.iter().map(ResourceExt::name_any).collect())
        }
    }
}

async fn watch<K>(
    api: Api<K>,
    sender: mpsc::Sender<WatchEvent>,
    convert: impl Fn(ObjectEvent<K>) -> WatchEvent,
) where
    K: kube::Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let mut events = list_watch::events(api, list_watch::Config::default());
    let mut listed = Vec::new();
    while let Some(event) = events.next().await {
        let sent = match event {
            Ok(Event::Init) => {
                listed.clear();
                continue;
            }
            Ok(Event::InitApply(object)) => {
                listed.push(object.clone());
                sender.send(convert(ObjectEvent::Applied(object))).await
            }
            Ok(Event::InitDone) => {
                sender
                    .send(convert(ObjectEvent::Listed(std::mem::take(&mut listed))))
                    .await
            }
            Ok(Event::Apply(object)) => sender.send(convert(ObjectEvent::Applied(object))).await,
            Ok(Event::Delete(object)) => sender.send(convert(ObjectEvent::Deleted(object))).await,
            Err(_) => continue,
        };
        if sent.is_err() {
            return;
        }
    }
}
