//! The workload that an autoscaler scales.

use std::collections::BTreeMap;

use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt as _;

use crate::action::Workload;
use crate::cache::{Cache, Key};
use crate::owned_pods;

/// A workload with its replicas and its pod selector.
pub(crate) struct ScaleTarget<'a> {
    workload: Workload,
    metadata: &'a ObjectMeta,
    replicas: i32,
    selector: Option<&'a BTreeMap<String, String>>,
}

/// The reason why the target of an autoscaler is unknown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TargetError {
    #[error(
        "the simulation scales Deployments, ReplicaSets, StatefulSets and ReplicationControllers, not kind {0}"
    )]
    OtherKind(String),
    #[error(
        "the HPA controller was unable to get the target's current scale: {kind} {name:?} not found"
    )]
    NotFound { kind: String, name: String },
}

impl<'a> ScaleTarget<'a> {
    /// Returns the target of an autoscaler.
    pub(crate) fn find(
        autoscaler: &HorizontalPodAutoscaler,
        cache: &'a Cache,
    ) -> Result<Self, TargetError> {
        let reference = &autoscaler.spec.scale_target_ref;
        let (kind, name) = (reference.kind.clone(), reference.name.clone());
        let key = (autoscaler.namespace().unwrap_or_default(), name.clone());
        let found = match kind.as_str() {
            "Deployment" => cache.deployments.get(&key).map(|object| {
                let spec = object.spec.as_ref();
                Self::new(
                    Workload::Deployment,
                    &object.metadata,
                    spec.and_then(|spec| spec.replicas),
                    spec.and_then(|spec| spec.selector.match_labels.as_ref()),
                )
            }),
            "ReplicaSet" => cache.replica_sets.get(&key).map(|object| {
                let spec = object.spec.as_ref();
                Self::new(
                    Workload::ReplicaSet,
                    &object.metadata,
                    spec.and_then(|spec| spec.replicas),
                    spec.and_then(|spec| spec.selector.match_labels.as_ref()),
                )
            }),
            "StatefulSet" => cache.stateful_sets.get(&key).map(|object| {
                let spec = object.spec.as_ref();
                Self::new(
                    Workload::StatefulSet,
                    &object.metadata,
                    spec.and_then(|spec| spec.replicas),
                    spec.and_then(|spec| spec.selector.match_labels.as_ref()),
                )
            }),
            "ReplicationController" => cache.replication_controllers.get(&key).map(|object| {
                let spec = object.spec.as_ref();
                Self::new(
                    Workload::ReplicationController,
                    &object.metadata,
                    spec.and_then(|spec| spec.replicas),
                    spec.and_then(|spec| spec.selector.as_ref()),
                )
            }),
            _ => return Err(TargetError::OtherKind(kind)),
        };
        found.ok_or(TargetError::NotFound { kind, name })
    }

    fn new(
        workload: Workload,
        metadata: &'a ObjectMeta,
        replicas: Option<i32>,
        selector: Option<&'a BTreeMap<String, String>>,
    ) -> Self {
        Self {
            workload,
            metadata,
            replicas: replicas.unwrap_or(1),
            selector,
        }
    }

    pub(crate) fn workload(&self) -> Workload {
        self.workload
    }

    pub(crate) fn key(&self) -> Key {
        let metadata = self.metadata;
        (
            metadata.namespace.clone().unwrap_or_default(),
            metadata.name.clone().unwrap_or_default(),
        )
    }

    pub(crate) fn replicas(&self) -> i32 {
        self.replicas
    }

    /// Returns an annotation of the workload.
    pub(crate) fn annotation(&self, key: &str) -> Option<&'a str> {
        let annotations = self.metadata.annotations.as_ref()?;
        annotations.get(key).map(String::as_str)
    }

    /// Returns the pods of the workload, except finished pods and pods that are being deleted.
    pub(crate) fn pods(&self, cache: &'a Cache) -> impl Iterator<Item = &'a Pod> {
        let selector = self.selector.filter(|labels| !labels.is_empty());
        let pods = cache
            .pods
            .within(self.metadata.namespace.as_deref().unwrap_or_default());
        pods.filter(move |pod| {
            let selects = |labels: &BTreeMap<String, String>| {
                labels
                    .iter()
                    .all(|(key, value)| pod.labels().get(key) == Some(value))
            };
            selector.is_some_and(selects)
                && pod.metadata.deletion_timestamp.is_none()
                && !owned_pods::is_finished(pod)
        })
    }
}
