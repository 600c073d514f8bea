//! The task that collects the status of one member. It probes the member, watches the nodes and pods, and writes the
//! status of the Cluster.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use berth_api::Cluster;
use berth_api::cluster::{ClusterSpec, ClusterStatus};
use berth_apimachinery::dynamic_object::decode_event;
use futures::StreamExt as _;
use futures::stream::{self, BoxStream};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, ApiResource, DynamicObject};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Client, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio::time::MissedTickBehavior;

use super::readiness::{ProbeResult, Readiness};
use super::status_writer::{self, StatusUpdate};
use super::summary_input::{NodeResources, PodResources};
use super::{ClusterStatusOptions, apis, model_grades, probe, summary};
use crate::condition;
use crate::member_client;
use crate::monitor::Monitor;

/// Collects the status of a member until the channel with its Cluster is closed.
pub(super) async fn run(
    client: Client,
    mut clusters: watch::Receiver<Arc<Cluster>>,
    options: ClusterStatusOptions,
    monitor: Monitor,
) {
    let cluster = clusters.borrow_and_update().clone();
    let mut member = Member {
        control_plane: client,
        cluster,
        options,
        readiness: Readiness::default(),
        reachable: None,
        connection: None,
        monitor,
    };
    let mut interval = tokio::time::interval(options.update_frequency);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            changed = clusters.changed() => {
                if changed.is_err() {
                    return;
                }
                let cluster = clusters.borrow_and_update().clone();
                if member.update_cluster(cluster) {
                    interval.reset_immediately();
                }
                continue;
            }
            _ = interval.tick() => member.reconcile().await,
            // A collection that waited for the first lists of nodes and pods runs as soon as both lists are complete.
            can_collect = member.handle_next_change() => {
                if !can_collect {
                    continue;
                }
                member.reconcile().await;
            }
        }
        if let Some(due) = member.readiness.due()
            && due < Instant::now() + options.update_frequency
        {
            interval.reset_at(due.into());
        }
    }
}

struct Member {
    control_plane: Client,
    cluster: Arc<Cluster>,
    options: ClusterStatusOptions,
    readiness: Readiness,
    /// True if the last probe succeeded, `None` before the first probe.
    reachable: Option<bool>,
    connection: Option<Connection>,
    monitor: Monitor,
}

impl Drop for Member {
    fn drop(&mut self) {
        self.monitor.forget_cluster(&self.cluster.name_any());
    }
}

/// The connection to a member, and the nodes and pods that its watches have reported.
struct Connection {
    client: Client,
    changes: BoxStream<'static, Change>,
    /// True if nodes and pods are watched.
    has_resources: bool,
    nodes: Store<NodeResources>,
    pods: Store<PodResources>,
    /// True if a collection of the status waits for the first lists of nodes and pods.
    is_awaited: bool,
}

/// The objects of one kind, by namespace and name.
struct Store<T> {
    objects: BTreeMap<String, T>,
    /// The received objects of a list that is not complete yet.
    partial_list: Option<BTreeMap<String, T>>,
    has_synced: bool,
}

enum Change {
    Nodes(Box<watcher::Event<Node>>),
    Pods(Box<watcher::Event<Pod>>),
}

/// Returns the fields of a Cluster that the connection depends on.
fn connection_fields(spec: &ClusterSpec) -> impl PartialEq + use<> {
    (
        spec.api_endpoint.clone(),
        spec.secret_ref.clone(),
        spec.insecure_skip_tls_verification,
        spec.proxy_url.clone(),
    )
}

impl Member {
    /// Stores a changed Cluster. Reports whether the member must be probed at once.
    fn update_cluster(&mut self, cluster: Arc<Cluster>) -> bool {
        let (old, new) = (&self.cluster.spec, &cluster.spec);
        let reconnect = connection_fields(old) != connection_fields(new);
        let models_changed = old.resource_models != new.resource_models;
        self.cluster = cluster;
        if reconnect {
            self.connection = None;
        }
        reconnect || models_changed
    }

    /// Waits for the next change of a node or a pod, and stores the change. Reports whether a waiting collection can
    /// now run. Without a connection, this function waits forever.
    async fn handle_next_change(&mut self) -> bool {
        let Some(connection) = &mut self.connection else {
            return std::future::pending().await;
        };
        match connection.changes.next().await {
            Some(Change::Nodes(event)) => connection.nodes.handle(*event, NodeResources::of),
            Some(Change::Pods(event)) => connection.pods.handle(*event, PodResources::of),
            None => return std::future::pending().await,
        }
        connection.is_awaited && connection.has_synced()
    }

    /// Probes the member and writes the status of its Cluster.
    async fn reconcile(&mut self) {
        let since = Instant::now();
        let result = self.probe().await;
        self.log_change(&result);
        let status = self.cluster.status.clone().unwrap_or_default();
        let was_ready =
            condition::find(&status.conditions, "Ready").map(|ready| ready.status == "True");
        let ready = result.condition();
        let accepted =
            self.readiness
                .accept(ready.status, was_ready, Instant::now(), &self.options);
        let mut update = StatusUpdate::default();
        if accepted {
            update
                .conditions
                .push(("Ready", ready.status, ready.reason, ready.message));
        }
        if result == ProbeResult::Ready && accepted {
            let Some((collected, complete_apis)) = self.collect().await else {
                // This function runs again as soon as the first lists are complete.
                return;
            };
            update.collected = Some(collected);
            let (complete, reason, message) = complete_apis;
            update.conditions.push((
                "CompleteAPIEnablements",
                complete,
                reason.to_owned(),
                message,
            ));
        }
        match status_writer::write(&self.control_plane, &self.cluster, &update).await {
            Ok(Some(cluster)) => self.cluster = Arc::new(cluster),
            Ok(None) => {}
            Err(error) => {
                tracing::warn!(cluster = self.cluster.name_any(), %error, "cannot write the status of a cluster");
                return;
            }
        }
        self.monitor.cluster_status(&self.cluster);
        let cluster = self.cluster.name_any();
        self.monitor
            .cluster_status_collected(&cluster, since.elapsed());
    }

