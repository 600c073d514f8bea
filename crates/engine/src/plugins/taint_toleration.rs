//! The filter plugin TaintToleration, which requires that the placement tolerates the taints of a cluster.

use crate::{Bits, ClusterView, PlacementContext, PlacementFilter, Reason, RepellingTaint};

/// A filter that rejects clusters with a taint that the placement does not tolerate. A cluster that already has the
/// workload passes.
#[derive(Clone, Copy, Debug, Default)]
pub struct TaintToleration;

impl TaintToleration {
    /// The plugin's name.
    pub const NAME: &'static str = "TaintToleration";

    fn untolerated<'a>(
        context: &PlacementContext<'_>,
        taints: &'a [RepellingTaint],
    ) -> Option<&'a RepellingTaint> {
        let tolerations = context.placement().tolerations();
        taints.iter().find(|taint| {
            !tolerations
                .iter()
                .any(|toleration| toleration.tolerates(taint))
        })
    }
}

impl PlacementFilter for TaintToleration {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn spares_prior(&self) -> bool {
        true
    }

    fn check(
        &self,
        context: &PlacementContext<'_>,
        cluster: &ClusterView<'_>,
    ) -> Result<(), Reason> {
        match Self::untolerated(context, cluster.taints()) {
            Some(taint) => Err(format!("cluster(s) had untolerated taint {{{taint}}}").into()),
            None => Ok(()),
        }
    }

    fn mask(&self, context: &PlacementContext<'_>) -> Option<Bits> {
        let tolerated = |taints: &[RepellingTaint]| Self::untolerated(context, taints).is_none();
        Some(context.snapshot().with_taints(tolerated))
    }
}
