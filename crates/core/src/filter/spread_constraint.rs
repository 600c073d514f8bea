//! SpreadConstraint: the cluster has the properties that clusters are spread by.

use super::{PlacementContext, PlacementFilter, Reason};
use crate::bits::Bits;
use crate::fleet::ClusterView;
use crate::fleet::symbols::NONE;
use crate::request::placement::SpreadBy;

/// Keeps out clusters without the provider, region or zones that the placement spreads by.
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
        for constraint in &context.placement.constraints {
            let (missing, reason) = match constraint.by {
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
        let fleet = &context.snapshot.topology;
        let masks =
            context
                .placement
                .constraints
                .iter()
                .filter_map(|constraint| match constraint.by {
                    SpreadBy::Provider => Some(Bits::from_column(&fleet.providers, |provider| {
                        provider != NONE
                    })),
                    SpreadBy::Region => {
                        Some(Bits::from_column(&fleet.regions, |region| region != NONE))
                    }
                    SpreadBy::Zone => Some(Bits::from_fn(fleet.len(), |ordinal| {
                        fleet
                            .zones
                            .get(ordinal)
                            .is_some_and(|zones| !zones.is_empty())
                    })),
                    SpreadBy::Cluster | SpreadBy::Label(_) | SpreadBy::Unknown => None,
                });
        masks.reduce(|mut all, mask| {
            all.intersect(&mask);
            all
        })
    }
}
