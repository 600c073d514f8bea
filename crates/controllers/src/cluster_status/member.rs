//! The task that collects the status of one member. It probes the member, watches the nodes and pods, and writes the
//! status of the Cluster.

use berth_apimachinery::api_error::{api_error_message, is_unreachable};
use berth_apimachinery::repeated_failure::RepeatedFailure;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use berth_api::cluster::{ClusterSpec, ClusterStatus};
use berth_api::{Cluster, condition};
use berth_apimachinery::dynamic_object::decode_event;
use berth_component_base::list_watch::{self, Budget, Limits};
use futures::StreamExt as _;
use futures::stream::{self, BoxStream};
use k8s_openapi::api::core::v1::{Node, Pod, Secret};
use kube::api::{Api, ApiResource, DynamicObject};
use kube::runtime::watcher;
use kube::{Client, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio::time::MissedTickBehavior;

use super::readiness::{ProbeResult, Readiness};
use super::status_writer::{self, NodePoolReport, StatusUpdate};
use super::summary_input::{NodeResources, PodResources, requested_by_node, weigh_node, weigh_pod};
use super::{ClusterStatusOptions, apis, model_grades, node_pools, probe, summary};
use crate::member_client::{self, MemberClientError};
use crate::monitor::Monitor;

/// Maximum number of nodes and pods of a member, and maximum size of the fields that are kept. A Kubernetes cluster has up
/// to 5,000 nodes and 150,000 pods.
const LIMITS: Limits = Limits {
    objects: 200_000,
    bytes: 256 << 20,
};
/// Time that the first status of a new connection waits for the lists of nodes and pods. A member that refuses them is
/// ready nevertheless, but its capacity is unknown. This is Karmada's `--cluster-cache-sync-timeout`.
const FIRST_LISTS_TIMEOUT: Duration = Duration::from_mins(2);
/// Time until nodes and pods are watched again after they exceeded the limits.
const PAUSE_BEYOND_LIMITS: Duration = Duration::from_mins(5);

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
        outage: RepeatedFailure::default(),
        write_failure: RepeatedFailure::default(),
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
    /// Limits the log lines about an outage of the member.
    outage: RepeatedFailure,
    /// Limits the log lines about failed writes of the status.
    write_failure: RepeatedFailure,
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
    since: Instant,
    /// UID and version of the Secret that the connection uses.
    secret: SecretVersion,
    changes: BoxStream<'static, Change>,
    /// True if nodes and pods are watched.
    has_resources: bool,
    nodes: Store<NodeResources>,
    pods: Store<PodResources>,
    /// True if a collection of the status waits for the first lists of nodes and pods.
    is_awaited: bool,
    /// The reason for which nodes and pods are not watched, and the time of the next attempt.
    beyond_limits: Option<(String, Instant)>,
}

type SecretVersion = (Option<String>, Option<String>);

fn version_of(secret: &Secret) -> SecretVersion {
    let metadata = &secret.metadata;
    (metadata.uid.clone(), metadata.resource_version.clone())
}

