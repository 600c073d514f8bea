//! Actions: writes to the API server. The result of a write updates the cache before the next planning, so that no action
//! is planned twice.

use berth_apimachinery::dynamic_object::{decode, encode};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::{
    Binding, ObjectReference, PersistentVolumeClaim, Pod, ReplicationController, Service,
};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::networking::v1::Ingress;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::{Client, Resource, ResourceExt as _};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::cache::{Cache, Key, ObjectCache, key};

/// The annotation of a ReplicaSet that contains its revision.
pub(crate) const REVISION: &str = "deployment.kubernetes.io/revision";

/// A write to the API server.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Action {
    CreatePod(Box<Pod>),
    DeletePod(Key),
    /// Binds a pod to a node.
    Bind(Key, String),
    CreateReplicaSet(Box<ReplicaSet>),
    /// Sets the replicas of a ReplicaSet for the rollout of its Deployment. The Deployment gets an event.
    Scale(Key, i32),
    /// Sets the replicas of a workload for an autoscaler. The event follows with [`Self::AutoscalerStatus`].
    ScaleWorkload(Workload, Key, i32),
    /// Sets the revision of a ReplicaSet in the history of its Deployment.
    Revise(Key, u64),
    DeleteReplicaSet(Key),
    CreateJob(Box<Job>),
    DeleteJob(Key),
    /// Creates a claim for a pod, with the name of this pod, of this StatefulSet.
    CreateClaim(Box<PersistentVolumeClaim>, String, Box<ObjectReference>),
    DeleteClaim(Key),
    CreateSlice(Box<EndpointSlice>),
    ReplaceSlice(Box<EndpointSlice>),
    DeleteSlice(Key),
    /// Binds a claim to a volume.
    BindClaim(Key, String),
    /// Replaces the status of a pod. The following actions do the same for other kinds.
    PodStatus(Box<Pod>),
    DeploymentStatus(Box<Deployment>),
    ReplicaSetStatus(Box<ReplicaSet>),
    ReplicationControllerStatus(Box<ReplicationController>),
    StatefulSetStatus(Box<StatefulSet>),
    DaemonSetStatus(Box<DaemonSet>),
    JobStatus(Box<Job>),
    CronJobStatus(Box<CronJob>),
    ClaimStatus(Box<PersistentVolumeClaim>),
    AutoscalerStatus(Box<HorizontalPodAutoscaler>),
    BudgetStatus(Box<PodDisruptionBudget>),
    ServiceStatus(Box<Service>),
    IngressStatus(Box<Ingress>),
}

/// A kind of workload that an autoscaler can scale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Workload {
    Deployment,
    ReplicaSet,
    StatefulSet,
    ReplicationController,
}

/// A namespaced kind that actions write.
trait Written:
    Resource<Scope = NamespaceResourceScope, DynamicType = ()>
    + Serialize
    + DeserializeOwned
    + Send
    + Sync
    + 'static
{
}

impl<K> Written for K where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
        + Serialize
        + DeserializeOwned
        + Send
        + Sync
        + 'static
{
}

impl Action {
    /// Reports whether the action only replaces the status of an object.
    pub(crate) fn is_status(&self) -> bool {
        matches!(
            self,
            Self::PodStatus(_)
                | Self::DeploymentStatus(_)
                | Self::ReplicaSetStatus(_)
                | Self::ReplicationControllerStatus(_)
                | Self::StatefulSetStatus(_)
                | Self::DaemonSetStatus(_)
                | Self::JobStatus(_)
                | Self::CronJobStatus(_)
                | Self::ClaimStatus(_)
                | Self::AutoscalerStatus(_)
                | Self::BudgetStatus(_)
                | Self::ServiceStatus(_)
                | Self::IngressStatus(_)
        )
    }
}

/// The change of the cache after a successful write.
pub(crate) struct CacheUpdate(Box<dyn FnOnce(&mut Cache) + Send>);

impl CacheUpdate {
    fn new(change: impl FnOnce(&mut Cache) + Send + 'static) -> Self {
        Self(Box::new(change))
    }

    /// Returns the update that stores a written object.
    fn put<K: Written>(
        object: K,
        kind: impl FnOnce(&mut Cache) -> &mut ObjectCache<K> + Send + 'static,
    ) -> Self {
        Self::new(move |cache| kind(cache).put(object))
    }

    /// Changes the cache.
    pub(crate) fn apply(self, cache: &mut Cache) {
        (self.0)(cache);
    }
}

