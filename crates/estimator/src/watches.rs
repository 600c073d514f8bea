//! The watches of the member's objects, which keep a [`ClusterState`] up to date.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::{Arc, Once};
use std::time::Duration;

use berth_component_base::list_watch::{self, AfterOutage, Config, Listing, ObjectEvent, Start};
use futures::StreamExt as _;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{Node, Pod, ResourceQuota};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use kube::Api;
use parking_lot::RwLock;
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::estimate::{ClusterState, Rules};

mod devices;

/// Maximum pause after a failure. Old estimates place too many replicas.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// Selects the pods that have not ended.
const ACTIVE_PODS: &str = "status.phase!=Succeeded,status.phase!=Failed";

/// The state of the member, and the kinds whose first list is not complete.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub(crate) state: Arc<RwLock<ClusterState>>,
    unlisted: watch::Sender<BTreeSet<&'static str>>,
    workloads: WorkloadWatches,
}

/// The time at which the watches of Deployments and ReplicaSets start, which only requests about unschedulable replicas
/// need.
#[derive(Clone, Debug)]
enum WorkloadWatches {
    /// They start with the watches of nodes and pods.
    AtStart,
    /// They start with the first such request, because few members of a process get one.
    AtFirstRequest(Arc<PendingWatches>),
}

/// Watches that start later.
struct PendingWatches {
    client: kube::Client,
    cancel: CancellationToken,
    started: Once,
}

impl Debug for PendingWatches {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PendingWatches")
            .field("started", &self.started)
            .finish_non_exhaustive()
    }
}

/// A kind of objects that the state contains.
trait Watched:
    kube::Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static
{
    /// The name of the resource.
    const PLURAL: &'static str;
    /// Selects objects by their fields.
    const FIELDS: Option<&'static str> = None;

    fn apply(&self, state: &mut ClusterState);
    fn remove(&self, state: &mut ClusterState);
    /// Removes the objects that a complete list does not contain.
    fn retain(state: &mut ClusterState, listing: &Listing);
}

impl Watched for Node {
    const PLURAL: &'static str = "nodes";

    fn apply(&self, state: &mut ClusterState) {
        state.nodes.apply_node(self);
    }

    fn remove(&self, state: &mut ClusterState) {
        let name = self.metadata.name.as_deref();
        state.nodes.remove_node(name.unwrap_or_default());
    }

    fn retain(state: &mut ClusterState, listing: &Listing) {
        state.nodes.retain_nodes(|name| listing.contains("", name));
    }
}

impl Watched for Pod {
    const PLURAL: &'static str = "pods";
    const FIELDS: Option<&'static str> = Some(ACTIVE_PODS);

    fn apply(&self, state: &mut ClusterState) {
        state.nodes.apply_pod(self);
        state.workloads.apply_pod(self);
    }

    fn remove(&self, state: &mut ClusterState) {
        let (namespace, name) = (&self.metadata.namespace, &self.metadata.name);
        let text = |field: &'_ Option<String>| field.clone().unwrap_or_default();
        state.nodes.remove_pod(&text(namespace), &text(name));
        state.workloads.remove_pod(&self.metadata);
    }

    fn retain(state: &mut ClusterState, listing: &Listing) {
        let is_listed = |namespace: &str, name: &str| listing.contains(namespace, name);
        state.nodes.retain_pods(is_listed);
        state.workloads.retain_pods(is_listed);
    }
}

impl Watched for Deployment {
    const PLURAL: &'static str = "deployments";

    fn apply(&self, state: &mut ClusterState) {
        state.workloads.apply_deployment(self);
    }

    fn remove(&self, state: &mut ClusterState) {
        state.workloads.remove_deployment(&self.metadata);
    }

    fn retain(state: &mut ClusterState, listing: &Listing) {
        let workloads = &mut state.workloads;
        workloads.retain_deployments(|namespace, name| listing.contains(namespace, name));
    }
}

impl Watched for ReplicaSet {
    const PLURAL: &'static str = "replicasets";

    fn apply(&self, state: &mut ClusterState) {
        state.workloads.apply_replica_set(self);
    }

    fn remove(&self, state: &mut ClusterState) {
        state.workloads.remove_replica_set(&self.metadata);
    }

    fn retain(state: &mut ClusterState, listing: &Listing) {
        let workloads = &mut state.workloads;
        workloads.retain_replica_sets(|namespace, name| listing.contains(namespace, name));
    }
}

impl Watched for ResourceQuota {
    const PLURAL: &'static str = "resourcequotas";

    fn apply(&self, state: &mut ClusterState) {
        state.quotas.apply(self);
    }

    fn remove(&self, state: &mut ClusterState) {
        state.quotas.remove(&self.metadata);
    }

    fn retain(state: &mut ClusterState, listing: &Listing) {
        let quotas = &mut state.quotas;
        quotas.retain(|namespace, name| listing.contains(namespace, name));
    }
}

impl Watched for PriorityClass {
    const PLURAL: &'static str = "priorityclasses";

    fn apply(&self, state: &mut ClusterState) {
        state.priority_classes.apply(self);
    }

