//! The arguments and the result of PostFilter plugins. A victim is an assignment that a plugin chooses for eviction. A
//! plugin can make a trial decision in which its victims are already evicted.

use std::fmt;
use std::sync::Arc;

use berth_core::{Outcome, Request, Snapshot};

use super::permit::Bindings;
use crate::binding::{Binding, BindingKey};

/// The reason in the events and eviction tasks of preempted bindings.
pub(crate) const PREEMPTED: &str = "Preempted";

/// The context of a decision about a binding that fits into no cluster.
pub struct PostFilterContext<'a> {
    /// The binding that fits into no cluster.
    pub binding: &'a Arc<Binding>,
    /// The request to the engine, parsed from the binding.
    pub request: &'a Request,
    /// The cluster snapshot of the decision.
    pub snapshot: &'a Arc<Snapshot>,
    /// All bindings that the scheduler knows.
    pub bindings: &'a dyn Bindings,
    pub(crate) attempt: &'a mut dyn FnMut(&[Victim]) -> Outcome,
}

impl fmt::Debug for PostFilterContext<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostFilterContext")
            .field("binding", &self.binding.key)
            .finish_non_exhaustive()
    }
}

impl PostFilterContext<'_> {
    /// Makes a trial decision in which the victims' replicas occupy no capacity.
    pub fn without(&mut self, victims: &[Victim]) -> Outcome {
        (self.attempt)(victims)
    }
}

/// An assignment to evict: a binding's replicas in one cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Victim {
    /// The key of the binding.
    pub key: BindingKey,
    /// The cluster from which the replicas are evicted.
    pub cluster: String,
}

/// The victims that a PostFilter plugin proposes to evict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nomination {
    /// The victims. There is at least one.
    pub victims: Vec<Victim>,
}
