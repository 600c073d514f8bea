//! The state of all bindings and clusters that `berth watch` shows. [`FleetState::apply`] updates the state after a
//! watch event, and returns the visible changes as [`Change`]. The crate `berth_diagnosis` tells whether a workload is
//! well, from its binding and the state of its clusters.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use berth_api::placement::ReplicaSchedulingType;
use berth_api::{Binding, BindingKey, Cluster};
use berth_diagnosis::{
    ClusterState, ClusterStates, CopyRow, CopyState, HealthCounts, Migration, MigrationState,
    WorkloadRow,
};
use jiff::Timestamp;
use kube::ResourceExt as _;

use super::source::WatchEvent;

/// The shown state of one binding.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct BindingRow {
    /// The health of the workload, and its cause.
    pub(super) workload: WorkloadRow,
    /// The copies in the assigned clusters and in those that it leaves, sorted by cluster.
    pub(super) copies: Vec<CopyRow>,
    /// Names of the clusters from which the binding is being evicted.
    pub(super) evicted_from: BTreeSet<String>,
    /// Name of the policy that has claimed the resource. Empty if no policy has claimed it.
    pub(super) policy: String,
    /// Names of the bindings that depend on this binding (`spec.requiredBy`). This binding is placed in their clusters.
    pub(super) required_by: Vec<String>,
    /// Desired replicas. `None` if the resource has no replicas.
    pub(super) desired: Option<DesiredReplicas>,
    /// Assigned replicas by cluster.
    assigned: BTreeMap<String, i32>,
    /// State and message of the migration. `None` without the condition `Migrating`: an eviction alone is shown in the
    /// clusters.
    pub(super) migration: Option<(MigrationState, String)>,
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

impl BindingRow {
    fn of(binding: &Binding, clusters: &dyn Fn(&str) -> ClusterState, now: Timestamp) -> Self {
        let spec = &binding.spec;
        let targets = spec.targets().into_iter();
        let migration = Migration::of(binding).filter(|migration| migration.condition.is_some());
        Self {
            workload: WorkloadRow::of(binding, clusters, now),
            copies: CopyRow::of(binding, clusters),
            evicted_from: spec
                .graceful_eviction_tasks
                .iter()
                .map(|task| task.from_cluster.clone())
                .collect(),
            policy: binding.policy().unwrap_or_default().to_owned(),
            required_by: spec
                .required_by
                .iter()
                .map(|snapshot| snapshot.name.clone())
                .collect(),
            desired: DesiredReplicas::of(binding),
            assigned: targets
                .map(|target| (target.name, target.replicas))
                .collect(),
            migration: migration.and_then(|of| Some((of.state()?, of.message()))),
        }
    }

    /// Reports whether the copy leaves its cluster.
    pub(super) fn leaves(&self, copy: &CopyRow) -> bool {
        copy.leaving || self.is_evicted_from(&copy.cluster)
    }

    /// Reports whether the binding is being evicted from a cluster that is no target.
    fn is_evicted_from(&self, cluster: &str) -> bool {
        self.evicted_from.contains(cluster) && !self.assigned.contains_key(cluster)
    }

    /// Returns the clusters from which the binding is being evicted, and which report no copy.
    pub(super) fn without_report(&self) -> impl Iterator<Item = &str> {
        let is_reported = |name: &str| self.copies.iter().any(|copy| copy.cluster == name);
        let names = self.evicted_from.iter().map(String::as_str);
        names.filter(move |name| !is_reported(name))
    }

