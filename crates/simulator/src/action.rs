//! Actions: writes to the API server. The result of a write updates the cache at once, so that no action is planned
//! twice.

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
    /// Writes nothing. The controller gets an event, because the cluster is full.
    RefusePods(ObjectReference),
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
    CreateClaim(Box<PersistentVolumeClaim>),
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
    Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Serialize + DeserializeOwned
{
}

impl<K> Written for K where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Serialize + DeserializeOwned
{
}

/// The executor of actions.
pub(crate) struct Executor {
    client: Client,
}

impl Executor {
    pub(crate) fn new(client: Client) -> Self {
        Self { client }
    }

    /// Executes an action and updates the cache. An error often means that another client has changed the object.
    pub(crate) async fn execute(
        &self,
        action: Action,
        cache: &mut Cache,
    ) -> Result<(), kube::Error> {
        match action {
            Action::CreatePod(pod) => self.create(&*pod, &mut cache.pods).await,
            Action::CreateReplicaSet(set) => self.create(&*set, &mut cache.replica_sets).await,
            Action::CreateJob(job) => self.create(&*job, &mut cache.jobs).await,
            Action::CreateClaim(claim) => self.create(&*claim, &mut cache.claims).await,
            Action::CreateSlice(slice) => self.create(&*slice, &mut cache.slices).await,
            Action::ReplaceSlice(slice) => self.replace(&*slice, &mut cache.slices).await,
            Action::DeleteSlice(key) => self.delete(&key, &mut cache.slices).await,
            Action::RefusePods(_) => Ok(()),
            Action::DeletePod(key) => self.delete(&key, &mut cache.pods).await,
            Action::DeleteReplicaSet(key) => self.delete(&key, &mut cache.replica_sets).await,
            Action::DeleteJob(key) => self.delete(&key, &mut cache.jobs).await,
            Action::DeleteClaim(key) => self.delete(&key, &mut cache.claims).await,
            Action::Bind(key, node) => self.bind(&key, node, cache).await,
            Action::Scale(key, replicas) => {
                let patch = json!({ "spec": { "replicas": replicas } });
                self.patch(&key, patch, &mut cache.replica_sets).await
            }
            Action::ScaleWorkload(workload, key, replicas) => {
                let patch = json!({ "spec": { "replicas": replicas } });
                match workload {
                    Workload::Deployment => self.patch(&key, patch, &mut cache.deployments).await,
                    Workload::ReplicaSet => self.patch(&key, patch, &mut cache.replica_sets).await,
                    Workload::StatefulSet => {
                        self.patch(&key, patch, &mut cache.stateful_sets).await
                    }
                    Workload::ReplicationController => {
                        self.patch(&key, patch, &mut cache.replication_controllers)
                            .await
                    }
                }
            }
            Action::Revise(key, revision) => {
                let revision = revision.to_string();
                let patch = json!({ "metadata": { "annotations": { REVISION: revision } } });
                self.patch(&key, patch, &mut cache.replica_sets).await
            }
            Action::BindClaim(key, volume) => {
                let patch = json!({ "spec": { "volumeName": volume } });
                self.patch(&key, patch, &mut cache.claims).await
            }
            Action::PodStatus(object) => self.status(&*object, &mut cache.pods).await,
            Action::DeploymentStatus(object) => self.status(&*object, &mut cache.deployments).await,
            Action::ReplicaSetStatus(object) => {
                self.status(&*object, &mut cache.replica_sets).await
            }
            Action::ReplicationControllerStatus(object) => {
                self.status(&*object, &mut cache.replication_controllers)
                    .await
            }
            Action::StatefulSetStatus(object) => {
                self.status(&*object, &mut cache.stateful_sets).await
            }
            Action::DaemonSetStatus(object) => self.status(&*object, &mut cache.daemon_sets).await,
            Action::JobStatus(object) => self.status(&*object, &mut cache.jobs).await,
            Action::CronJobStatus(object) => self.status(&*object, &mut cache.cron_jobs).await,
            Action::ClaimStatus(object) => self.status(&*object, &mut cache.claims).await,
            Action::AutoscalerStatus(object) => self.status(&*object, &mut cache.autoscalers).await,
            Action::BudgetStatus(object) => self.status(&*object, &mut cache.budgets).await,
            Action::ServiceStatus(object) => self.status(&*object, &mut cache.services).await,
            Action::IngressStatus(object) => self.status(&*object, &mut cache.ingresses).await,
        }
    }

    fn api<K: Written>(&self, namespace: &str) -> Api<DynamicObject> {
        let resource = ApiResource::erase::<K>(&());
        Api::namespaced_with(self.client.clone(), namespace, &resource)
    }

    async fn create<K: Written>(
        &self,
        object: &K,
        kind: &mut ObjectCache<K>,
    ) -> Result<(), kube::Error> {
        let api = self.api::<K>(&object.namespace().unwrap_or_default());
        let object = encode(object).map_err(kube::Error::SerdeError)?;
        put(kind, api.create(&PostParams::default(), &object).await?)
    }

    async fn replace<K: Written>(
        &self,
        object: &K,
        kind: &mut ObjectCache<K>,
    ) -> Result<(), kube::Error> {
        let (namespace, name) = key(object);
        let object = encode(object).map_err(kube::Error::SerdeError)?;
        let replaced = self
            .api::<K>(&namespace)
            .replace(&name, &PostParams::default(), &object)
            .await?;
        put(kind, replaced)
    }

    async fn patch<K: Written>(
        &self,
        key: &Key,
        patch: Value,
        kind: &mut ObjectCache<K>,
    ) -> Result<(), kube::Error> {
        let patched = self
            .api::<K>(&key.0)
            .patch(&key.1, &PatchParams::default(), &Patch::Merge(patch))
            .await?;
        put(kind, patched)
    }

    async fn delete<K: Written>(
        &self,
        key: &Key,
        kind: &mut ObjectCache<K>,
    ) -> Result<(), kube::Error> {
        let deleted = self
            .api::<K>(&key.0)
            .delete(&key.1, &DeleteParams::background().grace_period(0))
            .await;
        match deleted {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(error) => return Err(error),
        }
        kind.remove(key);
        Ok(())
    }

    async fn status<K: Written>(
        &self,
        object: &K,
        kind: &mut ObjectCache<K>,
    ) -> Result<(), kube::Error> {
        let (namespace, name) = key(object);
        let object = encode(object).map_err(kube::Error::SerdeError)?;
        let written = self
            .api::<K>(&namespace)
            .replace_status(&name, &PostParams::default(), &object)
            .await?;
        put(kind, written)
    }

    async fn bind(&self, key: &Key, node: String, cache: &mut Cache) -> Result<(), kube::Error> {
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
        put(&mut cache.pods, pods.get(&key.1).await?)
    }
}

/// Stores the object that the server returned for a write.
fn put<K: Written>(kind: &mut ObjectCache<K>, written: DynamicObject) -> Result<(), kube::Error> {
    kind.put(decode(written).map_err(kube::Error::SerdeError)?);
    Ok(())
}
