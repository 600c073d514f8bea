//! Lets the impersonator of each member act for those users, groups and service accounts that may use `clusters/proxy` of the
//! cluster, or `proxying/proxy`, and for no others. Two Works for each cluster bring a ClusterRole and its binding into
//! the member; they go with the Cluster.
//!
//! One task owns the roles, bindings and clusters it has seen. What they amount to is decided in [`impersonation`].

pub(crate) mod impersonation;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use berth_api::Cluster;
use berth_events::{EventRecorder, Happening, Severity};
use futures::stream::{self, BoxStream};
use futures::{FutureExt as _, StreamExt as _};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::api::Api;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Client, Resource as _, ResourceExt as _};
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use crate::owned_work::{Ensured, OwnedWork, WriteError};

/// Clusters whose Works are written at once.
const AT_ONCE: usize = 16;
/// Roles, bindings, clusters.
const KINDS: usize = 3;
/// Interval between attempts at what failed or is unfinished.
const AGAIN: Duration = Duration::from_secs(1);

/// Keeps the rights of the impersonators up to date until the token is cancelled.
pub async fn run(client: Client, shutdown: CancellationToken) {
    let (events, writer) = EventRecorder::new(client.clone(), "unified-auth-controller");
    let recording = writer.run(shutdown.clone());
    let mut sync = Sync {
        client,
        events,
        roles: BTreeMap::new(),
        bindings: BTreeMap::new(),
        clusters: BTreeMap::new(),
        listed: BTreeSet::new(),
        written: BTreeMap::new(),
        failed: BTreeMap::new(),
    };
    tokio::select! {
        () = shutdown.cancelled() => {}
        () = async { tokio::join!(recording, sync.run()); } => {}
    }
}

struct Sync {
    client: Client,
    events: EventRecorder,
    roles: BTreeMap<String, ClusterRole>,
    bindings: BTreeMap<String, ClusterRoleBinding>,
    clusters: BTreeMap<String, Cluster>,
    /// Kinds that have been listed: with fewer than all, the rights are not known.
    listed: BTreeSet<&'static str>,
    /// Works of each cluster as they were written last.
    written: BTreeMap<String, Vec<OwnedWork>>,
    /// Last error of each cluster, so that one that lasts is one event.
    failed: BTreeMap<String, String>,
}

enum Change {
    Role(Box<watcher::Event<ClusterRole>>),
    Binding(Box<watcher::Event<ClusterRoleBinding>>),
    Cluster(Box<watcher::Event<Cluster>>),
}

impl Sync {
    async fn run(&mut self) {
        let mut changes = self.watch();
        let mut unfinished = false;
        let mut again = tokio::time::interval(AGAIN);
        again.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                change = changes.next() => match change {
                    Some(change) => self.take(change),
                    None => return,
                },
                _ = again.tick(), if unfinished => {}
            }
            while let Some(Some(change)) = changes.next().now_or_never() {
                self.take(change);
            }
            if self.listed.len() == KINDS {
                unfinished = self.reconcile().await;
            }
        }
    }

    fn watch(&self) -> BoxStream<'static, Change> {
        let config = || watcher::Config::default().any_semantic();
        macro_rules! of {
            ($kind:ty, $change:expr) => {
                watcher(Api::<$kind>::all(self.client.clone()), config())
                    .default_backoff()
                    .filter_map(|event| async { event.ok().map($change) })
                    .boxed()
            };
        }
        stream::select_all([
            of!(ClusterRole, |event| Change::Role(Box::new(event))),
            of!(ClusterRoleBinding, |event| Change::Binding(Box::new(event))),
            of!(Cluster, |event| Change::Cluster(Box::new(event))),
        ])
        .boxed()
    }

    fn take(&mut self, change: Change) {
        match change {
            Change::Role(event) => keep(&mut self.roles, &mut self.listed, *event),
            Change::Binding(event) => keep(&mut self.bindings, &mut self.listed, *event),
            Change::Cluster(event) => keep(&mut self.clusters, &mut self.listed, *event),
        }
    }

    /// Writes the Works that differ from those written last; reports whether some are unfinished.
    async fn reconcile(&mut self) -> bool {
        let known = &self.clusters;
        self.written.retain(|name, _| known.contains_key(name));
        self.failed.retain(|name, _| known.contains_key(name));
        let (roles, bindings) = (self.roles.values(), self.bindings.values());
        let grants = impersonation::Grants::of(roles, bindings);
        let due = self.clusters.values().filter_map(|cluster| {
            let desired = impersonation::works(cluster, &grants)?;
            let name = cluster.name_any();
            (self.written.get(&name) != Some(&desired)).then_some((name, desired))
        });
        let jobs: Vec<_> = due
            .map(|(name, desired)| {
                let client = self.client.clone();
                async move {
                    let ensured = ensure(&client, &desired).await;
                    (name, desired, ensured)
                }
            })
            .collect();
        let done: Vec<_> = stream::iter(jobs).buffer_unordered(AT_ONCE).collect().await;
        let mut unfinished = false;
        for (name, desired, ensured) in done {
            unfinished |= !self.settle(name, desired, ensured);
        }
        unfinished
    }

    /// Records what came of the Works of a cluster; reports whether they are finished.
    fn settle(
        &mut self,
        name: String,
        desired: Vec<OwnedWork>,
        ensured: Result<Ensured, WriteError>,
    ) -> bool {
        match ensured {
            Ok(Ensured::Unfinished) => false,
            Ok(outcome) => {
                self.failed.remove(&name);
                if outcome == Ensured::Written {
                    let message = "Sync impersonation config succeed.".to_owned();
                    let reason = "SyncImpersonationConfigSucceed";
                    self.tell(&name, Severity::Normal, reason, message);
                }
                self.written.insert(name, desired);
                true
            }
            Err(error) => {
                let message = error.to_string();
                tracing::debug!(%error, cluster = name, "cannot write the rights of the impersonator; trying again");
                if self.failed.get(&name) != Some(&message) {
                    let reason = "SyncImpersonationConfigFailed";
                    self.tell(&name, Severity::Warning, reason, message.clone());
                }
                self.failed.insert(name, message);
                false
            }
        }
    }

    fn tell(&self, cluster: &str, severity: Severity, reason: &'static str, message: String) {
        if let Some(cluster) = self.clusters.get(cluster) {
            self.events.record(Happening {
                object: cluster.object_ref(&()),
                severity,
                reason,
                message,
            });
        }
    }
}

/// Takes the event of a watch into what is known of a kind.
fn keep<K: kube::Resource<DynamicType = ()>>(
    known: &mut BTreeMap<String, K>,
    listed: &mut BTreeSet<&'static str>,
    event: watcher::Event<K>,
) {
    use watcher::Event::{Apply, Delete, Init, InitApply, InitDone};
    match event {
        Init => known.clear(),
        Apply(mut object) | InitApply(mut object) => {
            object.meta_mut().managed_fields = None;
            known.insert(object.name_any(), object);
        }
        Delete(object) => {
            known.remove(&object.name_any());
        }
        InitDone => {
            listed.insert(std::any::type_name::<K>());
        }
    }
}

/// Writes the Works of a cluster that differ.
async fn ensure(client: &Client, works: &[OwnedWork]) -> Result<Ensured, WriteError> {
    let mut all = Ensured::Unchanged;
    for work in works {
        match work.ensure(client).await? {
            Ensured::Unchanged => {}
            Ensured::Written => all = Ensured::Written,
            Ensured::Unfinished => return Ok(Ensured::Unfinished),
        }
    }
    Ok(all)
}
