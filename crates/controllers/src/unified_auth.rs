//! The unified-auth controller. Each member has a service account, the impersonator. The control plane uses this
//! account to send the requests of its users to the member. This controller lets the impersonator of a cluster
//! impersonate exactly the users, groups and service accounts that RBAC allows to use `clusters/proxy` of the cluster
//! or `proxying/proxy`.
//!
//! Two Works for each cluster create a ClusterRole and a ClusterRoleBinding in the member. The Cluster owns the Works.
//! The module [`impersonation`] computes their content.

pub(crate) mod impersonation;

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::Arc;

use berth_api::Cluster;
use berth_events::{Event, EventRecorder, Severity};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::core::ApiResource;
use kube::{Client, Resource as _};
use tokio_util::sync::CancellationToken;

use crate::monitor::Monitor;
use crate::owned_work::ensure_queue::{EnsureQueue, Report};
use crate::owned_work::{Ensured, OwnedWork, WriteError, ensure};
use crate::reconciler::informer::WatchEvent;
use crate::reconciler::store::{Former, Store};
use crate::reconciler::work_queue::Timers;
use crate::reconciler::{ControllerError, Inputs, Reconciler, Runtime, Workers};
use impersonation::Grants;

/// The name of this component in events and metrics.
const COMPONENT: &str = "unified-auth-controller";
/// Maximum number of clusters whose Works are written at the same time.
const WORKERS: usize = 16;

/// Runs the unified-auth controller until the token is cancelled.
///
/// # Errors
/// When one of its tasks panics.
pub async fn run(
    client: Client,
    monitor: Monitor,
    shutdown: CancellationToken,
) -> Result<(), ControllerError> {
    let mut runtime = Runtime::new(client.clone(), COMPONENT, &monitor, &shutdown);
    let inputs = runtime.inputs();
    let events = inputs.record_events(COMPONENT);
    for source in Source::ALL {
        inputs.watch(&source.resource(), move |event| (source, event));
    }
    let controller = UnifiedAuth {
        client,
        events,
        roles: Store::new(ignore_unreadable::<ClusterRole>),
        bindings: Store::new(ignore_unreadable::<ClusterRoleBinding>),
        clusters: Store::new(ignore_unreadable::<Cluster>),
        grants: Grants::default(),
        is_outdated: false,
        written: BTreeMap::new(),
        queue: EnsureQueue::new(monitor.queue(COMPONENT)),
    };
    runtime
        .run("unified-auth controller", controller, WORKERS)
        .await
}

/// A watched resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Source {
    Roles,
    Bindings,
    Clusters,
}

impl Source {
    const ALL: [Self; 3] = [Self::Roles, Self::Bindings, Self::Clusters];

    fn resource(self) -> ApiResource {
        match self {
            Self::Roles => ApiResource::erase::<ClusterRole>(&()),
            Self::Bindings => ApiResource::erase::<ClusterRoleBinding>(&()),
            Self::Clusters => ApiResource::erase::<Cluster>(&()),
        }
    }
}

struct UnifiedAuth {
    client: Client,
    events: EventRecorder,
    roles: Store<ClusterRole>,
    bindings: Store<ClusterRoleBinding>,
    clusters: Store<Cluster>,
    grants: Grants,
    /// True if a watched object changed since the grants were computed.
    is_outdated: bool,
    /// The last written Works of each cluster.
    written: BTreeMap<String, Vec<OwnedWork>>,
    queue: EnsureQueue<String>,
}

/// The result of creating or updating the Works of a cluster.
struct Outcome {
    cluster: String,
    works: Vec<OwnedWork>,
    result: Result<Ensured, WriteError>,
}

impl Reconciler for UnifiedAuth {
    type Event = (Source, WatchEvent);
    type Outcome = Outcome;

    fn handle_event(&mut self, (source, event): Self::Event, _: &mut Inputs<Self::Event>) {
        match source {
            Source::Roles => drop(self.roles.handle(event)),
            Source::Bindings => drop(self.bindings.handle(event)),
            Source::Clusters => drop(self.clusters.handle(event)),
        }
        self.is_outdated = true;
    }

    fn handle_outcome(&mut self, outcome: Outcome, _: &mut Inputs<Self::Event>) {
        let Outcome {
            cluster,
            works,
            result,
        } = outcome;
        if matches!(result, Ok(Ensured::Unchanged | Ensured::Written)) {
            self.written.insert(cluster.clone(), works);
        }
        match self.queue.finish(&cluster, result) {
            None => {}
            Some(Report::Written) => self.record(
                &cluster,
                Severity::Normal,
                "SyncImpersonationConfigSucceed",
                "Sync impersonation config succeed.".to_owned(),
            ),
            Some(Report::Failed(error)) => self.record(
                &cluster,
                Severity::Warning,
                "SyncImpersonationConfigFailed",
                error.to_string(),
            ),
        }
    }

    fn timers(&mut self) -> Option<&mut dyn Timers> {
        Some(&mut self.queue)
    }

    fn dispatch(&mut self, workers: &mut Workers<Outcome>) {
        // The grants can be computed only when all resources are listed.
        if !(self.roles.has_synced && self.bindings.has_synced && self.clusters.has_synced) {
            return;
        }
        if self.is_outdated {
            self.enqueue_outdated();
        }
        while workers.has_free() {
            let Some(name) = self.queue.start_next() else {
                return;
            };
            let cluster = self.clusters.objects.get(&name);
            let Some(works) = cluster.and_then(|it| impersonation::works(it, &self.grants)) else {
                self.queue.skip(&name);
                continue;
            };
            let client = self.client.clone();
            workers.start(async move {
                let result = ensure(&client, &works).await;
                Outcome {
                    cluster: name,
                    works,
                    result,
                }
            });
        }
    }
}

impl UnifiedAuth {
    /// Computes the grants, and queues the clusters whose desired Works differ from the last written Works.
    fn enqueue_outdated(&mut self) {
        self.is_outdated = false;
        let clusters = &self.clusters.objects;
        self.written.retain(|name, _| clusters.contains_key(name));
        let roles = self.roles.objects.values().map(Arc::as_ref);
        let bindings = self.bindings.objects.values().map(Arc::as_ref);
        self.grants = Grants::of(roles, bindings);
        for (name, cluster) in clusters {
            let works = impersonation::works(cluster, &self.grants);
            if works.is_some() && works.as_ref() != self.written.get(name) {
                self.queue.push(name.clone());
            }
        }
    }

    fn record(&self, cluster: &str, severity: Severity, reason: &'static str, message: String) {
        if let Some(cluster) = self.clusters.objects.get(cluster) {
            self.events.record(Event {
                object: cluster.object_ref(&()),
                severity,
                reason,
                message,
            });
        }
    }
}

fn ignore_unreadable<K: kube::Resource<DynamicType = ()>>(
    name: &str,
    error: &dyn Display,
) -> Former {
    let kind = K::kind(&());
    tracing::warn!(%kind, name, %error, "cannot read an object: it is ignored");
    Former::Kept
}