/// The executor of actions.
#[derive(Clone)]
pub(crate) struct Executor {
    client: Client,
}

impl Executor {
    pub(crate) fn new(client: Client) -> Self {
        Self { client }
    }

    /// Executes an action, and returns the change of the cache. An error often means that another client has changed
    /// the object.
    #[expect(clippy::too_many_lines, reason = "one arm for each action")]
    pub(crate) async fn execute(self, action: Action) -> Result<CacheUpdate, kube::Error> {
        Ok(match action {
            Action::CreatePod(pod) => {
                CacheUpdate::put(self.create(&*pod).await?, |cache| &mut cache.pods)
            }
            Action::CreateReplicaSet(set) => {
                CacheUpdate::put(self.create(&*set).await?, |cache| &mut cache.replica_sets)
            }
            Action::CreateJob(job) => {
                CacheUpdate::put(self.create(&*job).await?, |cache| &mut cache.jobs)
            }
            Action::CreateClaim(claim, _, _) => {
                CacheUpdate::put(self.create(&*claim).await?, |cache| &mut cache.claims)
            }
            Action::CreateSlice(slice) => {
                CacheUpdate::put(self.create(&*slice).await?, |cache| &mut cache.slices)
            }
            Action::ReplaceSlice(slice) => {
                CacheUpdate::put(self.replace(&*slice).await?, |cache| &mut cache.slices)
            }
            Action::DeleteSlice(key) => {
                self.delete::<EndpointSlice>(&key).await?;
                CacheUpdate::new(move |cache| cache.slices.remove(&key))
            }
            Action::DeletePod(key) => {
                self.delete::<Pod>(&key).await?;
                CacheUpdate::new(move |cache| cache.pods.remove(&key))
            }
            Action::DeleteReplicaSet(key) => {
                self.delete::<ReplicaSet>(&key).await?;
                CacheUpdate::new(move |cache| cache.replica_sets.remove(&key))
            }
            Action::DeleteJob(key) => {
                self.delete::<Job>(&key).await?;
                CacheUpdate::new(move |cache| cache.jobs.remove(&key))
            }
            Action::DeleteClaim(key) => {
                self.delete::<PersistentVolumeClaim>(&key).await?;
                CacheUpdate::new(move |cache| cache.claims.remove(&key))
            }
            Action::Bind(key, node) => {
                CacheUpdate::put(self.bind(&key, node).await?, |cache| &mut cache.pods)
            }
            Action::Scale(key, replicas) => {
                let patch = json!({ "spec": { "replicas": replicas } });
                CacheUpdate::put(self.patch(&key, patch).await?, |cache| {
                    &mut cache.replica_sets
                })
            }
            Action::ScaleWorkload(workload, key, replicas) => {
                let patch = json!({ "spec": { "replicas": replicas } });
                match workload {
                    Workload::Deployment => {
                        CacheUpdate::put(self.patch(&key, patch).await?, |cache| {
                            &mut cache.deployments
                        })
                    }
                    Workload::ReplicaSet => {
                        CacheUpdate::put(self.patch(&key, patch).await?, |cache| {
                            &mut cache.replica_sets
                        })
                    }
                    Workload::StatefulSet => {
                        CacheUpdate::put(self.patch(&key, patch).await?, |cache| {
                            &mut cache.stateful_sets
                        })
                    }
                    Workload::ReplicationController => {
                        CacheUpdate::put(self.patch(&key, patch).await?, |cache| {
                            &mut cache.replication_controllers
                        })
                    }
                }
            }
            Action::Revise(key, revision) => {
                let revision = revision.to_string();
                let patch = json!({ "metadata": { "annotations": { REVISION: revision } } });
                CacheUpdate::put(self.patch(&key, patch).await?, |cache| {
                    &mut cache.replica_sets
                })
            }
            Action::BindClaim(key, volume) => {
                let patch = json!({ "spec": { "volumeName": volume } });
                CacheUpdate::put(self.patch(&key, patch).await?, |cache| &mut cache.claims)
            }
            Action::PodStatus(object) => {
                CacheUpdate::put(self.status(&*object).await?, |cache| &mut cache.pods)
            }
            Action::DeploymentStatus(object) => {
                CacheUpdate::put(self.status(&*object).await?, |cache| &mut cache.deployments)
            }
            Action::ReplicaSetStatus(object) => {
                CacheUpdate::put(self.status(&*object).await?, |cache| {
                    &mut cache.replica_sets
                })
            }
            Action::ReplicationControllerStatus(object) => {
                CacheUpdate::put(self.status(&*object).await?, |cache| {
                    &mut cache.replication_controllers
                })
            }
            Action::StatefulSetStatus(object) => {
                CacheUpdate::put(self.status(&*object).await?, |cache| {
                    &mut cache.stateful_sets
                })
            }
            Action::DaemonSetStatus(object) => {
                CacheUpdate::put(self.status(&*object).await?, |cache| &mut cache.daemon_sets)
            }
            Action::JobStatus(object) => {
                CacheUpdate::put(self.status(&*object).await?, |cache| &mut cache.jobs)
            }
            Action::CronJobStatus(object) => {
                CacheUpdate::put(self.status(&*object).await?, |cache| &mut cache.cron_jobs)
            }
            Action::ClaimStatus(object) => {
                CacheUpdate::put(self.status(&*object).await?, |cache| &mut cache.claims)
            }
            Action::AutoscalerStatus(object) => {
                CacheUpdate::put(self.status(&*object).await?, |cache| &mut cache.autoscalers)
            }
            Action::BudgetStatus(object) => {
                CacheUpdate::put(self.status(&*object).await?, |cache| &mut cache.budgets)
            }
            Action::ServiceStatus(object) => {
                CacheUpdate::put(self.status(&*object).await?, |cache| &mut cache.services)
            }
            Action::IngressStatus(object) => {
                CacheUpdate::put(self.status(&*object).await?, |cache| &mut cache.ingresses)
            }
        })
    }

