//! The state that decisions are made on.

use std::collections::BTreeMap;

use berth_scheduler::binding::{Binding, BindingKey};

use super::fleet_changes::Clusters;

/// Clusters and bindings.
#[derive(Default)]
pub(crate) struct State {
    /// Clusters by name.
    pub(crate) clusters: Clusters,
    /// Bindings by key.
    pub(crate) bindings: BTreeMap<BindingKey, Binding>,
}