    /// Logs the beginning and the end of an outage, each in one line.
    fn log_change(&mut self, result: &ProbeResult) {
        let cluster = self.cluster.name_any();
        let reachable = *result == ProbeResult::Ready;
        match self.reachable.replace(reachable) {
            Some(false) if reachable => tracing::info!(cluster, "the member responds again"),
            None | Some(true) if !reachable => {
                let reason = result.condition().message;
                tracing::warn!(cluster, reason, "the member does not respond; trying again");
            }
            _ => {}
        }
    }

    /// Probes the member. Connects to the member first if there is no connection.
    async fn probe(&mut self) -> ProbeResult {
        if self.connection.is_none() {
            match member_client::connect(&self.control_plane, &self.cluster).await {
                Ok(client) => {
                    let connection = Connection::new(client, self.options.resource_modeling);
                    self.connection = Some(connection);
                }
                Err(error) => return ProbeResult::NoClient(error.to_string()),
            }
        }
        let client = self.connection.as_ref().map(|c| c.client.clone());
        match client {
            Some(client) if probe::is_healthy(&client).await => ProbeResult::Ready,
            // The next probe connects again, because the credentials of the member may have changed.
            _ => {
                self.connection = None;
                ProbeResult::NotReachable
            }
        }
    }

    /// Collects the version, APIs and summaries of the member, and the condition `CompleteAPIEnablements`. Returns
    /// `None` before the first lists of nodes and pods are complete.
    async fn collect(&mut self) -> Option<(ClusterStatus, (bool, &'static str, String))> {
        let connection = self.connection.as_mut()?;
        connection.is_awaited = !connection.has_synced();
        if connection.is_awaited {
            return None;
        }
        let client = connection.client.clone();
        let (version, served) = tokio::join!(probe::version(&client), apis::discover(&client));
        let condition = apis::condition(&served);
        let connection = self.connection.as_ref()?;
        let mut status = ClusterStatus {
            kubernetes_version: version,
            api_enablements: served.enablements,
            ..ClusterStatus::default()
        };
        if connection.has_resources {
            let (nodes, pods) = (&connection.nodes.objects, &connection.pods.objects);
            let mut resources = summary::resources(nodes, pods);
            let models = &self.cluster.spec.resource_models;
            resources.allocatable_modelings = model_grades::count_nodes(models, nodes, pods);
            status.node_summary = Some(summary::nodes(nodes));
            status.resource_summary = Some(resources);
        }
        Some((status, condition))
    }
}

impl Connection {
    /// Creates a connection to a member. Watches the nodes and pods if `has_resources` is set.
    fn new(client: Client, has_resources: bool) -> Self {
        let changes = if has_resources {
            let nodes = watch_kind::<Node>(&client).map(Change::Nodes);
            let pods = watch_kind::<Pod>(&client).map(Change::Pods);
            stream::select(nodes, pods).boxed()
        } else {
            stream::pending().boxed()
        };
        Self {
            client,
            changes,
            has_resources,
            nodes: Store::new(),
            pods: Store::new(),
            is_awaited: false,
        }
    }

    fn has_synced(&self) -> bool {
        !self.has_resources || (self.nodes.has_synced && self.pods.has_synced)
    }
}

/// Watches the objects of a kind in a member. The watch retries after errors. The next probe reports an outage.
fn watch_kind<K>(client: &Client) -> BoxStream<'static, Box<watcher::Event<K>>>
where
    K: Resource<DynamicType = ()> + DeserializeOwned + Send + 'static,
{
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &ApiResource::erase::<K>(&()));
    watcher(api, member_client::watch_config())
        .default_backoff()
        .filter_map(|event| async {
            decode_event(event.ok()?)
                .inspect_err(|error| {
                    tracing::debug!(%error, "cannot read an object of a member; skipping it");
                })
                .ok()
                .map(Box::new)
        })
        .boxed()
}

impl<T> Store<T> {
    fn new() -> Self {
        Self {
            objects: BTreeMap::new(),
            partial_list: None,
            has_synced: false,
        }
    }

    /// Handles a watch event. `reduce` extracts the stored fields from an object.
    fn handle<K: kube::Resource>(&mut self, event: watcher::Event<K>, reduce: impl Fn(&K) -> T) {
        let key = |object: &K| {
            let name = object.name_any();
            match object.namespace() {
                Some(namespace) => format!("{namespace}/{name}"),
                None => name,
            }
        };
        match event {
            watcher::Event::Init => self.partial_list = Some(BTreeMap::new()),
            watcher::Event::InitApply(object) => {
                let list = self.partial_list.get_or_insert_default();
                list.insert(key(&object), reduce(&object));
            }
            watcher::Event::InitDone => {
                self.objects = self.partial_list.take().unwrap_or_default();
                self.has_synced = true;
            }
            watcher::Event::Apply(object) => {
                self.objects.insert(key(&object), reduce(&object));
            }
            watcher::Event::Delete(object) => {
                self.objects.remove(&key(&object));
            }
        }
    }
}
