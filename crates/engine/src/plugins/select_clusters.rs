//! The select plugin SelectClusters, which selects clusters by the spread constraints of the placement.

mod cluster;
mod covered_groups;
mod explain;
mod extra_topologies;
mod group_score;
mod groups;
mod region;

use berth_api::feature_gates::EngineGates;
use berth_api::replica_limits::ReplicaFit;

use crate::{
    BindingContext, Candidate, CompiledPlacement, Order, PluginError, Select, Selection,
    SelectionExplanation, Snapshot, SpreadBy, Unit,
};

pub use covered_groups::{applied_constraints, covered_groups};
pub use groups::{Group, select_groups};

/// A select plugin that applies the spread constraints of the placement. Without spread constraints, it selects all
/// candidates.
#[derive(Clone, Copy, Debug)]
pub struct SelectClusters {
    extra: ExtraConstraints,
}

impl SelectClusters {
    /// The plugin's name.
    pub const NAME: &'static str = "SelectClusters";

    /// Creates the plugin. Its behaviour depends on the feature gates SpreadByAllFields and SpreadStaticWeights.
    pub fn new(gates: EngineGates) -> Self {
        Self {
            extra: ExtraConstraints::new(gates),
        }
    }
}

impl Select for SelectClusters {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn needs_estimates(&self, context: &BindingContext<'_>) -> bool {
        SelectionMode::of(context.request().placement(), self.extra) != SelectionMode::All
    }

    fn select(
        &self,
        context: &BindingContext<'_>,
        candidates: Vec<Candidate>,
    ) -> Result<Selection, PluginError> {
        let mode = SelectionMode::of(context.request().placement(), self.extra);
        if mode == SelectionMode::All {
            return Ok(Selection {
                clusters: candidates,
                order: Order::ByName,
            });
        }
        let limits = context.request().limits();
        let may_wait = limits.is_some_and(|limits| limits.fit() == ReplicaFit::BestEffort);
        let context = SelectContext::new(context);
        let clusters = if may_wait {
            select_for_most(&context, mode, &candidates)
        } else {
            select(&context, mode, candidates)
        };
        Ok(Selection {
            clusters: clusters.map_err(|error| PluginError::failed(error.to_string()))?,
            order: Order::AsSelected,
        })
    }

    fn explain(
        &self,
        context: &BindingContext<'_>,
        candidates: &[Candidate],
    ) -> Option<SelectionExplanation> {
        let mode = SelectionMode::of(context.request().placement(), self.extra);
        explain::explain(&SelectContext::new(context), mode, candidates)
    }
}

fn select(
    context: &SelectContext<'_>,
    mode: SelectionMode,
    candidates: Vec<Candidate>,
) -> Result<Vec<Candidate>, SelectError> {
    match mode {
        SelectionMode::All => Ok(candidates),
        SelectionMode::ByCluster => cluster::select(context, candidates),
        SelectionMode::ByRegion => region::select(context, candidates),
        SelectionMode::ExtraTopologies => extra_topologies::select(context, candidates),
        SelectionMode::Unsupported => Err(SelectError::Unsupported),
    }
}

/// Selects clusters that together have room for as many replicas as possible, because the other replicas may wait.
fn select_for_most(
    context: &SelectContext<'_>,
    mode: SelectionMode,
    candidates: &[Candidate],
) -> Result<Vec<Candidate>, SelectError> {
    let with_capacity = |required: i64| {
        let context = SelectContext {
            required_capacity: Some(required),
            ..*context
        };
        select(&context, mode, candidates.to_vec())
    };
    let Some(required) = context.required_capacity else {
        return select(context, mode, candidates.to_vec());
    };
    let all = with_capacity(required);
    if all.is_ok() {
        return all;
    }
    let mut most = with_capacity(0)?;
    let (mut possible, mut impossible) = (0, required);
    while impossible - possible > 1 {
        let middle = possible + (impossible - possible) / 2;
        match with_capacity(middle) {
            Ok(selected) => (possible, most) = (middle, selected),
            Err(_) => impossible = middle,
        }
    }
    Ok(most)
}

/// Returns the required total capacity of the selected clusters, or `None` if any capacity suffices.
fn required_capacity(context: &BindingContext<'_>) -> Option<i64> {
    let request = context.request();
    if request.placement().duplicates() {
        return None;
    }
    Some(match context.attempt().unit() {
        Unit::ComponentSets => 1,
        Unit::Replicas => request.replicas(),
    })
}

/// The use of spread constraints that Karmada ignores. Each field is the value of a feature gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ExtraConstraints {
    /// True if constraints by zone, provider and label apply to a placement with a constraint by cluster or region.
    with_cluster_or_region: bool,
    /// True if constraints apply to a placement with static weights.
    with_static_weights: bool,
}

impl ExtraConstraints {
    fn new(gates: EngineGates) -> Self {
        Self {
            with_cluster_or_region: gates.spread_by_all_fields,
            with_static_weights: gates.spread_static_weights,
        }
    }
}

/// The input of the selection, except for the candidates.
#[derive(Clone, Copy, Debug)]
struct SelectContext<'a> {
    snapshot: &'a Snapshot,
    placement: &'a CompiledPlacement,
    /// The requested replicas.
    replicas: i64,
    /// The required total capacity of the selected clusters, or `None` if any capacity suffices.
    required_capacity: Option<i64>,
}

impl<'a> SelectContext<'a> {
    fn new(context: &BindingContext<'a>) -> Self {
        Self {
            snapshot: context.snapshot(),
            placement: context.request().placement(),
            replicas: context.request().replicas(),
            required_capacity: required_capacity(context),
        }
    }
}

/// The reason why the spread constraints cannot be satisfied. All messages except [`Self::TooFewGroups`] are the same
/// as in Karmada.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum SelectError {
    #[error("the number of feasible clusters is less than spreadConstraint.MinGroups")]
    TooFewClusters,
    #[error("no enough resource when selecting {0} clusters")]
    InsufficientCapacity(usize),
    #[error("the number of feasible region is less than spreadConstraint.MinGroups")]
    TooFewRegions,
    #[error("the number of clusters is less than the cluster spreadConstraint.MinGroups")]
    NoRegionsTogether,
    #[error("the number of feasible {0} is less than spreadConstraint.MinGroups")]
    TooFewGroups(&'static str),
    #[error("just support cluster and region spread constraint")]
    Unsupported,
}

/// The method that selects clusters by the spread constraints of a placement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SelectionMode {
    /// Selects every candidate.
    All,
    /// Selects a bounded number of the most preferred clusters.
    ByCluster,
    /// Selects clusters in the best regions.
    ByRegion,
    /// Selects clusters in the best zones, providers or label values. Karmada ignores such constraints.
    ExtraTopologies,
    /// Fails, because the constraints have only unknown fields.
    Unsupported,
}

impl SelectionMode {
    fn of(placement: &CompiledPlacement, extra: ExtraConstraints) -> Self {
        let skipped = placement.static_weights_skip_constraints() && !extra.with_static_weights;
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
        if by_others && (extra.with_cluster_or_region || !(by_region || by_cluster)) {
            Self::ExtraTopologies
        } else if by_region {
            Self::ByRegion
        } else if by_cluster {
            Self::ByCluster
        } else {
            Self::Unsupported
        }
    }
}
