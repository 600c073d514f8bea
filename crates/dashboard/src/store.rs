//! The store of the dashboard: compact rows of clusters and bindings, and the moves since the dashboard started.
//!
//! The task in `watches` changes the store. Requests only read it. The health of a workload comes from
//! `berth-diagnosis`; the store only decides when a binding must be diagnosed again: after a change of the binding, after
//! a change of a cluster with a copy, and at the time that the row names. The last two may concern all bindings, so that
//! their diagnosis is done in slices, and requests can read the store between two slices.

mod binding_row;
mod cluster_row;
mod connection;
mod moves;
mod watches;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use berth_api::cluster::ResourceUsage;
use berth_api::{Binding, BindingKey, BindingKind};
use berth_diagnosis::{ClusterState, Diagnosis, HealthCounts, PausedEvictions};
use jiff::Timestamp;

pub(crate) use binding_row::{BindingRow, PolicyName, Targets};
pub(crate) use cluster_row::{ClusterHealth, ClusterRow};
pub(crate) use connection::{Connections, Outage};
pub(crate) use moves::{Cause, Move, Moves};
pub(crate) use watches::{SharedState, run_watches};

/// The numbers of bindings and replicas on a cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Load {
    pub(crate) bindings: usize,
    pub(crate) replicas: i64,
}

/// The rows of clusters and bindings by name, with numbers that are computed from the rows.
#[derive(Debug, Default)]
pub(crate) struct Store {
    pub(crate) clusters: BTreeMap<String, ClusterRow>,
    pub(crate) bindings: BTreeMap<BindingKey, BindingRow>,
    pub(crate) moves: Moves,
    pub(crate) loads: BTreeMap<Box<str>, Load>,
    /// True after the first lists of clusters, ResourceBindings and ClusterResourceBindings are complete, and each binding
    /// is diagnosed with the listed clusters.
    pub(crate) has_synced: bool,
    /// The time at which the first lists were complete. Moves before this time are unknown.
    pub(crate) synced_at: Option<Timestamp>,
    pub(crate) connections: Connections,
    /// The clusters whose state has changed since the last call of [`Self::diagnose_again`].
    changed: BTreeSet<Box<str>>,
    /// The bindings that must be diagnosed again.
    outdated: BTreeSet<BindingKey>,
    /// The earliest time at which another row may become outdated without a change.
    next_change: Option<Timestamp>,
}

impl Store {
    /// Stores a binding. If its clusters or replicas have changed and `moved_at` is set, records a move at this time.
    /// Reports whether something that the pages show has changed.
    pub(crate) fn apply_binding(
        &mut self,
        binding: Binding,
        moved_at: Option<Timestamp>,
        now: Timestamp,
    ) -> bool {
        let name = binding.key.clone();
        let scheduler = binding.spec.scheduler().to_owned();
        let mut row = BindingRow::of(binding, &|name| self.state(name), now);
        let old = self.bindings.get(&name);
        if let Some(old) = old {
            row.keep_inputs(old);
        }
        self.outdated.remove(&name);
        self.next_change = earlier(self.next_change, row.next_change());
        if old.is_some_and(|old| old.shows_the_same_as(&row)) {
            return false;
        }
        let before = old.map(|old| old.targets.clone()).unwrap_or_default();
        // A dependency moves with the workloads that need it, so that its moves are no news.
        if let Some(at) = moved_at
            && before != row.targets
            && !row.is_dependency()
        {
            self.moves.record(Move {
                at,
                binding: name.clone(),
                workload: row.workload(),
                cause: Cause::of(old, &row, scheduler),
                before,
                after: row.targets.clone(),
            });
        }
        self.count(&row, 1);
        if let Some(old) = self.bindings.insert(name, row) {
            self.count(&old, -1);
        }
        true
    }

    /// Removes a binding. If the binding had clusters, records a move to no cluster.
    pub(crate) fn remove_binding(&mut self, name: &BindingKey, at: Timestamp) {
        let Some(old) = self.bindings.remove(name) else {
            return;
        };
        self.count(&old, -1);
        if !old.targets.is_empty() && !old.is_dependency() {
            self.moves.record(Move {
                at,
                binding: name.clone(),
                workload: old.workload(),
                before: old.targets,
                after: Targets::default(),
                cause: Cause::Deleted,
            });
        }
    }

    /// Removes the bindings that are absent from a complete list of a kind.
    pub(crate) fn retain_bindings(
        &mut self,
        kind: BindingKind,
        listed: &BTreeSet<BindingKey>,
        at: Timestamp,
    ) {
        let deleted: Vec<BindingKey> = self
            .bindings
            .keys()
            .filter(|name| name.kind() == kind && !listed.contains(*name))
            .cloned()
            .collect();
        for name in deleted {
            self.remove_binding(&name, at);
        }
    }

    /// Stores a cluster. The bindings with a copy there are diagnosed again by the next call of
    /// [`Self::diagnose_again`].
    pub(crate) fn apply_cluster(&mut self, name: String, row: ClusterRow) {
        if self.clusters.get(&name).map(|old| &old.state) != Some(&row.state) {
            self.changed.insert(name.as_str().into());
        }
        self.clusters.insert(name, row);
    }