    fn remove(&self, state: &mut ClusterState) {
        let name = self.metadata.name.as_deref();
        state.priority_classes.remove(name.unwrap_or_default());
    }

    fn retain(state: &mut ClusterState, listing: &Listing) {
        let classes = &mut state.priority_classes;
        classes.retain(|name| listing.contains("", name));
    }
}

impl Member {
    /// Watches the objects of the member until the token is cancelled. The rules determine the kinds.
    pub(crate) fn follow(client: &kube::Client, rules: Rules, cancel: &CancellationToken) -> Self {
        let member = Self {
            state: Arc::default(),
            unlisted: watch::Sender::default(),
            workloads: WorkloadWatches::AtStart,
        };
        member.watch_nodes(client, rules, cancel);
        member.watch_workloads(client, cancel);
        member
    }

    /// Watches the member like [`Self::follow`], but its Deployments and ReplicaSets only after a call of
    /// [`Self::need_workloads`].
    pub(crate) fn follow_on_demand(
        client: &kube::Client,
        rules: Rules,
        cancel: &CancellationToken,
    ) -> Self {
        let member = Self {
            state: Arc::default(),
            unlisted: watch::Sender::default(),
            workloads: WorkloadWatches::AtFirstRequest(Arc::new(PendingWatches {
                client: client.clone(),
                cancel: cancel.clone(),
                started: Once::new(),
            })),
        };
        member.watch_nodes(client, rules, cancel);
        member
    }

    /// Starts the watches of Deployments and ReplicaSets, if they have not started.
    pub(crate) fn need_workloads(&self) {
        if let WorkloadWatches::AtFirstRequest(pending) = &self.workloads {
            pending
                .started
                .call_once(|| self.watch_workloads(&pending.client, &pending.cancel));
        }
    }

    fn watch_workloads(&self, client: &kube::Client, cancel: &CancellationToken) {
        self.watch::<Deployment>(client, cancel);
        self.watch::<ReplicaSet>(client, cancel);
    }

    fn watch_nodes(&self, client: &kube::Client, rules: Rules, cancel: &CancellationToken) {
        self.watch::<Node>(client, cancel);
        self.watch::<Pod>(client, cancel);
        devices::follow(self, client, cancel);
        if rules.quotas {
            self.watch::<ResourceQuota>(client, cancel);
        }
        if rules.preemptible_pods {
            self.watch::<PriorityClass>(client, cancel);
        }
    }

    /// Returns a member with this state, whose lists are complete.
    #[cfg(test)]
    pub(crate) fn listed(state: ClusterState) -> Self {
        Self {
            state: Arc::new(RwLock::new(state)),
            unlisted: watch::Sender::default(),
            workloads: WorkloadWatches::AtStart,
        }
    }

    /// Waits until the first lists of all kinds are complete.
    pub(crate) async fn until_listed(&self) {
        let mut unlisted = self.unlisted.subscribe();
        // The sender lives as long as this value.
        let _ = unlisted.wait_for(BTreeSet::is_empty).await;
    }

    /// Reports whether the first lists are complete.
    ///
    /// # Errors
    /// With the kinds whose list is not complete.
    pub(crate) fn check_listed(&self) -> Result<(), String> {
        let unlisted = self.unlisted.borrow();
        if unlisted.is_empty() {
            return Ok(());
        }
        let kinds: Vec<&str> = unlisted.iter().copied().collect();
        Err(format!(
            "waiting for the first list of {}",
            kinds.join(", ")
        ))
    }

    /// Notes that the first list of a kind is not complete.
    fn expect_list(&self, plural: &'static str) {
        self.unlisted.send_modify(|kinds| {
            kinds.insert(plural);
        });
    }

    /// Notes that the first list of a kind is complete.
    fn list_completed(&self, plural: &'static str) {
        self.unlisted.send_if_modified(|kinds| kinds.remove(plural));
    }

    fn watch<K: Watched>(&self, client: &kube::Client, cancel: &CancellationToken) {
        self.expect_list(K::PLURAL);
        let api = Api::<K>::all(client.clone());
        tokio::spawn(
            cancel
                .clone()
                .run_until_cancelled_owned(follow(api, self.clone())),
        );
    }
}

async fn follow<K: Watched>(api: Api<K>, member: Member) {
    let config = Config {
        fields: K::FIELDS.map(str::to_owned),
        start: Start::Stream,
        longest_pause: LONGEST_PAUSE,
        after_outage: AfterOutage::List,
        ..Config::default()
    };
    let mut events = list_watch::objects(api, config);
    while let Some(event) = events.next().await {
        // Failures are logged by the watch, which then continues.
        let Ok(event) = event else { continue };
        let mut state = member.state.write();
        match event {
            ObjectEvent::Applied(object) => object.apply(&mut state),
            ObjectEvent::Deleted(object) => object.remove(&mut state),
            ObjectEvent::Listed(listing) => {
                K::retain(&mut state, &listing);
                drop(state);
                member.list_completed(K::PLURAL);
            }
        }
    }
}
