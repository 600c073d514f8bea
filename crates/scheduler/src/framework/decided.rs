//! The decision that Reserve, Permit, PreBind and PostBind plugins get, before it is stored.

use std::sync::Arc;

use berth_api::binding::TargetCluster;
use berth_core::Snapshot;

use crate::binding::Binding;

/// A decision that is not stored yet.
#[derive(Clone, Debug)]
pub struct Decided {
    /// The binding.
    pub binding: Arc<Binding>,
    /// The clusters and replicas.
    pub targets: Arc<[TargetCluster]>,
    /// The cluster snapshot that the decision is based on.
    pub snapshot: Arc<Snapshot>,
}
