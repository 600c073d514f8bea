//! The decision that Reserve, Permit, PreBind, Bind and PostBind plugins receive as an argument.

use std::sync::Arc;

use berth_api::binding::TargetCluster;
use berth_core::Snapshot;

use crate::binding::Binding;

/// A decision about a binding. A Bind plugin or the built-in writer stores the decision in the binding.
#[derive(Clone, Debug)]
pub struct Decided {
    /// The stored binding, without this decision.
    pub binding: Arc<Binding>,
    /// The chosen clusters with their replicas.
    pub targets: Arc<[TargetCluster]>,
    /// The cluster snapshot that the decision is based on.
    pub snapshot: Arc<Snapshot>,
}
