//! The state of all bindings and clusters that `berth watch` shows. [`FleetState::apply`] updates the state after a
//! watch event, and returns the visible changes as [`Change`].

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use berth_api::binding::{BindingStatus, ResourceHealth};
use berth_api::placement::ReplicaSchedulingType;
use berth_api::well_known::CONDITION_READY;
use berth_api::{Binding, BindingKey, Cluster, condition};
use berth_explain::{Migration, MigrationState};
use kube::ResourceExt as _;
use serde_json::Value;

use super::source::WatchEvent;

/// The shown state of one binding.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct BindingRow {
    /// Kind of the resource, such as `Deployment`.
    pub(super) kind: String,
    /// Name of the policy that has claimed the resource. Empty if no policy has claimed it.
    pub(super) policy: String,
    /// Names of the bindings that depend on this binding (`spec.requiredBy`). This binding is placed in their clusters.
    pub(super) required_by: Vec<String>,
    /// Desired replicas. `None` if the resource has no replicas.
    pub(super) desired: Option<DesiredReplicas>,
    /// State in each assigned cluster, and in each cluster from which the binding is being evicted.
    pub(super) targets: BTreeMap<String, TargetState>,
    /// Message of the condition `Scheduled` if its status is `False`.
    pub(super) failure: Option<String>,
    /// State of the migration. `None` without the condition `Migrating`: an eviction alone is shown in `targets`.
    pub(super) migration: Option<MigrationState>,
}

/// Desired replicas of a binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DesiredReplicas {
    /// The total number of replicas in all clusters.
    InAll(i32),
    /// The number of replicas in each cluster, for the replica scheduling type `Duplicated`.
    InEach(i32),
}

impl DesiredReplicas {
    fn of(binding: &Binding) -> Option<Self> {
        let spec = &binding.spec;
        let placement = spec.placement.as_ref();
        let is_duplicated =
            placement.is_some_and(|p| p.scheduling_type() == ReplicaSchedulingType::Duplicated);
        let desired = if is_duplicated {
            Self::InEach
        } else {
            Self::InAll
        };
        spec.is_workload().then(|| desired(spec.replicas))
    }
}

impl fmt::Display for DesiredReplicas {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InAll(replicas) => write!(f, "{replicas}"),
            Self::InEach(replicas) => write!(f, "{replicas} each"),
        }
    }
}

/// State of a binding in a cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct TargetState {
    /// Assigned replicas. `None` while the binding is being evicted from the cluster.
    pub(super) replicas: Option<i32>,
    /// Ready replicas that the member reports.
    pub(super) ready: Option<i64>,
    /// Health that the member reports.
    pub(super) health: Option<ResourceHealth>,
}

impl TargetState {
    /// Reports whether the binding is being evicted from the cluster.
    pub(super) fn is_being_evicted(&self) -> bool {
        self.replicas.is_none()
    }
}

impl BindingRow {
    fn of(binding: &Binding) -> Self {
        let mut targets: BTreeMap<String, TargetState> = BTreeMap::new();
        for target in &binding.spec.clusters {
            targets.entry(target.name.clone()).or_default().replicas = Some(target.replicas);
        }
        // A required resource is placed in the clusters of the bindings that depend on it, and has no replicas.
        for target in binding.spec.required_by.iter().flat_map(|s| &s.clusters) {
            let state = targets.entry(target.name.clone()).or_default();
            state.replicas.get_or_insert(0);
        }
        for task in &binding.spec.graceful_eviction_tasks {
            targets.entry(task.from_cluster.clone()).or_default();
        }
        for item in &binding.status.aggregated_status {
            if let Some(target) = targets.get_mut(&item.cluster_name) {
                target.ready = item.status.as_ref().and_then(ready);
                target.health.clone_from(&item.health);
            }
        }
        Self {
            kind: binding.spec.resource.kind.clone(),
            policy: binding.policy().unwrap_or_default().to_owned(),
            required_by: binding
                .spec
                .required_by
                .iter()
                .map(|snapshot| snapshot.name.clone())
                .collect(),
            desired: DesiredReplicas::of(binding),
            targets,
            failure: failure(&binding.status),
            migration: Migration::of(binding)
                .filter(|migration| migration.condition.is_some())
                .and_then(|migration| migration.state()),
        }
    }

    /// Returns the sum of the ready replicas in all clusters. Returns `None` if no cluster has reported ready replicas.
    pub(super) fn ready(&self) -> Option<i64> {
        let reported = self.targets.values().filter_map(|target| target.ready);
        reported.reduce(|sum, ready| sum + ready)
    }

    fn assigned_replicas(&self) -> BTreeMap<String, i32> {
        let targets = self.targets.iter();
        targets
            .filter_map(|(name, target)| Some((name.clone(), target.replicas?)))
            .collect()
    }
}

/// Returns the ready replicas from a member's status. The field depends on the kind of the resource.
fn ready(status: &Value) -> Option<i64> {
    let fields = ["readyReplicas", "numberReady", "succeeded", "ready"];
    fields.iter().find_map(|field| status[field].as_i64())
}

fn failure(status: &BindingStatus) -> Option<String> {
    let condition = condition::scheduled(&status.conditions)?;
    (condition.status == "False").then(|| condition.message.clone())
}

