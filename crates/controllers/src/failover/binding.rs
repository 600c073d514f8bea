//! The fields of a binding that failover reads.

use std::collections::HashMap;
use std::time::Instant;

use berth_api::Binding;
use berth_api::binding::{AggregatedStatusItem, ResourceHealth, clusters_evicted_from};
use berth_api::placement::Placement;
use berth_api::well_known::{APPLIED_PLACEMENT, EVICTED_FROM};
use kube::api::DynamicObject;
use serde_json::Value;

/// A binding, with the fields that evictions change as the server stores them.
#[derive(Clone, Debug)]
pub(super) struct BindingRecord {
    /// The binding, without unknown fields, labels and annotations.
    pub(super) body: Binding,
    /// `spec.clusters` as stored, with unknown fields.
    pub(super) clusters: Vec<Value>,
    /// `spec.gracefulEvictionTasks` as stored, with unknown fields.
    pub(super) tasks: Vec<Value>,
    /// The placement that the scheduler last applied, from an annotation of the binding.
    pub placement: Option<Placement>,
    /// The times at which the reports of clusters were observed to change, by cluster.
    pub(super) reported: HashMap<String, Instant>,
    /// The clusters from which the binding was evicted, and to which it may return.
    pub(super) evicted_from: Vec<String>,
}

impl BindingRecord {
    /// Reads a binding.
    ///
    /// # Errors
    /// When the object is not a binding.
    pub(super) fn read(object: &DynamicObject) -> Result<Self, serde_json::Error> {
        let list = |name: &str| {
            let found = object.data["spec"][name].as_array();
            found.cloned().unwrap_or_default()
        };
        let mut body = Binding::read(object)?;
        let placement = serde_json::from_str(body.annotation(APPLIED_PLACEMENT)).ok();
        let evicted_from = clusters_evicted_from(body.annotation(EVICTED_FROM));
        let evicted_from = evicted_from.map(str::to_owned).collect();
        // The cache holds all bindings, and nothing else reads their labels and annotations.
        body.metadata.labels = None;
        body.metadata.annotations = None;
        Ok(Self {
            body,
            clusters: list("clusters"),
            tasks: list("gracefulEvictionTasks"),
            placement,
            reported: HashMap::new(),
            evicted_from,
        })
    }

    /// Records which reports changed between an earlier version of the binding and this version. Without an earlier
    /// version, all reports are new.
    pub(super) fn record_changed_reports(&mut self, earlier: Option<&Self>, now: Instant) {
        for item in &self.body.status.aggregated_status {
            let cluster = &item.cluster_name;
            let unchanged = earlier.filter(|earlier| {
                let known = earlier.status_in(cluster);
                known.is_some_and(|known| is_same_report(known, item))
            });
            let changed = match unchanged {
                Some(earlier) => earlier.reported.get(cluster).copied(),
                None => Some(now),
            };
            if let Some(changed) = changed {
                self.reported.insert(cluster.clone(), changed);
            }
        }
    }

    /// Reports whether the binding is placed on a cluster.
    pub(super) fn is_placed_on(&self, cluster: &str) -> bool {
        self.body
            .spec
            .clusters
            .iter()
            .any(|target| target.name == cluster)
    }

    /// Reports whether the binding has a graceful eviction task for a cluster.
    pub(super) fn has_task_for(&self, cluster: &str) -> bool {
        let mut tasks = self.body.spec.graceful_eviction_tasks.iter();
        tasks.any(|task| task.from_cluster == cluster)
    }

    /// Reports whether the binding may return to a cluster: it was evicted from the cluster, or does not use its first
    /// affinity term.
    pub(super) fn may_return_to(&self, cluster: &str) -> bool {
        let placement = self.body.spec.placement.as_ref();
        let first = placement.and_then(|placement| placement.cluster_affinities.first());
        let observed = self
            .body
            .status
            .scheduler_observing_affinity_name
            .as_deref();
        let is_away = first.is_some_and(|first| {
            observed.is_some_and(|name| !name.is_empty() && name != first.affinity_name)
        });
        is_away || self.evicted_from.iter().any(|name| name == cluster)
    }

    /// Reports whether the scheduler has observed the current generation of the binding.
    pub(super) fn is_observed_by_scheduler(&self) -> bool {
        self.body.status.scheduler_observed_generation == self.body.metadata.generation
    }

    /// Returns the last status that a cluster reported.
    pub(super) fn status_in(&self, cluster: &str) -> Option<&AggregatedStatusItem> {
        let mut items = self.body.status.aggregated_status.iter();
        items.find(|item| item.cluster_name == cluster)
    }

    /// Returns the health that a cluster last reported.
    pub(super) fn health_in(&self, cluster: &str) -> Option<&ResourceHealth> {
        self.status_in(cluster)?.health.as_ref()
    }
}

/// Reports whether two items are the same report of a cluster. The health becomes unknown and known again with the readiness
/// of the cluster, without a new report.
fn is_same_report(earlier: &AggregatedStatusItem, item: &AggregatedStatusItem) -> bool {
    let is_unknown = |item: &AggregatedStatusItem| item.health == Some(ResourceHealth::Unknown);
    (earlier.health == item.health || is_unknown(earlier) || is_unknown(item))
        && earlier.status == item.status
        && earlier.applied == item.applied
        && earlier.applied_message == item.applied_message
}
