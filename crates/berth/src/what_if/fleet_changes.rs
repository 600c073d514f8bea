//! Changes of a fleet.

use std::sync::Arc;

use berth_api::quantity::QuantityText;
use k8s_openapi::api::core::v1::Taint;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::state::Clusters;

/// Note for simulations with a taint.
pub(crate) const TAINT_NOTE: &str = "a taint keeps out what is not placed yet, and moves nothing that is placed, unless \
     its effect is NoExecute";

/// A change of the fleet.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum FleetChange {
    /// A cluster is lost.
    Lose {
        /// Name of the cluster.
        cluster: String,
    },
    /// A cluster gets a taint.
    Taint {
        /// Name of the cluster.
        cluster: String,
        /// The added taint.
        taint: Taint,
    },
    /// The allocatable amount of a resource changes.
    Capacity {
        /// Name of the cluster.
        cluster: String,
        /// Name of the resource.
        resource: String,
        /// The new amount.
        amount: QuantityText,
    },
}

/// A change of a cluster that does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no such cluster")]
pub(crate) struct UnknownCluster;

impl FleetChange {
    /// Returns the name of the changed cluster.
    pub(crate) fn cluster(&self) -> &str {
        match self {
            Self::Lose { cluster }
            | Self::Taint { cluster, .. }
            | Self::Capacity { cluster, .. } => cluster,
        }
    }

    /// Applies the change.
    ///
    /// # Errors
    /// When the cluster does not exist.
    pub(crate) fn apply(&self, clusters: &mut Clusters) -> Result<(), UnknownCluster> {
        let cluster = clusters.get_mut(self.cluster()).ok_or(UnknownCluster)?;
        let cluster = Arc::make_mut(cluster);
        match self {
            // A deletion makes the scheduler process the bindings of the cluster.
            Self::Lose { .. } => {
                cluster.metadata.deletion_timestamp = Some(Time(jiff::Timestamp::now()));
            }
            Self::Taint { taint, .. } => {
                let taints = &mut cluster.spec.taints;
                taints.retain(|known| known.key != taint.key || known.effect != taint.effect);
                taints.push(taint.clone());
                let generation = cluster.metadata.generation.unwrap_or(0);
                cluster.metadata.generation = Some(generation.saturating_add(1));
            }
            Self::Capacity {
                resource, amount, ..
            } => {
                let status = cluster.status.get_or_insert_default();
                let summary = status.resource_summary.get_or_insert_default();
                summary.allocatable.insert(resource.clone(), amount.clone());
            }
        }
        Ok(())
    }
}
