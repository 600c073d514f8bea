//! The groups of a spread constraint that a set of clusters covers.

use std::collections::BTreeSet;

use berth_api::feature_gates::EngineGates;

use super::extra_topologies::{distinct, groups_of};
use super::{ExtraConstraints, SelectionMode};
use crate::{CompiledPlacement, Constraint, Snapshot, SpreadBy};

/// Returns the spread constraints of a placement by which the plugin SelectClusters selects clusters.
pub fn applied_constraints(placement: &CompiledPlacement, gates: EngineGates) -> Vec<&Constraint> {
    let applies = |by: &SpreadBy| match SelectionMode::of(placement, ExtraConstraints::new(gates)) {
        SelectionMode::All | SelectionMode::Unsupported => false,
        SelectionMode::ByCluster => *by == SpreadBy::Cluster,
        SelectionMode::ByRegion => matches!(by, SpreadBy::Cluster | SpreadBy::Region),
        SelectionMode::ExtraTopologies => *by != SpreadBy::Unknown,
    };
    let mut constraints = distinct(placement);
    constraints.retain(|constraint| applies(constraint.by()));
    constraints
}

/// Returns the names of the groups to which clusters belong. Clusters are given by their ordinals.
pub fn covered_groups<'a>(
    snapshot: &'a Snapshot,
    by: &SpreadBy,
    clusters: impl IntoIterator<Item = usize>,
) -> BTreeSet<&'a str> {
    let clusters = clusters.into_iter();
    clusters
        .filter_map(|ordinal| snapshot.cluster(ordinal))
        .flat_map(|cluster| match by {
            SpreadBy::Cluster => vec![cluster.name()],
            by => groups_of(&cluster, by),
        })
        .collect()
}
