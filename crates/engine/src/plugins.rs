//! The in-tree plugins: the plugins of Karmada, one plugin for the Select point, and one plugin for the Assign point.
//!
//! These plugins use only public items of the crate: `tests/decisions/out_of_tree.rs` compiles their sources in another
//! crate.

pub(crate) mod api_enablement;
pub(crate) mod assign_replicas;
pub(crate) mod cluster_affinity;
pub(crate) mod cluster_eviction;
pub(crate) mod cluster_locality;
pub(crate) mod select_clusters;
pub(crate) mod spread_constraint;
pub(crate) mod taint_toleration;
pub(crate) mod workload_affinity;

use std::sync::Arc;

use berth_api::feature_gates::EngineGates;

use crate::estimate::{Estimator, GeneralEstimator};
use crate::framework::{Filter, Plugins, Score, Weighted};

pub use api_enablement::ApiEnablement;
pub use assign_replicas::{AssignReplicas, Party, divide};
pub use cluster_affinity::ClusterAffinity;
pub use cluster_eviction::ClusterEviction;
pub use cluster_locality::ClusterLocality;
pub use select_clusters::{
    Group, SelectClusters, applied_constraints, covered_groups, select_groups,
};
pub use spread_constraint::SpreadConstraint;
pub use taint_toleration::TaintToleration;
pub use workload_affinity::{WorkloadAffinity, WorkloadAntiAffinity};

/// The names of the in-tree filter and score plugins that need no feature gate.
pub const IN_TREE: [&str; 6] = [
    ApiEnablement::NAME,
    ClusterAffinity::NAME,
    ClusterEviction::NAME,
    ClusterLocality::NAME,
    SpreadConstraint::NAME,
    TaintToleration::NAME,
];

/// The names of the in-tree plugins that need the feature gate WorkloadAffinity.
pub const GATED: [&str; 2] = [WorkloadAffinity::NAME, WorkloadAntiAffinity::NAME];

impl Plugins {
    /// Returns the plugins of this crate in Karmada's order.
    pub fn in_tree(gates: EngineGates) -> Self {
        let mut filters = vec![
            Filter::Binding(Arc::new(ApiEnablement::new(gates))),
            Filter::Placement(Arc::new(TaintToleration)),
            Filter::Placement(Arc::new(ClusterAffinity)),
            Filter::Placement(Arc::new(SpreadConstraint)),
            Filter::Binding(Arc::new(ClusterEviction)),
        ];
        if gates.workload_affinity {
            filters.push(Filter::Binding(Arc::new(WorkloadAffinity)));
            filters.push(Filter::Binding(Arc::new(WorkloadAntiAffinity)));
        }
        let locality: Arc<dyn Score> = Arc::new(ClusterLocality);
        let general = GeneralEstimator::new(gates);
        let general: Arc<dyn Estimator> = Arc::new(general);
        Self {
            pre_filters: Vec::new(),
            filters,
            pre_scores: Vec::new(),
            scores: vec![Weighted {
                plugin: locality,
                weight: 1,
            }],
            estimators: vec![general],
            select: Arc::new(SelectClusters::new(gates)),
            assign: Arc::new(AssignReplicas::new(gates)),
        }
    }
}
