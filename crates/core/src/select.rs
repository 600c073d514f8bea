//! The third stage: which of the clusters that pass are used, under the spread constraints.

mod cluster;
mod group_score;
mod groups;
mod honoured;
mod region;

use crate::candidate::Candidate;
use crate::error::ScheduleError;
use crate::fleet::Snapshot;
use crate::request::placement::{CompiledPlacement, SpreadBy};

pub use groups::{Group, select_groups};

/// Which constraints are honoured that Karmada accepts and then ignores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Honoured {
    /// Zone, provider and label constraints beside one by cluster or region.
    pub(crate) beside_cluster: bool,
    /// Any constraint beside static weights.
    pub(crate) beside_static_weights: bool,
}

/// What selection needs to know besides the candidates.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SelectContext<'a> {
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) placement: &'a CompiledPlacement,
    /// The replicas asked for.
    pub(crate) replicas: i64,
    /// What the selected clusters have to be able to take together; None where capacity is ignored.
    pub(crate) need: Option<i64>,
    pub(crate) honoured: Honoured,
}

/// Why the constraints cannot be kept, in Karmada's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SelectError {
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

impl From<SelectError> for ScheduleError {
    fn from(error: SelectError) -> Self {
        Self::Other(format!("failed to select clusters: {error}"))
    }
}

/// How the constraints of a placement are dealt with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
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
    pub(crate) fn of(placement: &CompiledPlacement, honoured: Honoured) -> Self {
        let skipped = placement.static_weights_skip_constraints && !honoured.beside_static_weights;
        if placement.constraints.is_empty() || skipped {
            return Self::All;
        }
        let by_others = placement.constraints.iter().any(|constraint| {
            matches!(
                constraint.by,
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

/// Selects clusters among the candidates.
pub(crate) fn select(
    context: &SelectContext<'_>,
    candidates: Vec<Candidate>,
) -> Result<Vec<Candidate>, SelectError> {
    match Way::of(context.placement, context.honoured) {
        Way::All => Ok(candidates),
        Way::ByCluster => cluster::select(context, candidates),
        Way::ByRegion => region::select(context, candidates),
        Way::Honoured => honoured::select(context, candidates),
        Way::Unsupported => Err(SelectError::Unsupported),
    }
}
