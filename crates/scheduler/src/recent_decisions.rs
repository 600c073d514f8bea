//! The last decision about each binding, in memory and up to a maximum number of bindings. The debug endpoints serve
//! these decisions.
//!
//! The module keeps the inputs of each decision. The inputs take little memory, because they are shared with the
//! scheduler's state. The explanation of a decision is computed when a client requests it. [`crate::decision_log`]
//! writes all decisions to files instead.
//!
//! This module must not depend on the scheduler's task or on the debug endpoints.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use berth_api::BindingKey;

use crate::recorded_decision::{Inputs, RecordedDecision};

/// Default maximum number of bindings.
pub(crate) const DEFAULT_BINDINGS: usize = 1000;
/// Maximum number of assumed workloads in all recorded inputs. With overcommit protection, the inputs of a decision
/// contain the workloads of all recent decisions. The number of recorded workloads therefore grows with the square of
/// the number of recent decisions.
const MAX_WORKLOADS: usize = 100_000;

/// The last decision about each binding. If the number of bindings exceeds the limit, the oldest decision is dropped.
#[derive(Debug)]
pub(crate) struct RecentDecisions {
    limit: usize,
    decisions: BTreeMap<u64, Arc<RecordedDecision>>,
    by_key: HashMap<BindingKey, u64>,
    next: u64,
    workloads: usize,
    max_workloads: usize,
}

impl RecentDecisions {
    /// Creates an empty record of at most `limit` bindings. Returns `None` if `limit` is 0.
    pub(crate) fn new(limit: usize) -> Option<Self> {
        (limit > 0).then(|| Self {
            limit,
            decisions: BTreeMap::new(),
            by_key: HashMap::new(),
            next: 0,
            workloads: 0,
            max_workloads: MAX_WORKLOADS,
        })
    }

    /// Adds a decision. It replaces the previous decision about the same binding.
    pub(crate) fn insert(&mut self, decision: Arc<RecordedDecision>) {
        let number = self.next;
        self.next += 1;
        self.workloads += decision.inputs.as_ref().map_or(0, Inputs::workloads);
        let replaced = self.by_key.insert(decision.binding.key.clone(), number);
        if let Some(replaced) = replaced.and_then(|number| self.decisions.remove(&number)) {
            self.release(&replaced);
        }
        self.decisions.insert(number, decision);
        if self.decisions.len() > self.limit
            && let Some((_, oldest)) = self.decisions.pop_first()
        {
            self.by_key.remove(&oldest.binding.key);
            self.release(&oldest);
        }
        if self.workloads > self.max_workloads {
            self.drop_inputs();
        }
    }

    fn release(&mut self, decision: &RecordedDecision) {
        let workloads = decision.inputs.as_ref().map_or(0, Inputs::workloads);
        self.workloads = self.workloads.saturating_sub(workloads);
    }

    /// Drops the inputs of each decision in the older half of the record, if the inputs contain assumed workloads.
    fn drop_inputs(&mut self) {
        let half = self.decisions.len().div_ceil(2);
        let mut released = 0;
        for decision in self.decisions.values_mut().take(half) {
            let workloads = decision.inputs.as_ref().map_or(0, Inputs::workloads);
            if workloads > 0 {
                Arc::make_mut(decision).inputs = None;
                released += workloads;
            }
        }
        self.workloads = self.workloads.saturating_sub(released);
    }

    /// Returns the last decision about a binding.
    pub(crate) fn get(&self, key: &BindingKey) -> Option<&RecordedDecision> {
        self.decisions
            .get(self.by_key.get(key)?)
            .map(|decision| &**decision)
    }

    /// Returns all decisions, the newest first.
    pub(crate) fn newest_first(&self) -> impl Iterator<Item = &RecordedDecision> {
        self.decisions.values().rev().map(|decision| &**decision)
    }

    /// Returns the maximum number of bindings.
    pub(crate) fn limit(&self) -> usize {
        self.limit
    }
}

#[cfg(test)]
mod tests;
