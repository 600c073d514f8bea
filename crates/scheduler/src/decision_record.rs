//! Bounded record of the last decision about each binding.
//!
//! A record keeps the inputs of a decision, which are shared with the scheduler's state; its explanation is computed when
//! it is requested. Must not know: how decisions are made, and how the record is served.

pub mod format;
pub(crate) mod query;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use berth_core::{Assumed, Outcome, Request, Snapshot};

use crate::binding::{Binding, BindingKey};
use crate::decision_log::DecisionInput;
use crate::estimator;
use crate::extender;
use crate::rules::schedule_trigger::ScheduleType;

/// Default maximum of bindings in the record.
pub const DEFAULT_BINDINGS: usize = 1000;
/// Maximum assumed workloads in all kept inputs. With overcommit protection, each decision assumes all recent ones, so
/// that a burst of decisions would keep their square.
const MAX_WORKLOADS: usize = 100_000;

/// A decision with its inputs.
#[derive(Debug)]
pub(crate) struct RecordedDecision {
    pub(crate) time: jiff::Timestamp,
    pub(crate) trigger: ScheduleType,
    pub(crate) binding: Arc<Binding>,
    /// The number of the configuration that decided.
    pub(crate) configuration: u64,
    /// The inputs; `None` if they were dropped to save memory.
    pub(crate) inputs: Option<Inputs>,
    pub(crate) outcome: Outcome,
    /// Addition of preemption to the message of the result.
    pub(crate) remark: Option<String>,
}

/// The inputs of a decision beside its configuration.
#[derive(Debug)]
pub(crate) struct Inputs {
    pub(crate) request: Request,
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) assumed: Arc<Assumed>,
    pub(crate) estimates: Arc<estimator::Answers>,
    pub(crate) extenders: extender::Answers,
    pub(crate) extender_calls: usize,
}

impl RecordedDecision {
    /// Creates the record of a decision that is made now.
    pub(crate) fn new(
        trigger: ScheduleType,
        binding: &Arc<Binding>,
        configuration: u64,
        inputs: Inputs,
        outcome: Outcome,
    ) -> Self {
        Self {
            time: jiff::Timestamp::now(),
            trigger,
            binding: Arc::clone(binding),
            configuration,
            inputs: Some(inputs),
            outcome,
            remark: None,
        }
    }
}

impl Inputs {
    /// Returns the entry of a decision log.
    pub(crate) fn logged(&self, binding: &Arc<Binding>, outcome: &Outcome) -> DecisionInput {
        DecisionInput {
            binding: Arc::clone(binding),
            peers: self.request.peers().clone(),
            assumed: Arc::clone(&self.assumed),
            estimates: Arc::clone(&self.estimates),
            extender_calls: self.extender_calls,
            outcome: outcome.clone(),
        }
    }

    fn workloads(&self) -> usize {
        let clusters = self.assumed.iter();
        clusters.map(|(_, workloads)| workloads.len()).sum()
    }
}

/// The last decision about each binding, up to a maximum of bindings. The oldest decision is dropped first.
#[derive(Debug)]
pub(crate) struct DecisionRecord {
    limit: usize,
    decisions: BTreeMap<u64, RecordedDecision>,
    by_key: HashMap<BindingKey, u64>,
    next: u64,
    workloads: usize,
    max_workloads: usize,
}

impl DecisionRecord {
    /// Creates an empty record of at most `limit` bindings; `None` if it is 0.
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

    /// Adds a decision in place of the last one about its binding.
    pub(crate) fn insert(&mut self, decision: RecordedDecision) {
        let number = self.next;
        self.next += 1;
        self.workloads += decision.inputs.as_ref().map_or(0, Inputs::workloads);
        let replaced = self.by_key.insert(decision.binding.key.clone(), number);
        if let Some(replaced) = replaced.and_then(|number| self.decisions.remove(&number)) {
            self.release(replaced.inputs);
        }
        self.decisions.insert(number, decision);
        if self.decisions.len() > self.limit
            && let Some((_, oldest)) = self.decisions.pop_first()
        {
            self.by_key.remove(&oldest.binding.key);
            self.release(oldest.inputs);
        }
        if self.workloads > self.max_workloads {
            self.drop_inputs();
        }
    }

    fn release(&mut self, inputs: Option<Inputs>) {
        let workloads = inputs.as_ref().map_or(0, Inputs::workloads);
        self.workloads = self.workloads.saturating_sub(workloads);
    }

    /// Drops the inputs with assumed workloads of the older half of the decisions.
    fn drop_inputs(&mut self) {
        let half = self.decisions.len().div_ceil(2);
        let mut released = 0;
        for decision in self.decisions.values_mut().take(half) {
            let workloads = decision.inputs.as_ref().map_or(0, Inputs::workloads);
            if workloads > 0 {
                decision.inputs = None;
                released += workloads;
            }
        }
        self.workloads = self.workloads.saturating_sub(released);
    }

    /// Returns the last decision about a binding.
    pub(crate) fn get(&self, key: &BindingKey) -> Option<&RecordedDecision> {
        self.decisions.get(self.by_key.get(key)?)
    }

    /// Returns all decisions, the newest first.
    pub(crate) fn newest_first(&self) -> impl Iterator<Item = &RecordedDecision> {
        self.decisions.values().rev()
    }

    /// Returns the maximum of bindings.
    pub(crate) fn limit(&self) -> usize {
        self.limit
    }
}

#[cfg(test)]
mod tests;