    /// Removes a cluster.
    pub(crate) fn remove_cluster(&mut self, name: &str) {
        if self.clusters.remove(name).is_some() {
            self.changed.insert(name.into());
        }
    }

    /// Reports whether [`Self::diagnose_again`] has something to do.
    pub(crate) fn is_outdated(&self, now: Timestamp) -> bool {
        !self.outdated.is_empty() || self.has_new_outdated(now)
    }

    fn has_new_outdated(&self, now: Timestamp) -> bool {
        !self.changed.is_empty() || self.next_change.is_some_and(|at| at <= now)
    }

    /// Diagnoses bindings again until the time `budget` has passed, but at least one unless it is zero: those that have a
    /// copy in a changed cluster, and those whose row was valid only until now. Reports whether some remain for the next
    /// call.
    pub(crate) fn diagnose_again(&mut self, now: Timestamp, budget: Duration) -> bool {
        if self.has_new_outdated(now) {
            self.collect_outdated(now);
        }
        let clusters = &self.clusters;
        let state = |name: &str| state_in(clusters, name);
        let start = Instant::now();
        let mut spent = Duration::ZERO;
        while spent < budget
            && let Some(key) = self.outdated.pop_first()
        {
            if let Some(row) = self.bindings.get_mut(&key) {
                row.diagnose(&key, &state, now);
                self.next_change = earlier(self.next_change, row.next_change());
            }
            spent = start.elapsed();
        }
        !self.outdated.is_empty()
    }

    /// Notes the bindings that have a copy in a changed cluster, or whose row was valid only until now.
    fn collect_outdated(&mut self, now: Timestamp) {
        let changed = std::mem::take(&mut self.changed);
        self.next_change = None;
        for (key, row) in &self.bindings {
            let at = row.next_change();
            let is_due = at.is_some_and(|at| at <= now);
            let is_concerned =
                !changed.is_empty() && row.has_copy_in(|name| changed.contains(name));
            if is_due || is_concerned {
                self.outdated.insert(key.clone());
            } else {
                self.next_change = earlier(self.next_change, at);
            }
        }
    }

    /// Returns the whole diagnosis of a binding.
    pub(crate) fn diagnosis(
        &self,
        key: &BindingKey,
        row: &BindingRow,
        now: Timestamp,
    ) -> Diagnosis {
        row.diagnosis(key, &|name| self.state(name), now)
    }

    /// Returns the numbers of workloads by health.
    pub(crate) fn health(&self, now: Timestamp) -> HealthCounts {
        let mut counts = HealthCounts::default();
        for row in self.bindings.values() {
            counts.add(row.workload.health_at(now));
        }
        counts
    }

    /// Returns the number of clusters in a state.
    pub(crate) fn clusters_in(&self, health: ClusterHealth) -> usize {
        let rows = self.clusters.values();
        rows.filter(|row| row.health() == health).count()
    }

    /// Returns the sum of a resource over the clusters that are ready, and the number of the clusters that are not.
    pub(crate) fn usable(
        &self,
        of: fn(&ClusterRow) -> Option<ResourceUsage>,
    ) -> (ResourceUsage, usize) {
        let mut sum = ResourceUsage::default();
        let mut lost = 0;
        for row in self.clusters.values() {
            if row.is_ready() {
                sum.add(of(row).unwrap_or_default());
            } else {
                lost += 1;
            }
        }
        (sum, lost)
    }

    /// Returns the clusters from which evictions are paused, among the clusters with these names.
    pub(crate) fn evictions_paused<'a>(
        &self,
        names: impl Iterator<Item = &'a str>,
    ) -> Vec<PausedEvictions> {
        let messages = names.map(|name| {
            let row = self.clusters.get(name);
            (name, row.and_then(|row| row.evictions_paused.as_deref()))
        });
        PausedEvictions::group(messages)
    }

    /// Returns the numbers of bindings and replicas on a cluster.
    pub(crate) fn load(&self, cluster: &str) -> Load {
        self.loads.get(cluster).copied().unwrap_or_default()
    }

    /// Returns the outage of the control plane, or `None` if all watches work.
    pub(crate) fn outage(&self) -> Option<Outage> {
        self.connections.outage()
    }

    fn state(&self, cluster: &str) -> ClusterState {
        state_in(&self.clusters, cluster)
    }

    fn count(&mut self, row: &BindingRow, sign: i64) {
        let step = if sign > 0 { 1 } else { -1 };
        for (cluster, replicas) in row.copies() {
            let load = self.loads.entry(cluster.into()).or_default();
            load.bindings = load.bindings.saturating_add_signed(step);
            load.replicas += sign * i64::from(replicas);
            if load.bindings == 0 {
                self.loads.remove(cluster);
            }
        }
    }
}

fn state_in(clusters: &BTreeMap<String, ClusterRow>, name: &str) -> ClusterState {
    let row = clusters.get(name);
    row.map_or(ClusterState::Missing, |row| row.state.clone())
}

fn earlier(one: Option<Timestamp>, other: Option<Timestamp>) -> Option<Timestamp> {
    one.into_iter().chain(other).min()
}

#[cfg(test)]
mod tests;
