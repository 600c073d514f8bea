//! The task that watches one member.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use berth_api::Cluster;
use berth_api::cluster::{ClusterSpec, ClusterStatus};
use futures::StreamExt as _;
use futures::stream::{self, BoxStream};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::Api;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Client, ResourceExt as _};
use tokio::sync::watch;
use tokio::time::MissedTickBehavior;

use super::facts::{NodeFacts, PodFacts};
use super::readiness::{Observed, Readiness};
use super::report::{self, News};
use super::{ClusterStatusOptions, apis, grades, probe, summary};
use crate::member_client;

/// Watches a member until nobody tells of its Cluster any more.
pub(super) async fn watch(
    client: Client,
    mut hears: watch::Receiver<Arc<Cluster>>,
    options: ClusterStatusOptions,
) {
    let cluster = hears.borrow_and_update().clone();
    let mut member = Member {
        control_plane: client,
        cluster,
        options,
        readiness: Readiness::default(),
        reachable: None,
        connection: None,
    };
    let mut looks = tokio::time::interval(options.update_frequency);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            changed = hears.changed() => {
                if changed.is_err() {
                    return;
                }
                let cluster = hears.borrow_and_update().clone();
                if member.heard(cluster) {
                    looks.reset_immediately();
                }
                continue;
            }
            _ = looks.tick() => member.look().await,
            // A look that came too early is made up for.
            awaited = member.listen() => {
                if !awaited {
                    continue;
                }
                member.look().await;
            }
        }
        if let Some(due) = member.readiness.due()
            && due < Instant::now() + options.update_frequency
        {
            looks.reset_at(due.into());
        }
    }
}

struct Member {
    control_plane: Client,
    cluster: Arc<Cluster>,
    options: ClusterStatusOptions,
    readiness: Readiness,
    /// The result of the last probe.
    reachable: Option<bool>,
    connection: Option<Connection>,
}

/// The way into a member, and what came back on it.
struct Connection {
    client: Client,
    changes: BoxStream<'static, Change>,
    nodes: Known<NodeFacts>,
    pods: Known<PodFacts>,
    /// A look was made before everything was known.
    awaited: bool,
}

/// All of one kind, by name, and by namespace where there is one.
struct Known<T> {
    objects: BTreeMap<String, T>,
    /// What a list has said so far, while it goes on.
    listed: Option<BTreeMap<String, T>>,
    complete: bool,
}

enum Change {
    Nodes(Box<watcher::Event<Node>>),
    Pods(Box<watcher::Event<Pod>>),
}

/// What decides how a member is reached.
fn way_in(spec: &ClusterSpec) -> impl PartialEq + use<> {
    (
        spec.api_endpoint.clone(),
        spec.secret_ref.clone(),
        spec.insecure_skip_tls_verification,
        spec.proxy_url.clone(),
    )
}

impl Member {
    /// Takes over what the Cluster says now; returns whether the member is to be looked at at once.
    fn heard(&mut self, cluster: Arc<Cluster>) -> bool {
        let moved = way_in(&self.cluster.spec) != way_in(&cluster.spec);
        let regraded = self.cluster.spec.resource_models != cluster.spec.resource_models;
        self.cluster = cluster;
        if moved {
            self.connection = None;
        }
        moved || regraded
    }

    /// Takes one change of nodes or pods; true when a look waits for it. Waits for ever where there is no connection.
    async fn listen(&mut self) -> bool {
        let Some(connection) = &mut self.connection else {
            return std::future::pending().await;
        };
        match connection.changes.next().await {
            Some(Change::Nodes(event)) => connection.nodes.take(*event, NodeFacts::of),
            Some(Change::Pods(event)) => connection.pods.take(*event, PodFacts::of),
            None => return std::future::pending().await,
        }
        connection.awaited && connection.is_complete()
    }

    async fn look(&mut self) {
        let observed = self.observe().await;
        self.log_change(&observed);
        let status = self.cluster.status.clone().unwrap_or_default();
        let current = status.conditions.iter().find(|c| c.type_ == "Ready");
        let was_ready = current.map(|condition| condition.status == "True");
        let said = observed.said();
        let counts = self
            .readiness
            .counts(said.ready, was_ready, Instant::now(), &self.options);
        let mut news = News::default();
        if counts {
            news.conditions
                .push(("Ready", said.ready, said.reason, said.message));
        }
        if observed == Observed::Ready && counts {
            let Some((collected, found)) = self.collect().await else {
                // The nodes and pods are not known yet; that they are will be heard.
                return;
            };
            news.collected = Some(collected);
            let (complete, reason, message) = found;
            news.conditions.push((
                "CompleteAPIEnablements",
                complete,
                reason.to_owned(),
                message,
            ));
        }
        match report::write(&self.control_plane, &self.cluster, &news).await {
            Ok(Some(cluster)) => self.cluster = Arc::new(cluster),
            Ok(None) => {}
            Err(error) => {
                tracing::warn!(cluster = self.cluster.name_any(), %error, "cannot write the status of a cluster");
            }
        }
    }

