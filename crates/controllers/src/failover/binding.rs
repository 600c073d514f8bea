//! A binding as failover sees it.

use berth_api::binding::{AggregatedStatusItem, BindingSpec, BindingStatus, ResourceHealth};
use berth_api::placement::Placement;
use berth_api::well_known::APPLIED_PLACEMENT;
use kube::ResourceExt as _;
use kube::api::DynamicObject;
use serde::Deserialize as _;
use serde_json::Value;

use crate::binding_key::BindingKey;
use crate::binding_key::BindingKind;

/// A binding, read.
#[derive(Clone, Debug)]
pub struct Bound {
    /// Its name.
    pub key: BindingKey,
    /// Its version.
    pub version: Option<String>,
    /// Its UID.
    pub uid: Option<String>,
    /// The spec, as far as this version of the API knows it.
    pub spec: BindingSpec,
    /// The status.
    pub status: BindingStatus,
    /// `spec.clusters` and `spec.gracefulEvictionTasks` as they are stored, with fields that are not known here.
    pub(super) clusters: Vec<Value>,
    /// See above.
    pub(super) tasks: Vec<Value>,
    /// The placement that the scheduler has applied, where it can be read.
    pub placement: Option<Placement>,
    generation: Option<i64>,
    /// Whether it is being deleted.
    pub deleting: bool,
}

impl Bound {
    /// Reads a binding.
    ///
    /// # Errors
    /// When it does not have the shape of one.
    pub fn read(object: &DynamicObject) -> Result<Self, serde_json::Error> {
        let data = &object.data;
        let list = |name: &str| {
            let found = data["spec"][name].as_array();
            found.cloned().unwrap_or_default()
        };
        let status = match &data["status"] {
            Value::Null => BindingStatus::default(),
            status => BindingStatus::deserialize(status)?,
        };
        let applied = object.annotations().get(APPLIED_PLACEMENT);
        Ok(Self {
            key: BindingKey {
                namespace: object.namespace().unwrap_or_default(),
                name: object.name_any(),
            },
            version: object.resource_version(),
            uid: object.uid(),
            spec: BindingSpec::deserialize(&data["spec"])?,
            status,
            clusters: list("clusters"),
            tasks: list("gracefulEvictionTasks"),
            placement: applied.and_then(|text| serde_json::from_str(text).ok()),
            generation: object.metadata.generation,
            deleting: object.metadata.deletion_timestamp.is_some(),
        })
    }

    /// Namespaced or cluster-scoped.
    pub fn kind(&self) -> BindingKind {
        BindingKind::of(&self.key)
    }

    /// Whether it has replicas, or a copy, in a cluster.
    pub fn is_on(&self, cluster: &str) -> bool {
        self.spec
            .clusters
            .iter()
            .any(|target| target.name == cluster)
    }

    /// Whether it is leaving a cluster.
    pub fn is_leaving(&self, cluster: &str) -> bool {
        let mut tasks = self.spec.graceful_eviction_tasks.iter();
        tasks.any(|task| task.from_cluster == cluster)
    }

    /// Whether the scheduler has seen it as it is now.
    pub fn is_scheduled(&self) -> bool {
        self.status.scheduler_observed_generation == self.generation
    }

    /// What a cluster has reported of it last.
    pub fn report(&self, cluster: &str) -> Option<&AggregatedStatusItem> {
        let mut items = self.status.aggregated_status.iter();
        items.find(|item| item.cluster_name == cluster)
    }

    /// How it is in a cluster, where that is known.
    pub fn health(&self, cluster: &str) -> Option<&ResourceHealth> {
        self.report(cluster)?.health.as_ref()
    }
}
