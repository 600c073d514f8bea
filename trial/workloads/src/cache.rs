//! The cache of the watched objects, and the changes since the last planning.

use std::collections::{BTreeMap, HashSet};

use berth_apimachinery::dynamic_object::decode_event;
use berth_component_base::list_watch;
use futures::StreamExt as _;
use futures::stream::{self, BoxStream};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::{
    Node, PersistentVolumeClaim, Pod, ReplicationController, Service,
};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::networking::v1::Ingress;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Api, ApiResource, DynamicObject};
use kube::runtime::watcher::Event;
use kube::{Client, Resource, ResourceExt as _};

use crate::owned_pods::controller_of;
use crate::retries::Retries;
use crate::scope::Scope;

/// The namespace and the name of an object.
pub(crate) type Key = (String, String);

/// Returns the key of an object.
pub(crate) fn key<K: Resource>(object: &K) -> Key {
    (object.namespace().unwrap_or_default(), object.name_any())
}

/// The cached objects of one kind.
#[derive(Debug)]
pub(crate) struct ObjectCache<K> {
    objects: BTreeMap<Key, K>,
    /// The objects that the current list has returned so far.
    listed: Option<BTreeMap<Key, K>>,
    has_synced: bool,
    /// UIDs of changed objects and of their controllers since the last call of [`Cache::drain_changes`].
    changed: Vec<String>,
    /// Namespaces with changes since the last call of [`Cache::drain_changes`].
    changed_namespaces: HashSet<String>,
}

impl<K> Default for ObjectCache<K> {
    fn default() -> Self {
        Self {
            objects: BTreeMap::new(),
            listed: None,
            has_synced: false,
            changed: Vec::new(),
            changed_namespaces: HashSet::new(),
        }
    }
}

impl<K: Resource> ObjectCache<K> {
    pub(crate) fn get(&self, key: &Key) -> Option<&K> {
        self.objects.get(key)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &K> {
        self.objects.values()
    }

    /// Returns the objects of a namespace.
    pub(crate) fn within(&self, namespace: &str) -> impl Iterator<Item = &K> {
        let first = (namespace.to_owned(), String::new());
        self.objects
            .range(first..)
            .take_while(move |((of, _), _)| of == namespace)
            .map(|(_, object)| object)
    }

    /// Stores an object, unless the cache contains the same or a later version.
    pub(crate) fn put(&mut self, mut object: K) {
        object.meta_mut().managed_fields = None;
        let key = key(&object);
        let version = version(&object);
        let known = self.objects.get(&key).map(self::version);
        // The cache already contains the result of a write by this process, so the watch event of the write is ignored.
        let is_newer = known.is_none_or(|known| known < version || version == 0);
        if is_newer {
            self.mark_changed(&object);
            self.objects.insert(key, object);
        }
    }

    pub(crate) fn remove(&mut self, key: &Key) {
        if let Some(object) = self.objects.remove(key) {
            self.mark_changed(&object);
        }
    }

    fn mark_changed(&mut self, object: &K) {
        let metadata = object.meta();
        self.mark_namespace_changed(metadata.namespace.as_deref());
        self.changed.push(metadata.uid.clone().unwrap_or_default());
        let owner = controller_of(metadata);
        self.changed.extend(owner.map(|owner| owner.uid.clone()));
    }

    fn mark_namespace_changed(&mut self, namespace: Option<&str>) {
        if let Some(namespace) = namespace
            && !self.changed_namespaces.contains(namespace)
        {
            self.changed_namespaces.insert(namespace.to_owned());
        }
    }

    fn apply(&mut self, event: Event<K>) {
        match event {
            Event::Init => self.listed = Some(BTreeMap::new()),
            Event::InitApply(mut object) => {
                object.meta_mut().managed_fields = None;
                let listed = self.listed.get_or_insert_default();
                listed.insert(key(&object), object);
            }
            Event::InitDone => {
                let before = std::mem::take(&mut self.objects);
                self.objects = self.listed.take().unwrap_or_default();
                self.has_synced = true;
                let listed = self.objects.values().map(K::meta);
                let all = before.values().map(K::meta).chain(listed);
                let namespaces = all
                    .clone()
                    .filter_map(|metadata| metadata.namespace.clone());
                self.changed_namespaces.extend(namespaces);
                let owners = |metadata| controller_of(metadata).map(|owner| owner.uid.clone());
                let uids = all.flat_map(|metadata| [metadata.uid.clone(), owners(metadata)]);
                self.changed.extend(uids.flatten());
            }
            Event::Apply(object) => self.put(object),
            Event::Delete(object) => self.remove(&key(&object)),
        }
    }
}

/// Returns the resource version as a number. This number increases with each write on all supported servers.
fn version<K: Resource>(object: &K) -> u64 {
    let version = object.resource_version();
    version
        .and_then(|version| version.parse().ok())
        .unwrap_or_default()
}

/// Watches a kind forever. The watch recovers from errors.
fn watch_kind(client: &Client, resource: &ApiResource) -> BoxStream<'static, Event<DynamicObject>> {
    let api: Api<DynamicObject> = Api::all_with(client.clone(), resource);
    list_watch::events(api, list_watch::Config::default())
        .filter_map(|event| async { event.ok() })
        .boxed()
}

