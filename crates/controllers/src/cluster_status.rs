//! The status of Push clusters, collected from the members: whether they are ready, their version, their APIs, their
//! nodes, what these offer and what is taken of it.
//!
//! ```text
//! watch of Clusters ──> one task for each member ──> status of its Cluster
//!                        ^ probe every 10 s
//!                        ^ watches of its nodes and pods
//! ```
//!
//! A task owns all that is known of its member, so that a dead or slow member delays no other. What to say about it
//! is decided in pure functions: [`readiness`], [`summary`], [`grades`].

pub mod apis;
mod facts;
pub mod grades;
mod member;
mod probe;
pub mod readiness;
mod report;
pub mod summary;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use berth_api::Cluster;
use berth_api::cluster::SyncMode;
use futures::TryStreamExt as _;
use kube::api::Api;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Client, ResourceExt as _};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// How often members are looked at, and how long they may be otherwise before that counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClusterStatusOptions {
    /// Time between two looks.
    pub update_frequency: Duration,
    /// How long a member must have been reachable to count as ready again.
    pub success_threshold: Duration,
    /// How long a member must have been unreachable to count as not ready any more.
    pub failure_threshold: Duration,
}

impl Default for ClusterStatusOptions {
    fn default() -> Self {
        Self {
            update_frequency: Duration::from_secs(10),
            success_threshold: Duration::from_secs(30),
            failure_threshold: Duration::from_secs(30),
        }
    }
}

/// Collects the status of all Push clusters until the token is cancelled.
pub async fn run(client: Client, options: ClusterStatusOptions, shutdown: CancellationToken) {
    let mut members = Members {
        client: client.clone(),
        options,
        known: HashMap::new(),
        tasks: JoinSet::new(),
    };
    let clusters: Api<Cluster> = Api::all(client);
    let stream = watcher(clusters, watcher::Config::default().any_semantic()).default_backoff();
    let mut stream = std::pin::pin!(stream);
    let mut listed: Option<Vec<String>> = None;
    loop {
        let event = tokio::select! {
            () = shutdown.cancelled() => return,
            event = stream.try_next() => event,
        };
        match event {
            Ok(Some(watcher::Event::Init)) => listed = Some(Vec::new()),
            Ok(Some(watcher::Event::InitApply(cluster))) => {
                if let Some(listed) = &mut listed {
                    listed.push(cluster.name_any());
                }
                members.apply(cluster);
            }
            Ok(Some(watcher::Event::InitDone)) => {
                if let Some(listed) = listed.take() {
                    members.known.retain(|name, _| listed.contains(name));
                }
            }
            Ok(Some(watcher::Event::Apply(cluster))) => members.apply(cluster),
            Ok(Some(watcher::Event::Delete(cluster))) => {
                members.known.remove(&cluster.name_any());
            }
            Ok(None) => return,
            Err(error) => tracing::debug!(%error, "the watch of clusters broke; trying again"),
        }
    }
}

/// The tasks, each with the end of the line on which it hears of its Cluster. It ends when the line is cut.
struct Members {
    client: Client,
    options: ClusterStatusOptions,
    known: HashMap<String, watch::Sender<Arc<Cluster>>>,
    /// All of them end when this is dropped.
    tasks: JoinSet<()>,
}

impl Members {
    fn apply(&mut self, cluster: Cluster) {
        let name = cluster.name_any();
        if cluster.spec.sync_mode != SyncMode::Push || cluster.spec.secret_ref.is_none() {
            self.known.remove(&name);
            return;
        }
        let cluster = Arc::new(cluster);
        if let Some(line) = self.known.get(&name)
            && line.send(cluster.clone()).is_ok()
        {
            return;
        }
        let (line, hears) = watch::channel(cluster);
        self.known.insert(name, line);
        let task = member::watch(self.client.clone(), hears, self.options);
        self.tasks.spawn(task);
        // Those that have ended are let go.
        while self.tasks.try_join_next().is_some() {}
    }
}
