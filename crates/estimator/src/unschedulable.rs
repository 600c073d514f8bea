//! The pods of workloads that the cluster's scheduler cannot place.
//!
//! Pods are found through their owners: a Deployment owns ReplicaSets, and each ReplicaSet owns pods. As in Karmada,
//! only the ReplicaSet with the Deployment's current pod template counts, and Deployments are the only supported kind.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{Pod, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

use crate::owned_index::{Key, OwnedIndex};

/// The label of a ReplicaSet's template that the Deployment's template does not have.
const TEMPLATE_HASH: &str = "pod-template-hash";
const DEPLOYMENT: &str = "Deployment";

/// The reason why the unschedulable pods of a workload are unknown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WorkloadError {
    /// Pods of this kind of workload cannot be found.
    #[error("kind({kind}) of workload({namespace}/{name}) is not supported")]
    Kind {
        /// The kind.
        kind: String,
        /// The namespace.
        namespace: String,
        /// The name.
        name: String,
    },
    /// The workload does not exist.
    #[error("deployments.apps \"{namespace}/{name}\" not found")]
    NotFound {
        /// The namespace.
        namespace: String,
        /// The name.
        name: String,
    },
}

/// Deployments, and the pods of their ReplicaSets that cannot be placed.
#[derive(Debug, Default)]
pub struct Workloads {
    deployments: HashMap<Key, DeploymentRecord>,
    /// ReplicaSets by the UID of the owner.
    replica_sets: OwnedIndex<ReplicaSetRecord>,
    /// Times since which pods are unschedulable, by the UID of the owner.
    pods: OwnedIndex<Timestamp>,
}

#[derive(Debug)]
struct DeploymentRecord {
    uid: String,
    template: u64,
}

#[derive(Debug)]
struct ReplicaSetRecord {
    uid: String,
    created: Option<Timestamp>,
    template: u64,
}

impl Workloads {
    /// Adds or updates a Deployment.
    pub fn apply_deployment(&mut self, deployment: &Deployment) {
        let record = DeploymentRecord {
            uid: deployment.metadata.uid.clone().unwrap_or_default(),
            template: template_hash(deployment.spec.as_ref().map(|spec| &spec.template)),
        };
        self.deployments.insert(key(&deployment.metadata), record);
    }

    /// Removes a Deployment.
    pub fn remove_deployment(&mut self, metadata: &ObjectMeta) {
        self.deployments.remove(&key(metadata));
    }

    /// Removes the Deployments that do not satisfy the condition about namespace and name.
    pub fn retain_deployments(&mut self, is_kept: impl Fn(&str, &str) -> bool) {
        self.deployments
            .retain(|(namespace, name), _| is_kept(namespace, name));
    }

    /// Adds or updates a ReplicaSet.
    pub fn apply_replica_set(&mut self, set: &ReplicaSet) {
        let key = key(&set.metadata);
        let Some(owner) = controller(&set.metadata) else {
            self.replica_sets.remove(&key);
            return;
        };
        let template = set.spec.as_ref().and_then(|spec| spec.template.as_ref());
        let record = ReplicaSetRecord {
            uid: set.metadata.uid.clone().unwrap_or_default(),
            created: set.metadata.creation_timestamp.as_ref().map(|time| time.0),
            template: template_hash(template),
        };
        self.replica_sets.insert(key, owner, record);
    }

    /// Removes a ReplicaSet.
    pub fn remove_replica_set(&mut self, metadata: &ObjectMeta) {
        self.replica_sets.remove(&key(metadata));
    }

    /// Removes the ReplicaSets that do not satisfy the condition about namespace and name.
    pub fn retain_replica_sets(&mut self, is_kept: impl Fn(&str, &str) -> bool) {
        self.replica_sets.retain(is_kept);
    }

    /// Adds, updates or removes a pod, depending on its status.
    pub fn apply_pod(&mut self, pod: &Pod) {
        let key = key(&pod.metadata);
        match (controller(&pod.metadata), unschedulable_since(pod)) {
            (Some(owner), Some(since)) => self.pods.insert(key, owner, since),
            _ => self.pods.remove(&key),
        }
    }