    fn copy(&self, cluster: &str) -> Option<&CopyRow> {
        self.copies.iter().find(|copy| copy.cluster == cluster)
    }
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
    /// Old copies of a binding wait for the new ones, for the reason in the message.
    MigrationStarted(BindingKey, String),
    /// No old copy waits any more.
    MigrationEnded(BindingKey),
    /// A member reported a changed state of a copy.
    StatusReported(BindingKey, CopyRow),
    /// The health of a workload changed, or its cause while it needs attention.
    HealthChanged(BindingKey, Box<WorkloadRow>),
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
    pub(super) clusters: ClusterStates,
    /// True if all clusters are known. Before, the health of workloads is not reported, because it depends on them.
    knows_clusters: bool,
    pub(super) rows: BTreeMap<BindingKey, BindingRow>,
    /// The bindings of the rows, which are diagnosed again when a cluster changes or time passes.
    bindings: BTreeMap<BindingKey, Box<Binding>>,
}

impl FleetState {
    /// Applies a watch event, and returns the changes to show.
    pub(super) fn apply(&mut self, event: WatchEvent, now: Timestamp) -> Vec<Change> {
        match event {
            WatchEvent::BindingApplied(binding) => self.binding_applied(binding, now),
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
            WatchEvent::ClusterApplied(cluster) => self.cluster_applied(&cluster, now),
            WatchEvent::ClusterDeleted(name) => self.cluster_deleted(name, now),
            WatchEvent::ClustersListed(listed) => self.clusters_listed(&listed, now),
        }
    }

    /// Diagnoses the workloads whose health the passage of time has changed, and returns the changes to show.
    pub(super) fn advance(&mut self, now: Timestamp) -> Vec<Change> {
        self.diagnose_again(now, |row| {
            row.workload.health_at(now) != row.workload.health
        })
    }

    /// Returns the numbers of workloads by health.
    pub(super) fn counts(&self, now: Timestamp) -> HealthCounts {
        let mut counts = HealthCounts::default();
        for row in self.rows.values() {
            counts.add(row.workload.health_at(now));
        }
        counts
    }

    fn row_of(&self, binding: &Binding, now: Timestamp) -> BindingRow {
        let state = |name: &str| match self.clusters.get(name) {
            Some(state) => state.clone(),
            None if self.knows_clusters => ClusterState::Missing,
            None => ClusterState::Ready,
        };
        BindingRow::of(binding, &state, now)
    }

    fn binding_applied(&mut self, binding: Box<Binding>, now: Timestamp) -> Vec<Change> {
        let (key, row) = (binding.key.clone(), self.row_of(&binding, now));
        self.bindings.insert(key.clone(), binding);
        let old = self.rows.insert(key.clone(), row.clone());
        let mut changes = match &old {
            None => vec![Change::BindingAdded(key.clone(), Box::new(row.clone()))],
            Some(old) => changes_of(&key, old, &row),
        };
        let old = old.as_ref().map(|old| &old.workload);
        changes.extend(self.health_change(&key, old, &row.workload));
        changes
    }

    /// Diagnoses the workloads that `is_affected` selects.
    fn diagnose_again(
        &mut self,
        now: Timestamp,
        is_affected: impl Fn(&BindingRow) -> bool,
    ) -> Vec<Change> {
        let affected = self.rows.iter().filter(|(_, row)| is_affected(row));
        let keys: Vec<BindingKey> = affected.map(|(key, _)| key.clone()).collect();
        let mut changes = Vec::new();
        for key in keys {
            let Some(binding) = self.bindings.get(&key) else {
                continue;
            };
            let row = self.row_of(binding, now);
            let new = row.workload.clone();
            let old = self.rows.insert(key.clone(), row).map(|old| old.workload);
            changes.extend(self.health_change(&key, old.as_ref(), &new));
        }
        changes
    }

    /// Returns the change to show after a diagnosis. A workload that is new or waits is only shown if it then needs
    /// attention or is well.
    fn health_change(
        &self,
        key: &BindingKey,
        old: Option<&WorkloadRow>,
        new: &WorkloadRow,
    ) -> Option<Change> {
        let is_bad = new.health.needs_attention();
        let is_shown = match old {
            None => is_bad,
            Some(old) if old.health != new.health => true,
            Some(old) => is_bad && old.reason != new.reason,
        };
        (is_shown && self.knows_clusters)
            .then(|| Change::HealthChanged(key.clone(), Box::new(new.clone())))
    }

