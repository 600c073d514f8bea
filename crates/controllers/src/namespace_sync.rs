//! The namespace controller. It creates each namespace of the control plane in all members, except system namespaces
//! and skipped namespaces.
//!
//! Each pair of a namespace and a cluster gets a Work, which the namespace owns. The module [`namespace_work`] computes
//! the content of the Work.

pub(crate) mod namespace_work;

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use berth_api::{Cluster, ClusterOverridePolicy};
use berth_events::EventRecorder;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::DynamicObject;
use kube::core::ApiResource;
use kube::{Client, Resource as _, ResourceExt as _};
use regex::Regex;
use tokio_util::sync::CancellationToken;

use crate::monitor::Monitor;
use crate::overrides::recorded_events as override_events;
use crate::overrides::{AppliedOverrides, OverrideError, OverridePolicy, OverrideSet};
use crate::owned_work::ensure_queue::{EnsureQueue, Report};
use crate::owned_work::{Ensured, WriteError, ensure};
use crate::reconciler::informer::WatchEvent;
use crate::reconciler::observe::{ObjectName, Observe, cluster_scoped};
use crate::reconciler::work_queue::Timers;
use crate::reconciler::{ControllerError, Inputs, Reconciler, Runtime, Workers};
use namespace_work::{Desired, should_be_synced};

/// The name of this component in events and metrics.
const COMPONENT: &str = "namespace-sync-controller";
/// Maximum number of Works written at the same time.
const WORKERS: usize = 16;

/// Runs the namespace controller until the token is cancelled. A namespace is skipped if an expression in `skipped`
/// matches its name.
///
/// # Errors
/// When one of its tasks panics.
pub async fn run(
    client: Client,
    skipped: Vec<Regex>,
    monitor: Monitor,
    shutdown: CancellationToken,
) -> Result<(), ControllerError> {
    let mut runtime = Runtime::new(client.clone(), COMPONENT, &monitor, &shutdown);
    let inputs = runtime.inputs();
    let events = inputs.record_events(COMPONENT);
    for source in Source::ALL {
        inputs.watch(&source.resource(), move |event| (source, event));
    }
    let controller = NamespaceController {
        client,
        events,
        skipped,
        namespaces: BTreeMap::new(),
        clusters: BTreeMap::new(),
        overrides: BTreeMap::new(),
        override_set: Arc::default(),
        listed: HashSet::new(),
        queue: EnsureQueue::new(monitor.queue(COMPONENT)),
    };
    runtime
        .run("namespace controller", controller, WORKERS)
        .await
}

/// A watched resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Source {
    Namespaces,
    Clusters,
    Overrides,
}

impl Source {
    const ALL: [Self; 3] = [Self::Namespaces, Self::Clusters, Self::Overrides];

    fn resource(self) -> ApiResource {
        match self {
            Self::Namespaces => ApiResource::erase::<Namespace>(&()),
            Self::Clusters => ApiResource::erase::<Cluster>(&()),
            Self::Overrides => ApiResource::erase::<ClusterOverridePolicy>(&()),
        }
    }
}

/// The names of a namespace and a cluster.
type Pair = (String, String);

struct NamespaceController {
    client: Client,
    events: EventRecorder,
    skipped: Vec<Regex>,
    namespaces: BTreeMap<String, Arc<Namespace>>,
    clusters: BTreeMap<String, Arc<Cluster>>,
    overrides: BTreeMap<String, Arc<OverridePolicy>>,
    /// The policies in `overrides` as a set that can be applied to a namespace.
    override_set: Arc<OverrideSet>,
    /// Sources whose list is complete. Works are written after all sources are listed.
    listed: HashSet<Source>,
    queue: EnsureQueue<Pair>,
}

/// The result of writing the Work of a pair.
struct Outcome {
    pair: Pair,
    namespace: Arc<Namespace>,
    applied: AppliedOverrides,
    result: Result<Ensured, WriteError>,
}

impl Reconciler for NamespaceController {
    type Event = (Source, WatchEvent);
    type Outcome = Outcome;

    fn handle_event(&mut self, (source, event): Self::Event, _: &mut Inputs<Self::Event>) {
        self.observe(&source, event);
    }

    fn handle_outcome(&mut self, outcome: Outcome, _: &mut Inputs<Self::Event>) {
        let Outcome {
            pair,
            namespace,
            applied,
            result,
        } = outcome;
        if let Some(Report::Written) = self.queue.finish(&pair, result) {
            override_events::applied(&self.events, &namespace.object_ref(&()), &pair.1, &applied);
        }
    }

