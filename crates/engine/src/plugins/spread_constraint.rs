//! The filter plugin SpreadConstraint, which requires that a cluster has the properties used by the spread constraints.

use crate::{Bits, ClusterView, PlacementContext, PlacementFilter, Reason, SpreadBy};

/// A filter that rejects clusters without a property (provider, region or zones) that a spread constraint uses.
#[derive(Clone, Copy, Debug, Default)]
pub struct SpreadConstraint;

impl SpreadConstraint {
    /// The plugin's name.
    pub const NAME: &'static str = "SpreadConstraint";
}

impl PlacementFilter for SpreadConstraint {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn check(
        &self,
        context: &PlacementContext<'_>,
        cluster: &ClusterView<'_>,
    ) -> Result<(), Reason> {
        for constraint in context.placement().constraints() {
            let (missing, reason) = match constraint.by() {
                SpreadBy::Provider => (
                    cluster.provider().is_empty(),
                    "cluster(s) did not have provider property",
                ),
                SpreadBy::Region => (
                    cluster.region().is_empty(),
                    "cluster(s) did not have region property",
                ),
                SpreadBy::Zone => (
                    cluster.zones().next().is_none(),
                    "cluster(s) did not have zones property",
                ),
                SpreadBy::Cluster | SpreadBy::Label(_) | SpreadBy::Unknown => continue,
            };
            if missing {
                return Err(reason.into());
            }
        }
        Ok(())
    }

    fn mask(&self, context: &PlacementContext<'_>) -> Option<Bits> {
        let snapshot = context.snapshot();
        let constraints = context.placement().constraints().iter();
        let masks = constraints.filter_map(|constraint| match constraint.by() {
            SpreadBy::Provider => Some(snapshot.with_provider()),
            SpreadBy::Region => Some(snapshot.with_region()),
            SpreadBy::Zone => Some(snapshot.with_zones()),
            SpreadBy::Cluster | SpreadBy::Label(_) | SpreadBy::Unknown => None,
        });
        masks.reduce(|mut all, mask| {
            all.intersect(&mask);
            all
        })
    }
}
