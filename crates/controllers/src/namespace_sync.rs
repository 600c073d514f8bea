//! Namespaces get into all members: each one, but those of the system and those that are skipped, becomes a Work in each
//! cluster. The Work is owned by its namespace, so that it goes with it.
//!
//! One task owns what is known of namespaces, clusters and overrides, and which pairs of a namespace and a cluster are
//! due. Which Work a pair needs is decided in [`namespace_work`].

pub(crate) mod namespace_work;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use berth_api::{Cluster, ClusterOverridePolicy};
use berth_events::EventRecorder;
use futures::stream::{self, BoxStream};
use futures::{FutureExt as _, StreamExt as _};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::Api;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Client, Resource as _, ResourceExt as _};
use regex::Regex;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use crate::overrides::events as override_events;
use crate::overrides::{AppliedOverrides, OverridePolicy, OverrideSet};
use crate::owned_work::{Ensured, WriteError};
use namespace_work::{Desired, is_synced};

/// How many Works are looked at at once.
const AT_ONCE: usize = 16;
/// Namespaces, clusters, overrides.
const KINDS: usize = 3;
/// How soon something that failed, or is not finished, is looked at again.
const AGAIN: Duration = Duration::from_secs(1);

/// Keeps the namespaces of all members in line until the token is cancelled. `skipped` matches whole names.
pub async fn run(client: Client, skipped: Vec<Regex>, shutdown: CancellationToken) {
    let (events, writer) = EventRecorder::new(client.clone(), "namespace-sync-controller");
    let telling = writer.run(shutdown.clone());
    let mut sync = Sync {
        client,
        events,
        skipped,
        namespaces: BTreeMap::new(),
        clusters: BTreeMap::new(),
        overrides: BTreeMap::new(),
        listed: BTreeSet::new(),
        due: BTreeSet::new(),
        spoilt: BTreeMap::new(),
    };
    tokio::select! {
        () = shutdown.cancelled() => {}
        () = async { tokio::join!(telling, sync.run()); } => {}
    }
}

/// A namespace and a cluster.
type Pair = (String, String);

struct Sync {
    client: Client,
    events: EventRecorder,
    skipped: Vec<Regex>,
    namespaces: BTreeMap<String, Arc<Namespace>>,
    clusters: BTreeMap<String, Arc<Cluster>>,
    overrides: BTreeMap<String, Arc<OverridePolicy>>,
    /// Kinds that have been listed: with fewer than all, what a Work should say is not known.
    listed: BTreeSet<&'static str>,
    due: BTreeSet<Pair>,
    /// Overrides that do not fit, as it was told.
    spoilt: BTreeMap<Pair, String>,
}

enum Change {
    Namespace(Box<watcher::Event<Namespace>>),
    Cluster(Box<watcher::Event<Cluster>>),
    Override(Box<watcher::Event<ClusterOverridePolicy>>),
}