/// The collected data of a member.
struct Collected {
    status: ClusterStatus,
    /// Status, reason and message of the condition `CompleteAPIEnablements`.
    complete_apis: (bool, &'static str, String),
    /// The nodes by pool.
    node_pools: NodePoolReport,
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
    /// The nodes and pods exceed the limits of the member.
    BeyondLimits(String),
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
            Some(Change::BeyondLimits(reason)) => connection.stop_watches(reason),
            None => return std::future::pending().await,
        }
        connection.is_awaited && connection.has_synced()
    }

    /// Probes the member and writes the status of its Cluster.
    async fn reconcile(&mut self) {
        let since = Instant::now();
        let timeout = self.readiness.probe_timeout(since, &self.options);
        let result = self.probe(timeout).await;
        self.log_outage(&result);
        let status = self.cluster.status.clone().unwrap_or_default();
        let was_ready =
            condition::find(&status.conditions, "Ready").map(|ready| ready.status == "True");
        let ready = result.condition();
        let now = Instant::now();
        let accepted = self
            .readiness
            .accept(ready.status, was_ready, since, now, &self.options);
        let mut update = StatusUpdate::default();
        let mut node_pools = NodePoolReport::Unknown;
        if accepted {
            update
                .conditions
                .push(("Ready", ready.status, ready.reason, ready.message));
        }
        if result == ProbeResult::Ready && accepted {
            let collected = tokio::time::timeout(probe::COLLECT_TIMEOUT, self.collect()).await;
            let (complete, reason, message) = match collected {
                Ok(Some(collected)) => {
                    update.collected = Some(collected.status);
                    node_pools = collected.node_pools;
                    collected.complete_apis
                }
                // This function runs again as soon as the first lists are complete.
                Ok(None) => return,
                Err(_) => {
                    let limit = probe::COLLECT_TIMEOUT;
                    let message =
                        format!("cannot discover the APIs of the cluster within {limit:?}");
                    (false, "Partial", message)
                }
            };
            update.conditions.push((
                "CompleteAPIEnablements",
                complete,
                reason.to_owned(),
                message,
            ));
            update.conditions.extend(self.limits_condition());
        }
        match self.write(&update, &node_pools).await {
            Ok(Some(cluster)) => {
                if let Some(end) = self.write_failure.ended(Instant::now()) {
                    let (cluster, failures) = (self.cluster.name_any(), end.failures);
                    tracing::info!(
                        cluster,
                        failures,
                        "wrote the status of the cluster again after {}",
                        end.lasted
                    );
                }
                self.cluster = Arc::new(cluster);
            }
            Ok(None) => {}
            Err(error) => {
                self.log_failed_write(&error);
                return;
            }
        }
        self.monitor.cluster_status(&self.cluster);
        let cluster = self.cluster.name_any();
        self.monitor
            .cluster_status_collected(&cluster, since.elapsed());
    }

    /// Writes the nodes by pool and the status. Returns the written Cluster, or `None` if nothing was written.
    ///
    /// The status comes last: schedulers read from it that the member reports the workloads that they have placed. The
    /// nodes must show these workloads by then. A failed write of the nodes does not delay the status.
    async fn write(
        &mut self,
        update: &StatusUpdate,
        node_pools: &NodePoolReport,
    ) -> Result<Option<Cluster>, kube::Error> {
        let client = &self.control_plane;
        let annotated = status_writer::write_node_pools(client, &self.cluster, node_pools).await;
        let cluster = match &annotated {
            Ok(Some(annotated)) => annotated,
            _ => &self.cluster,
        };
        let written = status_writer::write(client, cluster, update).await?;
        Ok(written.or(annotated?))
    }

    /// Logs a failed write of the status. The client logs outages of the control plane.
    fn log_failed_write(&mut self, error: &kube::Error) {
        let (cluster, message) = (self.cluster.name_any(), api_error_message(error));
        let line = if is_unreachable(error) {
            None
        } else {
            let now = Instant::now();
            self.write_failure.failed(&message, now)
        };
        if let Some(line) = line {
            tracing::warn!(
                cluster,
                error = %message,
                repeated = line.repeated,
                "cannot write the status of a cluster; trying again at its next probe"
            );
        } else {
            tracing::debug!(
                cluster,
                error = %message,
                "cannot write the status of a cluster"
            );
        }
    }

    /// Logs the beginning, the repetitions and the end of an outage.
    fn log_outage(&mut self, result: &ProbeResult) {
        let (cluster, now) = (self.cluster.name_any(), Instant::now());
        if *result == ProbeResult::Ready {
            if let Some(end) = self.outage.ended(now) {
                let failures = end.failures;
                tracing::info!(
                    cluster,
                    failures,
                    "the member responds again after {}",
                    end.lasted
                );
            }
            return;
        }
        let reason = result.condition().message;
        if let Some(line) = self.outage.failed(&reason, now) {
            let repeated = line.repeated;
            tracing::warn!(
                cluster,
                reason,
                repeated,
                "the member does not respond; trying again"
            );
        }
    }

    /// Probes the member. Connects to the member first if there is no connection, or if the Secret of the connection has
    /// changed.
    async fn probe(&mut self, timeout: Duration) -> ProbeResult {
        let client = match self.connect().await {
            Ok(client) => client,
            Err(error) => {
                self.connection = None;
                return ProbeResult::NoClient(error.to_string());
            }
        };
        let result = probe::health(&client, timeout).await;
        if result != ProbeResult::Ready {
            // The next probe uses a new connection, because the address may lead to another server.
            self.connection = None;
        }
        result
    }

    /// Returns a client with the present credentials of the member.
    async fn connect(&mut self) -> Result<Client, MemberClientError> {
        let secret = member_client::credentials(&self.control_plane, &self.cluster).await;
        let current = self.connection.as_ref();
        let secret = match (secret, current) {
            (Ok(secret), _) => secret,
            // The connection to the member stays during an outage of the control plane.
            (Err(error), Some(current)) if error.is_outage() => return Ok(current.client.clone()),
            (Err(error), _) => return Err(error),
        };
        let version = version_of(&secret);
        if let Some(current) = current.filter(|current| current.is_usable(&version)) {
            return Ok(current.client.clone());
        }
        let client = member_client::connect_with(&self.cluster, &secret)?;
        let name = self.cluster.name_any();
        let has_resources = self.options.resource_modeling;
        let connection = Connection::new(client.clone(), name, version, has_resources);
        self.connection = Some(connection);
        Ok(client)
    }

    /// Returns the condition about the limits of the member. Only members that have exceeded their limits have it.
    fn limits_condition(&self) -> Option<(&'static str, bool, String, String)> {
        const KIND: &str = "WithinLimits";
        let exceeded = self.connection.as_ref()?.beyond_limits.as_ref();
        if let Some((reason, _)) = exceeded {
            return Some((KIND, false, "TooManyObjects".to_owned(), reason.clone()));
        }
        let conditions = &self.cluster.status.as_ref()?.conditions;
        condition::find(conditions, KIND)?;
        let message = "nodes and pods are watched".to_owned();
        Some((KIND, true, "WithinLimits".to_owned(), message))
    }

    /// Collects the version, APIs and summaries of the member, and the condition `CompleteAPIEnablements`. Returns
    /// `None` before the first lists of nodes and pods are complete. When they take too long, the last summaries stay.
    async fn collect(&mut self) -> Option<Collected> {
        let connection = self.connection.as_mut()?;
        let has_synced = connection.has_synced();
        connection.is_awaited = !has_synced;
        if !has_synced && connection.since.elapsed() < FIRST_LISTS_TIMEOUT {
            return None;
        }
        let client = connection.client.clone();
        let (version, served) = tokio::join!(probe::version(&client), apis::discover(&client));
        let complete_apis = apis::condition(&served);
        let connection = self.connection.as_ref()?;
        let mut node_pools = NodePoolReport::Off;
        let mut status = ClusterStatus {
            kubernetes_version: version,
            api_enablements: served.enablements,
            ..ClusterStatus::default()
        };
        if !has_synced {
            let last = self.cluster.status.clone().unwrap_or_default();
            status.node_summary = last.node_summary;
            status.resource_summary = last.resource_summary;
            node_pools = NodePoolReport::Unknown;
        } else if connection.has_resources {
            let (nodes, pods) = (&connection.nodes.objects, &connection.pods.objects);
            let requested = requested_by_node(pods);
            let mut resources = summary::resources(nodes, pods);
            let models = &self.cluster.spec.resource_models;
            resources.allocatable_modelings = model_grades::count_nodes(models, nodes, &requested);
            if self.options.node_pools {
                node_pools = NodePoolReport::Known(node_pools::summarise(nodes, &requested));
            }
            status.node_summary = Some(summary::nodes(nodes));
            status.resource_summary = Some(resources);
        }
        Some(Collected {
            status,
            complete_apis,
            node_pools,
        })
    }
}