    fn binding_deleted(&mut self, key: BindingKey) -> Option<Change> {
        self.bindings.remove(&key);
        self.rows.remove(&key).map(|_| Change::BindingDeleted(key))
    }

    fn cluster_applied(&mut self, cluster: &Cluster, now: Timestamp) -> Vec<Change> {
        let name = cluster.name_any();
        let state = ClusterState::of(Some(cluster));
        let is_ready = state == ClusterState::Ready;
        let before = self.clusters.insert(name.clone(), state.clone());
        if before.as_ref() == Some(&state) {
            return Vec::new();
        }
        let mut changes = Vec::new();
        if before.map(|before| before == ClusterState::Ready) != Some(is_ready) {
            changes.push(Change::ReadinessChanged(name.clone(), is_ready));
        }
        if self.knows_clusters {
            changes.extend(self.diagnose_again(now, |row| row.copy(&name).is_some()));
        }
        changes
    }

    fn cluster_deleted(&mut self, name: String, now: Timestamp) -> Vec<Change> {
        if self.clusters.remove(&name).is_none() {
            return Vec::new();
        }
        let mut changes = vec![Change::ClusterDeleted(name.clone())];
        changes.extend(self.diagnose_again(now, |row| row.copy(&name).is_some()));
        changes
    }

    fn clusters_listed(&mut self, listed: &BTreeSet<String>, now: Timestamp) -> Vec<Change> {
        let known: BTreeSet<String> = self.clusters.keys().cloned().collect();
        let deleted = known.difference(listed).cloned();
        let mut changes: Vec<Change> = deleted
            .flat_map(|name| self.cluster_deleted(name, now))
            .collect();
        if !self.knows_clusters {
            self.knows_clusters = true;
            let bindings = self.bindings.iter();
            let rows = bindings.map(|(key, binding)| (key.clone(), self.row_of(binding, now)));
            self.rows = rows.collect();
            let rows = self.rows.iter();
            changes
                .extend(rows.filter_map(|(key, row)| self.health_change(key, None, &row.workload)));
        }
        changes
    }
}

/// Returns the changes of a binding, except that of its health.
fn changes_of(key: &BindingKey, old: &BindingRow, row: &BindingRow) -> Vec<Change> {
    let mut changes = Vec::new();
    let evicted = |row: &BindingRow| -> BTreeSet<String> {
        let names = row.evicted_from.iter();
        let names = names.filter(|name| row.is_evicted_from(name));
        names.cloned().collect()
    };
    let (evicted_before, evicted_now) = (evicted(old), evicted(row));
    let names = evicted_now.difference(&evicted_before);
    changes.extend(names.map(|name| Change::EvictionStarted(key.clone(), name.clone())));
    if old.assigned != row.assigned {
        changes.push(Change::Moved {
            key: key.clone(),
            from: old.assigned.clone(),
            to: row.assigned.clone(),
            with_replicas: row.desired.is_some(),
        });
    }
    if let Some((state, message)) = &row.migration
        && old.migration.as_ref().map(|(state, _)| state) != Some(state)
    {
        changes.push(Change::MigrationStarted(key.clone(), message.clone()));
    }
    let report = |copy: &CopyRow| (copy.ready, copy.state);
    for copy in &row.copies {
        let is_reported = !matches!(
            copy.state,
            CopyState::Pending | CopyState::Stale | CopyState::ClusterMissing
        );
        if is_reported && old.copy(&copy.cluster).map(report) != Some(report(copy)) {
            changes.push(Change::StatusReported(key.clone(), copy.clone()));
        }
    }
    let names = evicted_before.difference(&evicted_now);
    changes.extend(names.map(|name| Change::EvictionEnded(key.clone(), name.clone())));
    if old.migration.is_some() && row.migration.is_none() {
        changes.push(Change::MigrationEnded(key.clone()));
    }
    changes
}

#[cfg(test)]
mod tests;