impl Sync {
    async fn run(&mut self) {
        let mut changes = self.watch();
        let mut later = BTreeSet::new();
        // No sleep, which would begin anew with each change: in a large fleet there is always one.
        let mut again = tokio::time::interval(AGAIN);
        again.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                change = changes.next() => match change {
                    Some(change) => self.take(change),
                    None => return,
                },
                _ = again.tick(), if !later.is_empty() => self.due.append(&mut later),
            }
            // Whatever has been seen meanwhile counts at once.
            while let Some(Some(change)) = changes.next().now_or_never() {
                self.take(change);
            }
            if self.listed.len() == KINDS {
                later.append(&mut self.work().await);
            }
        }
    }

    fn watch(&self) -> BoxStream<'static, Change> {
        let config = || watcher::Config::default().any_semantic();
        macro_rules! of {
            ($kind:ty, $change:expr) => {
                // Errors are waited out.
                watcher(Api::<$kind>::all(self.client.clone()), config())
                    .default_backoff()
                    .filter_map(|event| async { event.ok().map($change) })
                    .boxed()
            };
        }
        stream::select_all([
            of!(Namespace, |event| Change::Namespace(Box::new(event))),
            of!(Cluster, |event| Change::Cluster(Box::new(event))),
            of!(ClusterOverridePolicy, |event| Change::Override(Box::new(
                event
            ))),
        ])
        .boxed()
    }

    fn take(&mut self, change: Change) {
        use watcher::Event::{Apply, Delete, Init, InitApply, InitDone};
        match change {
            Change::Namespace(event) => match *event {
                Init => self.namespaces.clear(),
                Apply(namespace) | InitApply(namespace) => self.namespace(namespace),
                Delete(namespace) => {
                    self.namespaces.remove(&namespace.name_any());
                }
                InitDone => self.listed("namespaces"),
            },
            Change::Cluster(event) => match *event {
                Init => self.clusters.clear(),
                Apply(cluster) | InitApply(cluster) => self.cluster(cluster),
                Delete(cluster) => {
                    self.clusters.remove(&cluster.name_any());
                }
                InitDone => self.listed("clusters"),
            },
            Change::Override(event) => match *event {
                Init => self.overrides.clear(),
                Apply(policy) | InitApply(policy) => {
                    let name = policy.name_any();
                    let ready = OverridePolicy::new(&name, &policy.spec);
                    self.overrides.insert(name, Arc::new(ready));
                    self.all_are_due();
                }
                Delete(policy) => {
                    self.overrides.remove(&policy.name_any());
                    self.all_are_due();
                }
                InitDone => self.listed("overrides"),
            },
        }
    }

    fn listed(&mut self, kind: &'static str) {
        self.listed.insert(kind);
        self.all_are_due();
    }

    fn namespace(&mut self, namespace: Namespace) {
        let name = namespace.name_any();
        if !is_synced(&namespace, &self.skipped) {
            self.namespaces.remove(&name);
            return;
        }
        let clusters = self.clusters.keys();
        self.due
            .extend(clusters.map(|cluster| (name.clone(), cluster.clone())));
        self.namespaces.insert(name, Arc::new(namespace));
    }

    fn cluster(&mut self, cluster: Cluster) {
        let name = cluster.name_any();
        if cluster.metadata.deletion_timestamp.is_some() {
            self.clusters.remove(&name);
            return;
        }
        let known = self.clusters.insert(name.clone(), Arc::new(cluster));
        if known.is_none() {
            let namespaces = self.namespaces.keys();
            self.due
                .extend(namespaces.map(|namespace| (namespace.clone(), name.clone())));
        }
    }

    fn all_are_due(&mut self) {
        for namespace in self.namespaces.keys() {
            for cluster in self.clusters.keys() {
                self.due.insert((namespace.clone(), cluster.clone()));
            }
        }
    }

    /// Looks at what is due; returns what is to be looked at again.
    async fn work(&mut self) -> BTreeSet<Pair> {
        let overrides = Arc::new(OverrideSet {
            cluster: self.overrides.values().cloned().collect(),
            namespaced: Vec::new(),
        });
        let due = std::mem::take(&mut self.due).into_iter();
        let jobs = due.filter_map(|pair| {
            let namespace = self.namespaces.get(&pair.0)?.clone();
            let cluster = self.clusters.get(&pair.1)?.clone();
            let (client, overrides) = (self.client.clone(), overrides.clone());
            Some(async move {
                let ensured = ensure(&client, &namespace, &cluster, &overrides).await;
                (pair, namespace, ensured)
            })
        });
        let done: Vec<_> = stream::iter(jobs).buffer_unordered(AT_ONCE).collect().await;
        let mut again = BTreeSet::new();
        for (pair, namespace, ensured) in done {
            if self.settle(&pair, &namespace, ensured) {
                again.insert(pair);
            }
        }
        again
    }

    /// Tells what there is to tell; whether the pair is to be looked at again.
    fn settle(
        &mut self,
        pair: &Pair,
        namespace: &Namespace,
        ensured: Result<(Ensured, AppliedOverrides), EnsureError>,
    ) -> bool {
        let (name, cluster) = pair;
        let about = namespace.object_ref(&());
        let spoilt = self.spoilt.remove(pair);
        match ensured {
            Ok((Ensured::Unchanged, _)) => false,
            Ok((Ensured::Written, applied)) => {
                override_events::applied(&self.events, &about, cluster, &applied);
                false
            }
            Ok((Ensured::Unfinished, _)) => true,
            Err(EnsureError::Override(error)) => {
                // It is tried again and again, and told once.
                let text = error.to_string();
                if spoilt.as_ref() != Some(&text) {
                    override_events::failed(&self.events, &about, cluster, &error);
                }
                self.spoilt.insert(pair.clone(), text);
                true
            }
            Err(error) => {
                tracing::debug!(%error, namespace = name, cluster, "cannot bring a namespace into a cluster; trying again");
                true
            }
        }
    }
}

/// Why a Work is not as it should be.
#[derive(Debug, thiserror::Error)]
enum EnsureError {
    #[error(transparent)]
    Override(#[from] crate::overrides::OverrideError),
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// Writes the Work if need be; returns the overrides that went into it, too.
async fn ensure(
    client: &Client,
    namespace: &Namespace,
    cluster: &Cluster,
    overrides: &OverrideSet,
) -> Result<(Ensured, AppliedOverrides), EnsureError> {
    let desired = Desired::of(namespace, cluster, overrides)?;
    let ensured = desired.owned.ensure(client).await?;
    Ok((ensured, desired.applied))
}