/// A visible change of a binding or a cluster.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Change {
    /// A binding was listed or added.
    BindingAdded(BindingKey, Box<BindingRow>),
    /// The assigned clusters of a binding or their replicas changed.
    Moved {
        key: BindingKey,
        from: BTreeMap<String, i32>,
        to: BTreeMap<String, i32>,
        with_replicas: bool,
    },
    /// The eviction of a binding from a cluster started.
    EvictionStarted(BindingKey, String),
    /// The eviction of a binding from a cluster ended.
    EvictionEnded(BindingKey, String),
    /// A member reported a changed status of a resource.
    StatusReported(BindingKey, String, TargetState),
    /// The scheduler failed to place a binding.
    SchedulingFailed(BindingKey, String),
    /// A binding was deleted.
    BindingDeleted(BindingKey),
    /// A cluster was listed or added, or its readiness changed. The value is true if the cluster is ready.
    ReadinessChanged(String, bool),
    /// A cluster was deleted.
    ClusterDeleted(String),
}

/// State of all bindings and clusters.
#[derive(Debug, Default)]
pub(super) struct FleetState {
    /// Clusters by name. The value is true if the cluster is ready.
    pub(super) clusters: BTreeMap<String, bool>,
    pub(super) rows: BTreeMap<BindingKey, BindingRow>,
}

impl FleetState {
    /// Applies a watch event, and returns the changes to show.
    pub(super) fn apply(&mut self, event: WatchEvent) -> Vec<Change> {
        match event {
            WatchEvent::BindingApplied(binding) => self.binding_applied(&binding),
            WatchEvent::BindingDeleted(key) => self.binding_deleted(key).into_iter().collect(),
            WatchEvent::BindingsListed(kind, listed) => {
                let known = self.rows.keys().filter(|key| key.kind() == kind);
                let deleted: Vec<BindingKey> =
                    known.filter(|key| !listed.contains(key)).cloned().collect();
                deleted
                    .into_iter()
                    .filter_map(|key| self.binding_deleted(key))
                    .collect()
            }
            WatchEvent::ClusterApplied(cluster) => {
                self.cluster_applied(&cluster).into_iter().collect()
            }
            WatchEvent::ClusterDeleted(name) => self.cluster_deleted(name).into_iter().collect(),
            WatchEvent::ClustersListed(listed) => {
                let known: BTreeSet<String> = self.clusters.keys().cloned().collect();
                let deleted = known.difference(&listed).cloned();
                deleted
                    .filter_map(|name| self.cluster_deleted(name))
                    .collect()
            }
        }
    }

    fn binding_applied(&mut self, binding: &Binding) -> Vec<Change> {
        let (key, row) = (binding.key.clone(), BindingRow::of(binding));
        let Some(old) = self.rows.insert(key.clone(), row.clone()) else {
            return vec![Change::BindingAdded(key, Box::new(row))];
        };
        let mut changes = Vec::new();
        let (from, to) = (old.assigned_replicas(), row.assigned_replicas());
        let evicted_from = |row: &BindingRow| -> BTreeSet<String> {
            let targets = row.targets.iter();
            let evicted = targets.filter(|(_, target)| target.is_being_evicted());
            evicted.map(|(name, _)| name.clone()).collect()
        };
        let (evicted_before, evicted_now) = (evicted_from(&old), evicted_from(&row));
        let names = evicted_now.difference(&evicted_before);
        changes.extend(names.map(|name| Change::EvictionStarted(key.clone(), name.clone())));
        if from != to {
            changes.push(Change::Moved {
                key: key.clone(),
                from,
                to,
                with_replicas: row.desired.is_some(),
            });
        }
        for (name, target) in &row.targets {
            let before = old.targets.get(name).cloned().unwrap_or_default();
            let is_reported = target.ready.is_some() || target.health.is_some();
            if is_reported && (&before.ready, &before.health) != (&target.ready, &target.health) {
                changes.push(Change::StatusReported(
                    key.clone(),
                    name.clone(),
                    target.clone(),
                ));
            }
        }
        let names = evicted_before.difference(&evicted_now);
        changes.extend(names.map(|name| Change::EvictionEnded(key.clone(), name.clone())));
        if let Some(failure) = row
            .failure
            .filter(|failure| old.failure.as_ref() != Some(failure))
        {
            changes.push(Change::SchedulingFailed(key, failure));
        }
        changes
    }

    fn binding_deleted(&mut self, key: BindingKey) -> Option<Change> {
        self.rows.remove(&key).map(|_| Change::BindingDeleted(key))
    }

    fn cluster_applied(&mut self, cluster: &Cluster) -> Option<Change> {
        let status = cluster.status.as_ref();
        let conditions = status
            .map(|status| status.conditions.as_slice())
            .unwrap_or_default();
        let ready = condition::is_true(conditions, CONDITION_READY);
        let name = cluster.name_any();
        let before = self.clusters.insert(name.clone(), ready);
        (before != Some(ready)).then_some(Change::ReadinessChanged(name, ready))
    }

    fn cluster_deleted(&mut self, name: String) -> Option<Change> {
        self.clusters
            .remove(&name)
            .map(|_| Change::ClusterDeleted(name))
    }
}

#[cfg(test)]
mod tests;
