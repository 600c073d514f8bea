//! SelectClusters: which of the clusters that pass are used, under the spread constraints.

mod cluster;
mod group_score;
mod groups;
mod honoured;
mod region;

use crate::{
    BindingContext, Candidate, CompiledPlacement, Gates, Order, PluginError, Select, Selection,
    Snapshot, SpreadBy, Unit,
};

pub use groups::{Group, select_groups};

/// Selects clusters as the spread constraints say; without constraints, all of them.
#[derive(Clone, Copy, Debug)]
pub struct SelectClusters {
    honoured: Honoured,
}

impl SelectClusters {
    /// The plugin's name.
    pub const NAME: &'static str = "SelectClusters";

    /// The gates SpreadByAllFields and SpreadStaticWeights count.
    pub fn new(gates: Gates) -> Self {
        Self {
            honoured: Honoured {
                beside_cluster: gates.spread_by_all_fields,
                beside_static_weights: gates.spread_static_weights,
            },
        }
    }
}

impl Select for SelectClusters {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn needs_estimates(&self, context: &BindingContext<'_>) -> bool {
        Way::of(context.request().placement(), self.honoured) != Way::All
    }

    fn select(
        &self,
        context: &BindingContext<'_>,
        candidates: Vec<Candidate>,
    ) -> Result<Selection, PluginError> {
        let placement = context.request().placement();
        let way = Way::of(placement, self.honoured);
        let context = SelectContext {
            snapshot: context.snapshot(),
            placement,
            replicas: context.request().replicas(),
            need: need(context),
        };
        let clusters = match way {
            Way::All => {
                return Ok(Selection {
                    clusters: candidates,
                    order: Order::ByName,
                });
            }
            Way::ByCluster => cluster::select(&context, candidates),
            Way::ByRegion => region::select(&context, candidates),
            Way::Honoured => honoured::select(&context, candidates),
            Way::Unsupported => Err(SelectError::Unsupported),
        };
        Ok(Selection {
            clusters: clusters.map_err(|error| PluginError::failed(error.to_string()))?,
            order: Order::AsSelected,
        })
    }
}

/// What the selected clusters have to be able to take together.
fn need(context: &BindingContext<'_>) -> Option<i64> {
    let request = context.request();
    if request.placement().duplicates() {
        return None;
    }
    Some(match context.cycle().unit() {
        Unit::ComponentSets => 1,
        Unit::Replicas => request.replicas(),
    })
}

/// Which constraints are honoured that Karmada accepts and then ignores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Honoured {
    /// Zone, provider and label constraints beside one by cluster or region.
    beside_cluster: bool,
    /// Any constraint beside static weights.
    beside_static_weights: bool,
}

/// What selection needs to know besides the candidates.
#[derive(Clone, Copy, Debug)]
struct SelectContext<'a> {
    snapshot: &'a Snapshot,
    placement: &'a CompiledPlacement,
    /// The replicas asked for.
    replicas: i64,
    /// What the selected clusters have to be able to take together; None where capacity is ignored.
    need: Option<i64>,
}

/// Why the constraints cannot be kept, in Karmada's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum SelectError {
    #[error("the number of feasible clusters is less than spreadConstraint.MinGroups")]
    TooFewClusters,
    #[error("no enough resource when selecting {0} clusters")]
    TooLittleRoom(usize),
    #[error("the number of feasible region is less than spreadConstraint.MinGroups")]
    TooFewRegions,
    #[error("the number of clusters is less than the cluster spreadConstraint.MinGroups")]
    NoRegionsTogether,
    #[error("the number of feasible {0} is less than spreadConstraint.MinGroups")]
    TooFewGroups(&'static str),
    #[error("just support cluster and region spread constraint")]
    Unsupported,
}

/// How the constraints of a placement are dealt with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// Every candidate is used.
    All,
    /// The most preferred ones, bounded in number.
    ByCluster,
    /// The best regions first.
    ByRegion,
    /// Groups that Karmada does not spread over.
    Honoured,
    /// Nobody knows the field.
    Unsupported,
}

impl Way {
    fn of(placement: &CompiledPlacement, honoured: Honoured) -> Self {
        let skipped =
            placement.static_weights_skip_constraints() && !honoured.beside_static_weights;
        if placement.constraints().is_empty() || skipped {
            return Self::All;
        }
        let by_others = placement.constraints().iter().any(|constraint| {
            matches!(
                constraint.by(),
                SpreadBy::Zone | SpreadBy::Provider | SpreadBy::Label(_)
            )
        });
        let by_region = placement.constraint(&SpreadBy::Region).is_some();
        let by_cluster = placement.constraint(&SpreadBy::Cluster).is_some();
        if by_others && (honoured.beside_cluster || !(by_region || by_cluster)) {
            Self::Honoured
        } else if by_region {
            Self::ByRegion
        } else if by_cluster {
            Self::ByCluster
        } else {
            Self::Unsupported
        }
    }
}
