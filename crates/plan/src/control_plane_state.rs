//! [`ControlPlaneState`]: the typed clusters and bindings that a prediction compares. `simulate::predicted_state` has
//! them as JSON.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use berth_api::{
    Binding, BindingKey, Cluster, ClusterResourceBinding, ClusterScore, FederatedResourceQuota,
    ResourceBinding,
};
use serde_json::Value;

/// Clusters by name.
pub(crate) type Clusters = BTreeMap<String, Arc<Cluster>>;

/// Bindings by key.
pub(crate) type Bindings = BTreeMap<BindingKey, Arc<Binding>>;

/// All clusters, bindings and quotas of a control plane. Clones share the objects.
#[derive(Clone, Default)]
pub(crate) struct ControlPlaneState {
    /// Clusters by name.
    pub(crate) clusters: Clusters,
    /// Bindings by key.
    pub(crate) bindings: Bindings,
    /// The quotas, in any order. Decisions must not exceed them.
    pub(crate) quotas: Arc<[FederatedResourceQuota]>,
    /// The ClusterScores, in any order. Plugins may read them.
    pub(crate) scores: Arc<[ClusterScore]>,
    /// Names of the clusters from which all bindings are evicted.
    pub(crate) drained: BTreeSet<String>,
}

/// Decodes a binding.
///
/// # Errors
/// When the object is not a valid binding.
pub(crate) fn decode_binding(key: &BindingKey, object: &Value) -> Result<Binding, String> {
    let typed = if key.namespace.is_some() {
        serde_json::from_value::<ResourceBinding>(object.clone()).map(Binding::from)
    } else {
        serde_json::from_value::<ClusterResourceBinding>(object.clone()).map(Binding::from)
    };
    typed.map_err(|error| error.to_string())
}
