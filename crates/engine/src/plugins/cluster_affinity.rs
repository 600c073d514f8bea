//! The filter plugin ClusterAffinity, which requires that an affinity of the placement matches the cluster.

use crate::{Bits, ClusterView, CompiledAffinity, PlacementContext, PlacementFilter, Reason};

/// A filter that rejects a cluster if no affinity of the placement matches the cluster. If the placement has affinity
/// terms, only the affinity of the current term counts. For workloads, the overflow affinities of this term count as
/// well.
#[derive(Clone, Copy, Debug, Default)]
pub struct ClusterAffinity;

impl ClusterAffinity {
    /// The plugin's name.
    pub const NAME: &'static str = "ClusterAffinity";
    const REASON: &'static str =
        "cluster(s) did not match the placement cluster affinity constraint";

    /// Returns the affinities of which at least one must match. If there are none, every cluster passes.
    fn affinities<'a>(context: &PlacementContext<'a>) -> Vec<&'a CompiledAffinity> {
        if let Some(affinity) = context.placement().affinity() {
            return vec![affinity];
        }
        let Some(term) = context.term() else {
            return Vec::new();
        };
        let overflow = term.overflow().iter().filter(|_| context.is_workload());
        std::iter::once(term.primary()).chain(overflow).collect()
    }
}

impl PlacementFilter for ClusterAffinity {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn check(
        &self,
        context: &PlacementContext<'_>,
        cluster: &ClusterView<'_>,
    ) -> Result<(), Reason> {
        let affinities = Self::affinities(context);
        let passes = affinities.is_empty()
            || affinities
                .iter()
                .any(|affinity| affinity.matches_view(cluster));
        if passes {
            Ok(())
        } else {
            Err(Self::REASON.into())
        }
    }

    fn mask(&self, context: &PlacementContext<'_>) -> Option<Bits> {
        Self::affinities(context)
            .into_iter()
            .map(|affinity| context.snapshot().matching(affinity))
            .reduce(|mut all, mask| {
                all.unite(&mask);
                all
            })
    }
}
