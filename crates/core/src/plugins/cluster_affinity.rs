//! The plugin ClusterAffinity, which requires that an affinity of the placement matches.

use crate::{Bits, ClusterView, CompiledAffinity, PlacementContext, PlacementFilter, Reason};

/// Rejects clusters that no affinity of the placement matches. For affinity terms, only the current term and
/// (for workloads) its overflow groups count.
#[derive(Clone, Copy, Debug, Default)]
pub struct ClusterAffinity;

impl ClusterAffinity {
    /// The plugin's name.
    pub const NAME: &'static str = "ClusterAffinity";
    const REASON: &'static str =
        "cluster(s) did not match the placement cluster affinity constraint";

    /// Returns the affinities; one of them must match. Every cluster passes if there are none.
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
