//! Arguments and result of PostFilter plugins. A plugin can try a decision in which chosen victims are evicted.

use std::fmt;
use std::sync::Arc;

use berth_core::{Outcome, Request, Snapshot};

use super::permit::Bindings;
use crate::binding::{Binding, BindingKey};

/// Reason of the events and eviction tasks of preempted bindings.
pub(crate) const PREEMPTED: &str = "Preempted";

/// Context of a binding that fits nowhere.
pub struct PostFilterContext<'a> {
    /// The binding.
    pub binding: &'a Arc<Binding>,
    /// The engine's request for the binding.
    pub request: &'a Request,
    /// The cluster snapshot.
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
    /// The binding.
    pub key: BindingKey,
    /// The cluster to leave.
    pub cluster: String,
}

/// Victims to evict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nomination {
    /// The victims. Not empty.
    pub victims: Vec<Victim>,
}
