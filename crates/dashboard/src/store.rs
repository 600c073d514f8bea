//! The store of the dashboard: compact rows of clusters and bindings, and the moves since the dashboard started.
//!
//! The task in `watches` changes the store. Requests only read it.

mod binding_row;
mod cluster_row;
mod watches;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use berth_api::{BindingKey, BindingKind};
use berth_explain::PausedEvictions;
use jiff::Timestamp;

pub(crate) use binding_row::{Applied, BindingRow, Scheduling, Suspension, Targets};
pub(crate) use cluster_row::{Amounts, ClusterRow};
pub(crate) use watches::{SharedState, run_watches};

/// Maximum number of stored moves.
const MAX_MOVES: usize = 1000;

/// A change of the clusters or replicas of a binding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Move {
    pub(crate) at: Timestamp,
    pub(crate) binding: BindingKey,
    pub(crate) workload: String,
    pub(crate) before: Targets,
    pub(crate) after: Targets,
}

/// The numbers of bindings and replicas on a cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Load {
    pub(crate) bindings: usize,
    pub(crate) replicas: i64,
}

/// The numbers of bindings in each state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) scheduled: usize,
    pub(crate) unschedulable: usize,
    pub(crate) waiting: usize,
    pub(crate) not_applied: usize,
    pub(crate) suspended: usize,
    pub(crate) moving: usize,
}

/// The rows of clusters and bindings by name, with numbers that are computed from the rows.
#[derive(Debug, Default)]
pub(crate) struct Store {
    pub(crate) clusters: BTreeMap<String, ClusterRow>,
    pub(crate) bindings: BTreeMap<BindingKey, BindingRow>,
    /// The last moves, the newest last.
    pub(crate) moves: VecDeque<Move>,
    pub(crate) loads: BTreeMap<Box<str>, Load>,
    pub(crate) totals: Totals,
    /// True after the first lists of clusters, ResourceBindings and ClusterResourceBindings are complete.
    pub(crate) has_synced: bool,
}

impl Store {
    /// Stores a binding. If its clusters or replicas have changed and `moved_at` is set, records a move at this time.
    pub(crate) fn apply_binding(
        &mut self,
        name: BindingKey,
        row: BindingRow,
        moved_at: Option<Timestamp>,
    ) {
        let old = self.bindings.get(&name);
        let before = old.map(|old| old.targets.clone()).unwrap_or_default();
        if let Some(at) = moved_at
            && before != row.targets
        {
            self.record(Move {
                at,
                binding: name.clone(),
                workload: row.workload(),
                before,
                after: row.targets.clone(),
            });
        }
        self.count(&row, 1);
        if let Some(old) = self.bindings.insert(name, row) {
            self.count(&old, -1);
        }
    }

    /// Removes a binding. If the binding had clusters, records a move to no cluster.
    pub(crate) fn remove_binding(&mut self, name: &BindingKey, at: Timestamp) {
        let Some(old) = self.bindings.remove(name) else {
            return;
        };
        self.count(&old, -1);
        if !old.targets.is_empty() {
            self.record(Move {
                at,
                binding: name.clone(),
                workload: old.workload(),
                before: old.targets,
                after: Targets::default(),
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

    fn record(&mut self, change: Move) {
        if self.moves.len() == MAX_MOVES {
            self.moves.pop_front();
        }
        self.moves.push_back(change);
    }

    fn count(&mut self, row: &BindingRow, sign: i64) {
        let step = |number: &mut usize| {
            *number = number.saturating_add_signed(if sign > 0 { 1 } else { -1 });
        };
        let step_if = |number: &mut usize, is_counted: bool| {
            if is_counted {
                step(number);
            }
        };
        let totals = &mut self.totals;
        step_if(
            &mut totals.scheduled,
            row.scheduling == Scheduling::Scheduled,
        );
        step_if(
            &mut totals.unschedulable,
            row.scheduling == Scheduling::Unschedulable,
        );
        step_if(&mut totals.waiting, row.scheduling == Scheduling::Waiting);
        step_if(&mut totals.not_applied, row.applied == Applied::No);
        step_if(&mut totals.suspended, row.suspension != Suspension::None);
        step_if(&mut totals.moving, row.migration_state().is_some());
        for (cluster, replicas) in row.targets.iter() {
            let load = self.loads.entry(cluster.into()).or_default();
            step(&mut load.bindings);
            load.replicas += sign * i64::from(replicas);
            if load.bindings == 0 {
                self.loads.remove(cluster);
            }
        }
    }
}

#[cfg(test)]
mod tests;