macro_rules! kinds {
    ($($field:ident: $variant:ident($kind:ty)),* $(,)?) => {
        /// The watched objects of all kinds.
        #[derive(Debug, Default)]
        pub(crate) struct Cache {
            $( pub(crate) $field: ObjectCache<$kind>, )*
            /// The objects whose last action failed.
            pub(crate) retries: Retries,
        }

        /// A change of a watched object.
        pub(crate) enum Change {
            $( $variant(Box<Event<$kind>>), )*
        }

        impl Cache {
            pub(crate) fn apply(&mut self, change: Change) {
                match change {
                    $( Change::$variant(event) => self.$field.apply(*event), )*
                }
            }

            /// Returns the ReplicaSets and Jobs. Their pods inherit the simulation options of Deployments and CronJobs.
            pub(crate) fn dependents(&self) -> impl Iterator<Item = &ObjectMeta> {
                let sets = self.replica_sets.iter().map(|set| &set.metadata);
                sets.chain(self.jobs.iter().map(|job| &job.metadata))
            }

            /// Moves the changes since the last call into the scope.
            pub(crate) fn drain_changes(&mut self, scope: &mut Scope) {
                // A change of a node affects DaemonSets, and the pods of a deleted node must be deleted.
                if !self.nodes.changed.is_empty() {
                    scope.add_all();
                }
                $(
                    for uid in self.$field.changed.drain(..) {
                        scope.add(uid);
                    }
                    scope.add_namespaces(self.$field.changed_namespaces.drain());
                )*
            }

            /// Reports whether all kinds have been listed.
            pub(crate) fn has_synced(&self) -> bool {
                $( self.$field.has_synced )&&*
            }
        }

        /// Watches all kinds forever.
        pub(crate) fn watch(client: &Client) -> BoxStream<'static, Change> {
            stream::select_all([
                $(
                    watch_kind(client, &ApiResource::erase::<$kind>(&()))
                        .filter_map(|event| async {
                            decode_event(event)
                                .inspect_err(|error| {
                                    tracing::debug!(%error, "cannot read a simulated object; skipping it");
                                })
                                .ok()
                                .map(|event| Change::$variant(Box::new(event)))
                        })
                        .boxed(),
                )*
            ])
            .boxed()
        }
    };
}

kinds! {
    nodes: Node(Node),
    pods: Pod(Pod),
    deployments: Deployment(Deployment),
    replica_sets: ReplicaSet(ReplicaSet),
    replication_controllers: ReplicationController(ReplicationController),
    stateful_sets: StatefulSet(StatefulSet),
    daemon_sets: DaemonSet(DaemonSet),
    jobs: Job(Job),
    cron_jobs: CronJob(CronJob),
    claims: Claim(PersistentVolumeClaim),
    services: Service(Service),
    ingresses: Ingress(Ingress),
    slices: Slice(EndpointSlice),
    budgets: Budget(PodDisruptionBudget),
    autoscalers: Autoscaler(HorizontalPodAutoscaler),
}
