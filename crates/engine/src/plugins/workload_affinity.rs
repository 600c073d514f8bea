//! The filter plugins WorkloadAffinity and WorkloadAntiAffinity, which place the workloads of a group in the same
//! clusters or in different clusters.

use crate::{BindingContext, BindingFilter, ClusterView, Reason};

/// A filter for workloads with an affinity group. A cluster passes if every placed workload of the group is in the
/// cluster. A cluster that already has the workload passes too.
#[derive(Clone, Copy, Debug, Default)]
pub struct WorkloadAffinity;

/// A filter for workloads with an anti-affinity group. A cluster passes if no other workload of the group is in the
/// cluster. A cluster that already has the workload passes too.
#[derive(Clone, Copy, Debug, Default)]
pub struct WorkloadAntiAffinity;

impl WorkloadAffinity {
    /// The plugin's name.
    pub const NAME: &'static str = "WorkloadAffinity";
    const REASON: &'static str =
        "ResourceBinding with the same affinity group does not target this cluster";
}

impl WorkloadAntiAffinity {
    /// The plugin's name.
    pub const NAME: &'static str = "WorkloadAntiAffinity";
    const REASON: &'static str = "cluster already has workload with the same anti-affinity group";
}

fn is_in(clusters: &[String], cluster: &ClusterView<'_>) -> bool {
    clusters.iter().any(|name| name == cluster.name())
}

impl BindingFilter for WorkloadAffinity {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn check(&self, context: &BindingContext<'_>, cluster: &ClusterView<'_>) -> Result<(), Reason> {
        let mut placed = context
            .request()
            .peers()
            .affinity
            .iter()
            .filter(|peer| !peer.is_empty());
        if context.request().holds(cluster.name()) || placed.all(|peer| is_in(peer, cluster)) {
            Ok(())
        } else {
            Err(Self::REASON.into())
        }
    }
}

impl BindingFilter for WorkloadAntiAffinity {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn check(&self, context: &BindingContext<'_>, cluster: &ClusterView<'_>) -> Result<(), Reason> {
        let mut peers = context.request().peers().anti_affinity.iter();
        if context.request().holds(cluster.name()) || !peers.any(|peer| is_in(peer, cluster)) {
            Ok(())
        } else {
            Err(Self::REASON.into())
        }
    }
}
