//! What a PostFilter plugin works with: a fleet that it can try without some of the work in it.

use std::fmt;
use std::sync::Arc;

use berth_core::{Outcome, Request, Snapshot};

use super::waiting::Bindings;
use crate::binding::{Binding, BindingKey};

/// What is known of a binding that fits nowhere.
pub struct PostFilterContext<'a> {
    /// The binding.
    pub binding: &'a Arc<Binding>,
    /// The same, as the engine reads it.
    pub request: &'a Request,
    /// The fleet.
    pub snapshot: &'a Arc<Snapshot>,
    /// Every binding that the scheduler knows.
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
    /// What would be decided if the victims' replicas had left their clusters.
    pub fn without(&mut self, victims: &[Victim]) -> Outcome {
        (self.attempt)(victims)
    }
}

/// One assignment that has to go: a binding's replicas in one cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Victim {
    /// The binding.
    pub key: BindingKey,
    /// The cluster that it leaves.
    pub cluster: String,
}

/// What makes room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nomination {
    /// What has to go. Not empty.
    pub victims: Vec<Victim>,
}
