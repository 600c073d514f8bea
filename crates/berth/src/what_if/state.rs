//! The state that decisions are made on.

use std::collections::BTreeMap;

use berth_api::Cluster;
use berth_scheduler::binding::{Binding, BindingKey};

/// Clusters by name.
pub(crate) type Clusters = BTreeMap<String, Cluster>;

/// Clusters and bindings.
#[derive(Default)]
pub(crate) struct State {
    /// Clusters by name.
    pub(crate) clusters: Clusters,
    /// Bindings by key.
    pub(crate) bindings: BTreeMap<BindingKey, Binding>,
}
