//! The plugins WorkloadAffinity and WorkloadAntiAffinity, which place workloads of a group together or apart.

use crate::{BindingContext, BindingFilter, ClusterView, Reason};

/// Rejects clusters that lack a placed member of the affinity group.
#[derive(Clone, Copy, Debug, Default)]
pub struct WorkloadAffinity;

/// Rejects clusters with a member of the anti-affinity group.
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
