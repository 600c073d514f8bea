//! Clusters and bindings before or after a change: the input of a simulation.

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_api::Cluster;
use berth_scheduler::binding::{Binding, BindingKey};

/// Clusters by name.
pub(crate) type Clusters = BTreeMap<String, Arc<Cluster>>;

/// Bindings by key.
pub(crate) type Bindings = BTreeMap<BindingKey, Arc<Binding>>;

/// Clusters and bindings. Copies share the objects.
#[derive(Clone, Default)]
pub(crate) struct State {
    /// Clusters by name.
    pub(crate) clusters: Clusters,
    /// Bindings by key.
    pub(crate) bindings: Bindings,
}
