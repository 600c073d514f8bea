//! The input of a prediction: all clusters and bindings, before or after a change.

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_api::Cluster;
use berth_scheduler::binding::{Binding, BindingKey};

/// Clusters by name.
pub(crate) type Clusters = BTreeMap<String, Arc<Cluster>>;

/// Bindings by key.
pub(crate) type Bindings = BTreeMap<BindingKey, Arc<Binding>>;

/// All clusters and bindings of a control plane. Clones share the objects.
#[derive(Clone, Default)]
pub(crate) struct State {
    /// Clusters by name.
    pub(crate) clusters: Clusters,
    /// Bindings by key.
    pub(crate) bindings: Bindings,
}