    /// Logs once that the member goes away, and once that it is back.
    fn log_change(&mut self, observed: &Observed) {
        let cluster = self.cluster.name_any();
        let reachable = *observed == Observed::Ready;
        match self.reachable.replace(reachable) {
            Some(false) if reachable => tracing::info!(cluster, "the member answers again"),
            None | Some(true) if !reachable => {
                let reason = observed.said().message;
                tracing::warn!(cluster, reason, "the member does not answer; trying again");
            }
            _ => {}
        }
    }

    async fn observe(&mut self) -> Observed {
        if self.connection.is_none() {
            match member_client::connect(&self.control_plane, &self.cluster).await {
                Ok(client) => self.connection = Some(Connection::new(client)),
                Err(error) => return Observed::NoClient(error.to_string()),
            }
        }
        let client = self.connection.as_ref().map(|c| c.client.clone());
        match client {
            Some(client) if probe::is_well(&client).await => Observed::Ready,
            // The next look begins anew: the token may be another one by then.
            _ => {
                self.connection = None;
                Observed::NotReachable
            }
        }
    }

    /// What the member has to tell; nothing while its nodes and pods are not known.
    async fn collect(&mut self) -> Option<(ClusterStatus, (bool, &'static str, String))> {
        let connection = self.connection.as_mut()?;
        connection.awaited = !connection.is_complete();
        if connection.awaited {
            return None;
        }
        let client = connection.client.clone();
        let (version, found) = tokio::join!(probe::version(&client), apis::served(&client));
        let condition = apis::condition(&found);
        let connection = self.connection.as_ref()?;
        let (nodes, pods) = (&connection.nodes.objects, &connection.pods.objects);
        let mut resources = summary::resources(nodes, pods);
        let models = &self.cluster.spec.resource_models;
        resources.allocatable_modelings = grades::count(models, nodes, pods);
        let status = ClusterStatus {
            kubernetes_version: version,
            api_enablements: found.enablements,
            node_summary: Some(summary::nodes(nodes)),
            resource_summary: Some(resources),
            ..ClusterStatus::default()
        };
        Some((status, condition))
    }
}

impl Connection {
    fn new(client: Client) -> Self {
        let nodes: Api<Node> = Api::all(client.clone());
        let pods: Api<Pod> = Api::all(client.clone());
        let config = member_client::watching;
        // An error is waited out here, and told of by the next look.
        let nodes = watcher(nodes, config())
            .default_backoff()
            .filter_map(|event| async { event.ok().map(Box::new).map(Change::Nodes) });
        let pods = watcher(pods, config())
            .default_backoff()
            .filter_map(|event| async { event.ok().map(Box::new).map(Change::Pods) });
        Self {
            client,
            changes: stream::select(nodes, pods).boxed(),
            nodes: Known::new(),
            pods: Known::new(),
            awaited: false,
        }
    }

    fn is_complete(&self) -> bool {
        self.nodes.complete && self.pods.complete
    }
}

impl<T> Known<T> {
    fn new() -> Self {
        Self {
            objects: BTreeMap::new(),
            listed: None,
            complete: false,
        }
    }

    fn take<K: kube::Resource>(&mut self, event: watcher::Event<K>, facts: impl Fn(&K) -> T) {
        let key = |object: &K| {
            let name = object.name_any();
            match object.namespace() {
                Some(namespace) => format!("{namespace}/{name}"),
                None => name,
            }
        };
        match event {
            watcher::Event::Init => self.listed = Some(BTreeMap::new()),
            watcher::Event::InitApply(object) => {
                let listed = self.listed.get_or_insert_default();
                listed.insert(key(&object), facts(&object));
            }
            watcher::Event::InitDone => {
                self.objects = self.listed.take().unwrap_or_default();
                self.complete = true;
            }
            watcher::Event::Apply(object) => {
                self.objects.insert(key(&object), facts(&object));
            }
            watcher::Event::Delete(object) => {
                self.objects.remove(&key(&object));
            }
        }
    }
}