    /// Removes a pod.
    pub fn remove_pod(&mut self, metadata: &ObjectMeta) {
        self.pods.remove(&key(metadata));
    }

    /// Removes the pods that do not satisfy the condition about namespace and name.
    pub fn retain_pods(&mut self, is_kept: impl Fn(&str, &str) -> bool) {
        self.pods.retain(is_kept);
    }

    /// Returns the number of a workload's pods that have been unschedulable for longer than `threshold`. A negative
    /// threshold is 0.
    ///
    /// # Errors
    /// When the kind is not supported, or the workload does not exist.
    pub fn unschedulable_replicas(
        &self,
        kind: &str,
        namespace: &str,
        name: &str,
        threshold: SignedDuration,
        now: Timestamp,
    ) -> Result<i32, WorkloadError> {
        if kind != DEPLOYMENT {
            return Err(WorkloadError::Kind {
                kind: kind.to_owned(),
                namespace: namespace.to_owned(),
                name: name.to_owned(),
            });
        }
        let deployment = self
            .deployments
            .get(&(namespace.to_owned(), name.to_owned()));
        let deployment = deployment.ok_or_else(|| WorkloadError::NotFound {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        })?;
        let sets = self.replica_sets.of(&deployment.uid);
        let current = sets.filter(|(_, set)| set.template == deployment.template);
        // Several ReplicaSets can have the current template after an upgrade of the cluster. The oldest one is used.
        let Some((_, current)) = current.min_by_key(|(key, set)| (set.created, &key.1)) else {
            return Ok(0);
        };
        let threshold = threshold.max(SignedDuration::ZERO);
        let pods = self
            .pods
            .of(&current.uid)
            .filter(|(_, since)| now.duration_since(**since) > threshold);
        Ok(i32::try_from(pods.count()).unwrap_or(i32::MAX))
    }
}

fn key(metadata: &ObjectMeta) -> Key {
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    (text(&metadata.namespace), text(&metadata.name))
}

/// Returns the UID of the controller that owns an object.
fn controller(metadata: &ObjectMeta) -> Option<String> {
    let mut owners = metadata.owner_references.iter().flatten();
    let owner = owners.find(|owner| owner.controller == Some(true))?;
    Some(owner.uid.clone())
}

/// Returns the time since which a pod is unschedulable. An unknown time becomes the earliest one.
fn unschedulable_since(pod: &Pod) -> Option<Timestamp> {
    let conditions = pod.status.as_ref()?.conditions.as_deref()?;
    let condition = conditions.iter().find(|it| it.type_ == "PodScheduled")?;
    let is_unschedulable =
        condition.status == "False" && condition.reason.as_deref() == Some("Unschedulable");
    let since = condition.last_transition_time.as_ref();
    is_unschedulable.then(|| since.map_or(Timestamp::MIN, |time| time.0))
}

/// Returns a hash of a pod template. Templates that differ only in the label [`TEMPLATE_HASH`] and in empty fields have
/// equal hashes.
fn template_hash(template: Option<&PodTemplateSpec>) -> u64 {
    let mut template = serde_json::to_value(template).unwrap_or_default();
    if let Some(labels) = template
        .pointer_mut("/metadata/labels")
        .and_then(Value::as_object_mut)
    {
        labels.remove(TEMPLATE_HASH);
    }
    drop_empty(&mut template);
    let mut hasher = DefaultHasher::new();
    template.hash(&mut hasher);
    hasher.finish()
}

/// Removes null, empty lists and empty objects, which Kubernetes treats as absent when it compares templates.
fn drop_empty(value: &mut Value) {
    let is_empty = |value: &Value| match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    };
    match value {
        Value::Object(fields) => {
            fields.values_mut().for_each(drop_empty);
            fields.retain(|_, field| !is_empty(field));
        }
        Value::Array(items) => items.iter_mut().for_each(drop_empty),
        _ => {}
    }
}

#[cfg(test)]
mod tests;
