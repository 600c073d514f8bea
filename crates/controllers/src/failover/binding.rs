//! The fields of a binding that failover reads.

use std::collections::HashMap;
use std::time::Instant;

use berth_api::binding::{AggregatedStatusItem, BindingSpec, BindingStatus, ResourceHealth};
use berth_api::placement::Placement;
use berth_api::well_known::APPLIED_PLACEMENT;
use berth_api::{BindingKey, BindingKind};
use kube::ResourceExt as _;
use kube::api::DynamicObject;
use serde::Deserialize as _;
use serde_json::Value;

/// The fields of a ResourceBinding or ClusterResourceBinding.
#[derive(Clone, Debug)]
pub(super) struct Binding {
    /// The key.
    pub key: BindingKey,
    /// The resource version.
    pub version: Option<String>,
    /// The UID.
    pub uid: Option<String>,
    /// The spec, without unknown fields.
    pub spec: BindingSpec,
    /// The status.
    pub status: BindingStatus,
    /// `spec.clusters` as stored, with unknown fields.
    pub(super) clusters: Vec<Value>,
    /// `spec.gracefulEvictionTasks` as stored, with unknown fields.
    pub(super) tasks: Vec<Value>,
    /// The placement that the scheduler last applied, from an annotation of the binding.
    pub placement: Option<Placement>,
    generation: Option<i64>,
    /// True if the binding is being deleted.
    pub deleting: bool,
    /// The times at which the reports of clusters were observed to change, by cluster.
    pub(super) reported: HashMap<String, Instant>,
}

impl Binding {
    /// Reads a binding.
    ///
    /// # Errors
    /// When the object is not a binding.
    pub(super) fn read(object: &DynamicObject) -> Result<Self, serde_json::Error> {
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
            key: BindingKey::of(&object.metadata),
            version: object.resource_version(),
            uid: object.uid(),
            spec: BindingSpec::deserialize(&data["spec"])?,
            status,
            clusters: list("clusters"),
            tasks: list("gracefulEvictionTasks"),
            placement: applied.and_then(|text| serde_json::from_str(text).ok()),
            generation: object.metadata.generation,
            deleting: object.metadata.deletion_timestamp.is_some(),
            reported: HashMap::new(),
        })
    }

    /// Records which reports changed between an earlier version of the binding and this version. Without an earlier
    /// version, all reports are new.
    pub(super) fn record_changed_reports(&mut self, earlier: Option<&Self>, now: Instant) {
        for item in &self.status.aggregated_status {
            let cluster = &item.cluster_name;
            let unchanged = earlier.filter(|earlier| earlier.status_in(cluster) == Some(item));
            let changed = match unchanged {
                Some(earlier) => earlier.reported.get(cluster).copied(),
                None => Some(now),
            };
            if let Some(changed) = changed {
                self.reported.insert(cluster.clone(), changed);
            }
        }
    }

    /// Returns the kind of the binding.
    pub(super) fn kind(&self) -> BindingKind {
        self.key.kind()
    }

    /// Reports whether the binding is placed on a cluster.
    pub(super) fn is_placed_on(&self, cluster: &str) -> bool {
        self.spec
            .clusters
            .iter()
            .any(|target| target.name == cluster)
    }

    /// Reports whether the binding has a graceful eviction task for a cluster.
    pub(super) fn has_task_for(&self, cluster: &str) -> bool {
        let mut tasks = self.spec.graceful_eviction_tasks.iter();
        tasks.any(|task| task.from_cluster == cluster)
    }

    /// Reports whether the scheduler has observed the current generation of the binding.
    pub(super) fn is_observed_by_scheduler(&self) -> bool {
        self.status.scheduler_observed_generation == self.generation
    }

    /// Returns the last status that a cluster reported.
    pub(super) fn status_in(&self, cluster: &str) -> Option<&AggregatedStatusItem> {
        let mut items = self.status.aggregated_status.iter();
        items.find(|item| item.cluster_name == cluster)
    }

    /// Returns the health that a cluster last reported.
    pub(super) fn health_in(&self, cluster: &str) -> Option<&ResourceHealth> {
        self.status_in(cluster)?.health.as_ref()
    }
}