    fn timers(&mut self) -> Option<&mut dyn Timers> {
        Some(&mut self.queue)
    }

    fn dispatch(&mut self, workers: &mut Workers<Outcome>) {
        if self.listed.len() < Source::ALL.len() {
            return;
        }
        while workers.has_free() {
            let Some(pair) = self.queue.start_next() else {
                return;
            };
            let namespace = self.namespaces.get(&pair.0).cloned();
            let (Some(namespace), Some(cluster)) = (namespace, self.clusters.get(&pair.1)) else {
                self.queue.skip(&pair);
                continue;
            };
            match Desired::of(&namespace, cluster, &self.override_set) {
                Ok(Desired { owned, applied }) => {
                    let client = self.client.clone();
                    workers.start(async move {
                        let result = ensure(&client, &[owned]).await;
                        Outcome {
                            pair,
                            namespace,
                            applied,
                            result,
                        }
                    });
                }
                Err(error) => self.override_failed(&pair, &namespace, error),
            }
        }
    }
}

impl Observe for NamespaceController {
    type Source = Source;

    fn applied(&mut self, source: &Source, object: DynamicObject) {
        let name = object.name_any();
        let handled = match source {
            Source::Namespaces => object.try_parse().map(|object| self.put_namespace(object)),
            Source::Clusters => object.try_parse().map(|object| self.put_cluster(object)),
            Source::Overrides => object.try_parse().map(|policy: ClusterOverridePolicy| {
                let policy = OverridePolicy::new(&name, &policy.spec);
                self.overrides.insert(name.clone(), Arc::new(policy));
                self.overrides_changed();
                self.enqueue_all();
            }),
        };
        if let Err(error) = handled {
            let kind = source.resource().kind;
            tracing::warn!(kind, name, %error, "cannot read an object: it is ignored");
        }
    }

    fn removed(&mut self, source: &Source, _: &str, name: &str) {
        match source {
            Source::Namespaces => drop(self.namespaces.remove(name)),
            Source::Clusters => drop(self.clusters.remove(name)),
            Source::Overrides => {
                self.overrides.remove(name);
                self.overrides_changed();
                self.enqueue_all();
            }
        }
    }

    fn names(&self, source: &Source) -> Vec<ObjectName> {
        match source {
            Source::Namespaces => cluster_scoped(self.namespaces.keys()),
            Source::Clusters => cluster_scoped(self.clusters.keys()),
            Source::Overrides => cluster_scoped(self.overrides.keys()),
        }
    }

    fn listed(&mut self, source: &Source) {
        self.listed.insert(*source);
        self.enqueue_all();
    }
}

impl NamespaceController {
    fn put_namespace(&mut self, namespace: Namespace) {
        let name = namespace.name_any();
        if !should_be_synced(&namespace, &self.skipped) {
            self.namespaces.remove(&name);
            return;
        }
        for cluster in self.clusters.keys() {
            self.queue.push((name.clone(), cluster.clone()));
        }
        self.namespaces.insert(name, Arc::new(namespace));
    }

    fn put_cluster(&mut self, cluster: Cluster) {
        let name = cluster.name_any();
        if cluster.metadata.deletion_timestamp.is_some() {
            self.clusters.remove(&name);
            return;
        }
        let known = self.clusters.insert(name.clone(), Arc::new(cluster));
        if known.is_none() {
            for namespace in self.namespaces.keys() {
                self.queue.push((namespace.clone(), name.clone()));
            }
        }
    }

    fn overrides_changed(&mut self) {
        self.override_set = Arc::new(OverrideSet {
            cluster: self.overrides.values().cloned().collect(),
            namespaced: Vec::new(),
        });
    }

    fn enqueue_all(&mut self) {
        for namespace in self.namespaces.keys() {
            for cluster in self.clusters.keys() {
                self.queue.push((namespace.clone(), cluster.clone()));
            }
        }
    }

    fn override_failed(&mut self, pair: &Pair, namespace: &Namespace, error: OverrideError) {
        if let Some(Report::Failed(error)) = self.queue.finish(pair, Err(error)) {
            let object = namespace.object_ref(&());
            override_events::failed(&self.events, &object, &pair.1, &error);
        }
    }
}
