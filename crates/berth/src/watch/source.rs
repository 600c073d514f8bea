//! What is watched: bindings of both kinds and clusters, listed first and followed from there.

use std::collections::BTreeSet;
use std::fmt::Debug;

use berth_api::{Cluster, ClusterResourceBinding, ResourceBinding};
use berth_apimachinery::api_error::api_error_message;
use berth_scheduler::binding::{Binding, BindingKey};
use futures::StreamExt as _;
use kube::api::{Api, ListParams};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Client, ResourceExt};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::WatchError;

/// What was seen.
#[derive(Debug)]
pub(super) enum Seen {
    /// A binding, new or changed.
    Binding(Box<Binding>),
    /// A binding is gone.
    BindingGone(BindingKey),
    /// All bindings of a kind were listed, these.
    Bindings(&'static str, BTreeSet<BindingKey>),
    /// A cluster, new or changed.
    Cluster(Box<Cluster>),
    /// A cluster is gone.
    ClusterGone(String),
    /// All clusters were listed, these.
    Clusters(BTreeSet<String>),
}

/// Whether there is a control plane to watch. A watch by itself would try again for ever.
pub(super) async fn check(client: &Client) -> Result<(), WatchError> {
    let api: Api<ResourceBinding> = Api::all(client.clone());
    let listed = api.list(&ListParams::default().limit(1)).await;
    listed.map(drop).map_err(|error| WatchError::Read {
        what: "resourcebindings".to_owned(),
        reason: api_error_message(&error),
    })
}

/// Watches until the set is dropped.
pub(super) fn follow(
    client: Client,
    namespace: Option<String>,
    sender: &mpsc::Sender<Seen>,
) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    let bindings: Api<ResourceBinding> = match &namespace {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    };
    tasks.spawn(watch(bindings, sender.clone(), seen_binding));
    if namespace.is_none() {
        let bindings: Api<ClusterResourceBinding> = Api::all(client.clone());
        tasks.spawn(watch(bindings, sender.clone(), seen_binding));
    }
    tasks.spawn(watch(
        Api::<Cluster>::all(client),
        sender.clone(),
        seen_cluster,
    ));
    tasks
}

/// What happened to objects of one kind.
enum Change<K> {
    There(K),
    Gone(K),
    All(Vec<K>),
}

fn seen_binding<K>(change: Change<K>) -> Seen
where
    K: kube::Resource<DynamicType = ()>,
    Binding: From<K>,
{
    match change {
        Change::There(object) => Seen::Binding(Box::new(object.into())),
        Change::Gone(object) => Seen::BindingGone(BindingKey::of(object.meta())),
        Change::All(objects) => {
            let keys = objects.iter().map(|object| BindingKey::of(object.meta()));
            let kind = if K::kind(&()) == "ResourceBinding" {
                "ResourceBinding"
            } else {
                "ClusterResourceBinding"
            };
            Seen::Bindings(kind, keys.collect())
        }
    }
}

fn seen_cluster(change: Change<Cluster>) -> Seen {
    match change {
        Change::There(cluster) => Seen::Cluster(Box::new(cluster)),
        Change::Gone(cluster) => Seen::ClusterGone(cluster.name_any()),
        Change::All(clusters) => {
            Seen::Clusters(clusters.iter().map(ResourceExt::name_any).collect())
        }
    }
}

async fn watch<K>(api: Api<K>, sender: mpsc::Sender<Seen>, seen: impl Fn(Change<K>) -> Seen)
where
    K: kube::Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let config = watcher::Config::default().any_semantic();
    let mut events = watcher(api, config).default_backoff().boxed();
    let mut listed = Vec::new();
    while let Some(event) = events.next().await {
        let sent = match event {
            Ok(watcher::Event::Init) => {
                listed.clear();
                continue;
            }
            Ok(watcher::Event::InitApply(object)) => {
                listed.push(object.clone());
                sender.send(seen(Change::There(object))).await
            }
            Ok(watcher::Event::InitDone) => {
                sender
                    .send(seen(Change::All(std::mem::take(&mut listed))))
                    .await
            }
            Ok(watcher::Event::Apply(object)) => sender.send(seen(Change::There(object))).await,
            Ok(watcher::Event::Delete(object)) => sender.send(seen(Change::Gone(object))).await,
            Err(error) => {
                tracing::warn!(%error, "the watch broke; trying again");
                continue;
            }
        };
        if sent.is_err() {
            return;
        }
    }
}
