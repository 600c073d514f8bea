//! The cluster status controller. It collects the readiness, version, APIs and resources of the members in Push mode,
//! and writes them to the status of their Clusters.
//!
//! ```text
//! watch of Clusters ──> one task per member ──> status of its Cluster
//!                        ^ probe every 10 s
//!                        ^ watches of nodes and pods
//! ```
//!
//! Each task owns the state of its member, so that a slow or unreachable member does not delay other members. The
//! modules `readiness`, `summary`, `model_grades` and `node_pools` compute what is written, and send no requests.

pub mod apis;
mod member;
mod model_grades;
mod node_pools;
mod probe;
mod readiness;
mod status_writer;
mod summary;
mod summary_input;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use berth_api::Cluster;
use berth_api::cluster::SyncMode;
use berth_apimachinery::dynamic_object::decode;
use berth_component_base::list_watch::{self, ObjectEvent};
use futures::TryStreamExt as _;
use kube::api::{Api, ApiResource, DynamicObject};
use kube::{Client, ResourceExt as _};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::monitor::Monitor;
use crate::reconciler::drain;

/// Options of the cluster status controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClusterStatusOptions {
    /// The interval between two probes of a member.
    pub update_frequency: Duration,
    /// The time for which the probes of a member must succeed before the member becomes ready.
    pub success_threshold: Duration,
    /// The time for which the probes of a member must fail before the member becomes not ready.
    pub failure_threshold: Duration,
    /// True to watch the nodes and pods of the members and report their summaries.
    pub resource_modeling: bool,
    /// True to summarise the watched nodes by pool, in an annotation of the Cluster.
    pub node_pools: bool,
}

impl Default for ClusterStatusOptions {
    fn default() -> Self {
        Self {
            update_frequency: Duration::from_secs(10),
            success_threshold: Duration::from_secs(30),
            failure_threshold: Duration::from_secs(30),
            resource_modeling: true,
            node_pools: true,
        }
    }
}

/// Collects the status of all Push clusters until the token is cancelled.
pub async fn run(
    client: Client,
    options: ClusterStatusOptions,
    monitor: Monitor,
    shutdown: CancellationToken,
) {
    let mut members = Members {
        client: client.clone(),
        options,
        monitor,
        senders: HashMap::new(),
        tasks: JoinSet::new(),
    };
    let resource = ApiResource::erase::<Cluster>(&());
    let clusters: Api<DynamicObject> = Api::all_with(client, &resource);
    let mut events = list_watch::objects(clusters, list_watch::Config::default());
    loop {
        let event = tokio::select! {
            () = shutdown.cancelled() => {
                members.senders.clear();
                drain(&mut members.tasks).await;
                return;
            }
            event = events.try_next() => event,
        };
        match event {
            Ok(Some(ObjectEvent::Applied(cluster))) => members.apply(cluster),
            Ok(Some(ObjectEvent::Deleted(cluster))) => {
                members.senders.remove(&cluster.name_any());
            }
            Ok(Some(ObjectEvent::Listed(listing))) => {
                members.senders.retain(|name, _| listing.contains("", name));
            }
            Ok(None) => return,
            Err(_) => {}
        }
    }
}

/// The tasks that collect the status of the members.
struct Members {
    client: Client,
    options: ClusterStatusOptions,
    monitor: Monitor,
    /// Channels to the tasks, by cluster. A task ends when its channel is dropped.
    senders: HashMap<String, watch::Sender<Arc<Cluster>>>,
    tasks: JoinSet<()>,
}

impl Members {
    fn apply(&mut self, cluster: DynamicObject) {
        let name = cluster.name_any();
        let cluster: Cluster = match decode(cluster) {
            Ok(cluster) => cluster,
            Err(error) => {
                tracing::warn!(cluster = name, %error, "cannot read a cluster; skipping it");
                return;
            }
        };
        if cluster.spec.sync_mode != SyncMode::Push || cluster.spec.secret_ref.is_none() {
            self.senders.remove(&name);
            return;
        }
        let cluster = Arc::new(cluster);
        if let Some(sender) = self.senders.get(&name)
            && sender.send(cluster.clone()).is_ok()
        {
            return;
        }
        let (sender, receiver) = watch::channel(cluster);
        self.senders.insert(name, sender);
        let task = member::run(
            self.client.clone(),
            receiver,
            self.options,
            self.monitor.clone(),
        );
        self.tasks.spawn(task);
        while self.tasks.try_join_next().is_some() {}
    }
}