    fn api<K: Written>(&self, namespace: &str) -> Api<DynamicObject> {
        let resource = ApiResource::erase::<K>(&());
        Api::namespaced_with(self.client.clone(), namespace, &resource)
    }

    async fn create<K: Written>(&self, object: &K) -> Result<K, kube::Error> {
        let api = self.api::<K>(&object.namespace().unwrap_or_default());
        let object = encode(object).map_err(kube::Error::SerdeError)?;
        written(api.create(&PostParams::default(), &object).await?)
    }

    async fn replace<K: Written>(&self, object: &K) -> Result<K, kube::Error> {
        let (namespace, name) = key(object);
        let object = encode(object).map_err(kube::Error::SerdeError)?;
        let replaced = self
            .api::<K>(&namespace)
            .replace(&name, &PostParams::default(), &object)
            .await?;
        written(replaced)
    }

    async fn patch<K: Written>(&self, key: &Key, patch: Value) -> Result<K, kube::Error> {
        let patched = self
            .api::<K>(&key.0)
            .patch(&key.1, &PatchParams::default(), &Patch::Merge(patch))
            .await?;
        written(patched)
    }

    async fn delete<K: Written>(&self, key: &Key) -> Result<(), kube::Error> {
        let deleted = self
            .api::<K>(&key.0)
            .delete(&key.1, &DeleteParams::background().grace_period(0))
            .await;
        match deleted {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            Err(error) => Err(error),
        }
    }

    async fn status<K: Written>(&self, object: &K) -> Result<K, kube::Error> {
        let (namespace, name) = key(object);
        let object = encode(object).map_err(kube::Error::SerdeError)?;
        let replaced = self
            .api::<K>(&namespace)
            .replace_status(&name, &PostParams::default(), &object)
            .await?;
        written(replaced)
    }

    async fn bind(&self, key: &Key, node: String) -> Result<Pod, kube::Error> {
        let pods = self.api::<Pod>(&key.0);
        let binding = Binding {
            metadata: kube::api::ObjectMeta {
                name: Some(key.1.clone()),
                namespace: Some(key.0.clone()),
                ..Default::default()
            },
            target: ObjectReference {
                api_version: Some("v1".to_owned()),
                kind: Some("Node".to_owned()),
                name: Some(node),
                ..ObjectReference::default()
            },
        };
        let bound: Value = pods
            .create_subresource("binding", &key.1, &PostParams::default(), &binding)
            .await?;
        tracing::trace!(pod = key.1, status = %bound["status"], "bound a pod");
        written(pods.get(&key.1).await?)
    }
}

/// Decodes the object that the server returned for a write.
fn written<K: Written>(object: DynamicObject) -> Result<K, kube::Error> {
    decode(object).map_err(kube::Error::SerdeError)
}