impl Connection {
    /// Creates a connection to a member. Watches the nodes and pods if `has_resources` is set.
    fn new(client: Client, name: String, secret: SecretVersion, has_resources: bool) -> Self {
        let changes = if has_resources {
            let config = member_client::watch_config(Budget::new(name, LIMITS));
            let nodes = watch_kind(&client, config.clone(), weigh_node, Change::Nodes);
            let pods = watch_kind(&client, config, weigh_pod, Change::Pods);
            stream::select(nodes, pods).boxed()
        } else {
            stream::pending().boxed()
        };
        Self {
            client,
            since: Instant::now(),
            secret,
            changes,
            has_resources,
            nodes: Store::new(),
            pods: Store::new(),
            is_awaited: false,
            beyond_limits: None,
        }
    }

    fn has_synced(&self) -> bool {
        !self.has_resources || (self.nodes.has_synced && self.pods.has_synced)
    }

    /// Reports whether the connection uses this version of the Secret, and need not start its watches again.
    fn is_usable(&self, secret: &SecretVersion) -> bool {
        let retry = self.beyond_limits.as_ref().map(|(_, retry)| *retry);
        self.secret == *secret && retry.is_none_or(|retry| Instant::now() < retry)
    }

    /// Ends the watches of nodes and pods, and frees their memory.
    fn stop_watches(&mut self, reason: String) {
        self.changes = stream::pending().boxed();
        self.has_resources = false;
        self.nodes = Store::new();
        self.pods = Store::new();
        self.beyond_limits = Some((reason, Instant::now() + PAUSE_BEYOND_LIMITS));
    }
}

/// Watches the objects of a kind in a member. The watch retries after errors. The next probe reports an outage.
fn watch_kind<K>(
    client: &Client,
    config: list_watch::Config,
    weigh: fn(&DynamicObject, usize) -> usize,
    change: fn(Box<watcher::Event<K>>) -> Change,
) -> BoxStream<'static, Change>
where
    K: Resource<DynamicType = ()> + DeserializeOwned + Send + 'static,
{
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &ApiResource::erase::<K>(&()));
    list_watch::weighed_events(api, config, weigh)
        .filter_map(move |event| async move {
            let event = match event {
                Ok(event) => event,
                Err(error @ list_watch::Error::Limit(_)) => {
                    return Some(Change::BeyondLimits(error.to_string()));
                }
                Err(_) => return None,
            };
            decode_event(event)
                .inspect_err(|error| {
                    tracing::debug!(%error, "cannot read an object of a member; skipping it");
                })
                .ok()
                .map(|event| change(Box::new(event)))
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

#[cfg(test)]
mod tests;
